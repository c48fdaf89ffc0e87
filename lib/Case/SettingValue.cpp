//===- SettingValue.cpp -----------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Case/SettingValue.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include <cmath>

using namespace llvm;

namespace culprit {

/// Without the quotes around it.
static StringRef bare(StringRef Value) {
  Value = Value.trim();
  if (Value.size() >= 2 && (Value[0] == '"' || Value[0] == '\'') &&
      Value.back() == Value[0])
    return Value.drop_front().drop_back();
  return Value;
}

bool isUnsetValue(StringRef Value) {
  Value = bare(Value);
  return Value.empty() || Value == "~" || Value == "-" ||
         Value.equals_insensitive("null") || Value.equals_insensitive("none") ||
         Value.equals_insensitive("nil") || Value.equals_insensitive("unset");
}

std::optional<double> settingNumber(StringRef Value) {
  Value = bare(Value);
  if (Value.empty() || !StringRef("0123456789+-.").contains(Value[0]))
    return std::nullopt;
  std::string Digits = Value.str();
  for (size_t I = 1; I + 1 < Digits.size();)
    if (Digits[I] == '_' && isDigit(Digits[I - 1]) && isDigit(Digits[I + 1]))
      Digits.erase(I, 1);
    else
      ++I;
  double Number = 0;
  StringRef Text = Digits;
  Text.consume_front("+");
  if (Text.getAsDouble(Number) || !std::isfinite(Number))
    return std::nullopt;
  return Number;
}

static std::optional<bool> truth(StringRef Value) {
  return StringSwitch<std::optional<bool>>(Value)
      .CasesLower("true", "yes", "on", "1", true)
      .CasesLower("false", "no", "off", "0", false)
      .Default(std::nullopt);
}

static bool isTruthWord(StringRef Value) {
  return truth(Value) && !isDigit(Value[0]);
}

/// The one name of a number format: bf16 for torch.bfloat16. Empty for none.
static StringRef numberFormat(StringRef Value) {
  Value.consume_front_insensitive("torch.");
  Value.consume_front_insensitive("jnp.");
  Value.consume_front_insensitive("np.");
  return StringSwitch<StringRef>(Value)
      // The last ones are Lightning's names, old and new.
      .CasesLower("bf16", "bfloat16", "bf16-mixed", "bf16")
      .CasesLower("fp16", "float16", "f16", "half", "fp16")
      .CasesLower("16-mixed", "16", "fp16")
      .CasesLower("fp32", "float32", "f32", "float", "single", "fp32")
      .CasesLower("32-true", "32", "fp32")
      .CasesLower("fp64", "float64", "f64", "double", "fp64")
      .CasesLower("fp8", "float8_e4m3fn", "fp8_e4m3", "fp8_e4m3fn", "fp8")
      .CasesLower("fp8_e5m2", "float8_e5m2", "fp8_e5m2")
      .Default("");
}

/// The value of an enumeration as its name: COSINE for SchedulerType.COSINE.
/// Python prints "<SchedulerType.COSINE: 'cosine'>" as well.
static StringRef enumMember(StringRef Value) {
  if (Value.starts_with("<") && Value.ends_with(">")) {
    StringRef Inner = Value.drop_front().drop_back().split(": ").second;
    return Inner.empty() ? Value : bare(Inner);
  }
  auto [Type, Name] = Value.split('.');
  const auto Is = [](StringRef Text, auto Fits) {
    return !Text.empty() && llvm::all_of(Text, Fits);
  };
  if (Type.size() > 2 && isUpper(Type[0]) && !Name.empty() &&
      isUpper(Name[0]) && // Qwen2.5 is none
      Type.find_if([](char C) { return isLower(C); }) != StringRef::npos &&
      Is(Type, [](char C) { return isAlnum(C); }) &&
      Is(Name, [](char C) { return isUpper(C) || isDigit(C) || C == '_'; }))
    return Name;
  return Value;
}

/// The elements of "[a, b]", "(a, b)"; of anything else none.
static std::optional<SmallVector<StringRef, 8>> elements(StringRef Value) {
  if (Value.size() < 2 || !((Value[0] == '[' && Value.back() == ']') ||
                            (Value[0] == '(' && Value.back() == ')')))
    return std::nullopt;
  SmallVector<StringRef, 8> Out;
  StringRef Inner = Value.drop_front().drop_back();
  size_t Begin = 0;
  int Depth = 0;
  char Quote = 0;
  for (size_t I = 0; I <= Inner.size(); ++I) {
    const char C = I == Inner.size() ? ',' : Inner[I];
    if (I == Inner.size())
      Quote = 0, Depth = 0;
    if (Quote)
      Quote = C == Quote ? 0 : Quote;
    else if (C == '"' || C == '\'')
      Quote = C;
    else if (C == '[' || C == '(' || C == '{')
      ++Depth;
    else if (C == ']' || C == ')' || C == '}')
      --Depth;
    else if (C == ',' && Depth <= 0) {
      if (StringRef One = Inner.slice(Begin, I).trim(); !One.empty())
        Out.push_back(One);
      Begin = I + 1;
    }
  }
  return Out;
}

/// Lists within lists are taken apart so far; beyond, they are texts.
static constexpr unsigned MostNested = 16;

static bool isSameValue(StringRef A, StringRef B, bool AsSet, unsigned Depth);

static bool sameLists(ArrayRef<StringRef> A, ArrayRef<StringRef> B, bool AsSet,
                      unsigned Depth) {
  const auto Same = [&](StringRef X, StringRef Y) {
    return isSameValue(X, Y, /*AsSet=*/false, Depth + 1);
  };
  const auto In = [&](StringRef One, ArrayRef<StringRef> List) {
    return any_of(List, [&](StringRef X) { return Same(One, X); });
  };
  // A set of thousands, as the names of frozen parameters, is compared in
  // order: the square of it is not worth the wait.
  if (AsSet && A.size() * B.size() <= 4'000'000)
    return all_of(A, [&](StringRef X) { return In(X, B); }) &&
           all_of(B, [&](StringRef X) { return In(X, A); });
  return A.size() == B.size() && all_of(zip(A, B), [&](const auto &P) {
           return Same(std::get<0>(P), std::get<1>(P));
         });
}

static bool isSameValue(StringRef A, StringRef B, bool AsSet, unsigned Depth) {
  A = enumMember(bare(A));
  B = enumMember(bare(B));
  if (A == B)
    return true;
  if (isUnsetValue(A) || isUnsetValue(B))
    return isUnsetValue(A) && isUnsetValue(B);
  std::optional<SmallVector<StringRef, 8>> ListA, ListB;
  if (Depth != MostNested) {
    ListA = elements(A);
    ListB = elements(B);
  }
  if (AsSet && (ListA || ListB)) {
    if (!ListA)
      ListA.emplace(1, A);
    if (!ListB)
      ListB.emplace(1, B);
  }
  if (ListA && ListB)
    return sameLists(*ListA, *ListB, AsSet, Depth);
  if (isTruthWord(A) || isTruthWord(B))
    return truth(A) && truth(A) == truth(B);
  const std::optional<double> X = settingNumber(A), Y = settingNumber(B);
  // A double holds no more than 15 digits: an id is no number.
  if (X && Y && A.size() > 15 && llvm::all_of(A, isDigit) &&
      llvm::all_of(B, isDigit))
    return A == B;
  if (X && Y)
    return *X == *Y;
  if (StringRef Format = numberFormat(A);
      !Format.empty() && Format == numberFormat(B))
    return true;
  if (A.size() > 64 || B.size() > 64)
    return false;
  return A.rtrim('/').equals_insensitive(B.rtrim('/'));
}

bool sameSettingValue(StringRef A, StringRef B, bool AsSet) {
  return isSameValue(A, B, AsSet, 0);
}

std::optional<double> settingSeconds(StringRef Value) {
  Value = bare(Value);
  const size_t End = Value.find_if([](char C) { return isAlpha(C); });
  if (End == StringRef::npos || End == 0)
    return std::nullopt;
  const std::optional<double> Number =
      settingNumber(Value.take_front(End).rtrim());
  const double Unit = StringSwitch<double>(Value.drop_front(End))
                          .Case("ms", 1e-3)
                          .Cases("s", "sec", "secs", "seconds", 1)
                          .Cases("m", "min", "mins", "minutes", 60)
                          .Cases("h", "hours", 3600)
                          .Default(0);
  if (!Number || Unit == 0)
    return std::nullopt;
  return *Number * Unit;
}

double unitOfKey(StringRef Plain) {
  if (Plain.ends_with("_ms") || Plain.ends_with("_millis") ||
      Plain.ends_with("_milliseconds"))
    return 1e-3;
  if (Plain.ends_with("_min") || Plain.ends_with("_mins") ||
      Plain.ends_with("_minutes"))
    return 60;
  return 1;
}

} // namespace culprit
