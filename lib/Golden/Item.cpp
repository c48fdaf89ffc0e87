//===- Item.cpp -------------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Golden/Item.h"
#include "Support/Error.h"
#include "Support/Glob.h"
#include "Support/LooseJson.h"
#include "Support/Units.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/xxhash.h"
#include <cmath>

using namespace llvm;

namespace culprit {

using Kind = GoldenKind;
using Subject = GoldenSubject;

namespace {
/// What items about one subject look like.
struct Rule {
  Subject Of;
  StringLiteral Name;
  std::initializer_list<Kind> Kinds;
  /// Keys that it must have; those that end in # are numbers, in [] lists of
  /// numbers, in {} maps.
  std::initializer_list<StringLiteral> Wants;
  std::initializer_list<StringLiteral> Tolerances;
};
} // namespace

static ArrayRef<Rule> rules() {
  static const Rule Rules[] = {
      {Subject::Answer, "answer", {Kind::Exact, Kind::Structural},
       {"hash", "bytes#", "text"}, {}},
      {Subject::Prompt, "prompt", {Kind::Exact}, {}, {}},
      {Subject::Ids, "ids", {Kind::Exact, Kind::Structural},
       {"hash", "count#", "ids[]"}, {}},
      {Subject::Sample, "sample", {Kind::Statistical},
       {"count#", "mean#", "sd#", "points[]"}, {"k", "p", "rtol", "atol"}},
      {Subject::Shares, "shares", {Kind::Statistical}, {"count#", "shares{}"},
       {"k", "atol"}},
      {Subject::Level, "level",
       {Kind::Regression, Kind::Statistical, Kind::Exact},
       {"value#", "low#", "high#", "better"}, {"rtol", "atol"}},
      {Subject::Tensor, "tensor",
       {Kind::Statistical, Kind::Exact, Kind::Structural},
       {"dtype", "shape[]", "stats{}"}, {"rtol", "atol"}},
      {Subject::Schema, "schema", {Kind::Structural, Kind::Exact},
       {"fields{}"}, {}},
      {Subject::Layout, "layout", {Kind::Structural, Kind::Exact},
       {"fields{}"}, {}},
      {Subject::Settings, "settings", {Kind::Exact, Kind::Structural},
       {"fields{}"}, {}},
      {Subject::Counts, "counts", {Kind::Exact}, {"fields{}"}, {}},
  };
  return Rules;
}

static const Rule &ruleOf(Subject S) { return rules()[size_t(S)]; }

StringRef toString(Kind K) {
  switch (K) {
  case Kind::Exact:
    return "exact";
  case Kind::Statistical:
    return "statistical";
  case Kind::Structural:
    return "structural";
  case Kind::Regression:
    break;
  }
  return "regression";
}

StringRef toString(Subject S) { return ruleOf(S).Name; }

std::optional<Kind> goldenKind(StringRef Word) {
  for (Kind K : {Kind::Exact, Kind::Statistical, Kind::Structural,
                 Kind::Regression})
    if (toString(K) == Word)
      return K;
  return std::nullopt;
}

std::optional<Subject> goldenSubject(StringRef Word) {
  for (const Rule &R : rules())
    if (R.Name == Word)
      return R.Of;
  return std::nullopt;
}

ArrayRef<Kind> kindsFor(Subject S) { return ruleOf(S).Kinds; }

const GoldenValue *GoldenItem::find(StringRef Key) const {
  for (const auto &[Name, Value] : Values)
    if (Name == Key)
      return &Value;
  return nullptr;
}

StringRef GoldenItem::text(StringRef Key) const {
  const GoldenValue *V = find(Key);
  return V && V->Is == GoldenValue::Form::Text ? StringRef(V->Text) : "";
}

std::optional<double> GoldenItem::number(StringRef Key) const {
  return parseNumber(text(Key));
}

std::optional<int64_t> GoldenItem::integer(StringRef Key) const {
  int64_t Value = 0;
  if (text(Key).getAsInteger(10, Value))
    return std::nullopt;
  return Value;
}

std::vector<double> GoldenItem::numbers(StringRef Key) const {
  std::vector<double> Out;
  if (const GoldenValue *V = find(Key))
    for (const std::string &Word : V->List)
      Out.push_back(parseNumber(Word).value_or(std::nan("")));
  return Out;
}

std::vector<int64_t> GoldenItem::integers(StringRef Key) const {
  std::vector<int64_t> Out;
  if (const GoldenValue *V = find(Key))
    for (const std::string &Word : V->List) {
      int64_t Value = 0;
      StringRef(Word).getAsInteger(10, Value);
      Out.push_back(Value);
    }
  return Out;
}

std::optional<double> GoldenItem::number(StringRef Key, StringRef Name) const {
  if (const GoldenValue *V = find(Key))
    for (const auto &[Word, Text] : V->Map)
      if (Word == Name)
        return parseNumber(Text);
  return std::nullopt;
}

double GoldenItem::tolerance(StringRef Name) const {
  for (const auto &[Word, Value] : Tolerance)
    if (Word == Name)
      return Value;
  return 0;
}

void GoldenItem::set(StringRef Key, StringRef Text) {
  GoldenValue V;
  V.Text = Text.str();
  Values.push_back({Key.str(), std::move(V)});
}

void GoldenItem::set(StringRef Key, int64_t Number) {
  set(Key, std::to_string(Number));
}

void GoldenItem::set(StringRef Key, double Number, int Digits) {
  set(Key, formatNumber(Number, Digits));
}

void GoldenItem::set(StringRef Key, ArrayRef<double> Numbers, int Digits) {
  GoldenValue V;
  V.Is = GoldenValue::Form::List;
  for (double N : Numbers)
    V.List.push_back(formatNumber(N, Digits));
  Values.push_back({Key.str(), std::move(V)});
}

void GoldenItem::set(StringRef Key, ArrayRef<int64_t> Numbers) {
  GoldenValue V;
  V.Is = GoldenValue::Form::List;
  for (int64_t N : Numbers)
    V.List.push_back(std::to_string(N));
  Values.push_back({Key.str(), std::move(V)});
}

void GoldenItem::set(StringRef Key,
                     std::vector<std::pair<std::string, std::string>> Map) {
  GoldenValue V;
  V.Is = GoldenValue::Form::Map;
  V.Map = std::move(Map);
  Values.push_back({Key.str(), std::move(V)});
}

/// What is wrong with the value of \p Item that \p Want asks for; empty for
/// nothing.
static std::string wrongWith(const GoldenItem &Item, StringRef Want) {
  const bool Number = Want.consume_back("#"), List = Want.consume_back("[]"),
             Map = Want.consume_back("{}");
  const GoldenValue *V = Item.find(Want);
  const auto Is = [&](GoldenValue::Form F) { return V && V->Is == F; };
  const std::string Name = ("'" + Want + "'").str();
  if (!V)
    return Name + " is missing";
  if (Map)
    return Is(GoldenValue::Form::Map) ? "" : Name + " is no mapping";
  if (List) {
    if (!Is(GoldenValue::Form::List))
      return Name + " is no list of numbers";
    // A sketch may have NaN, as its tensor.
    for (const std::string &Word : V->List)
      if (std::optional<double> N = parseNumber(Word);
          !N || (Want == "points" && !std::isfinite(*N)))
        return Name + " has '" + Word + "', which is no number";
    return "";
  }
  if (!Is(GoldenValue::Form::Text))
    return Name + " is no single value";
  if (!Number)
    return "";
  const std::optional<double> N = parseNumber(V->Text);
  if (!N || !std::isfinite(*N))
    return Name + " is '" + V->Text + "', which is no number";
  const double Least = Item.Of == Subject::Ids ? 0 : 1;
  if (Want == "count" &&
      (*N < Least || *N > 1e15 || *N != std::floor(*N)))
    return Name + " is '" + V->Text + "', which is no count";
  return "";
}

Error checkForm(const GoldenItem &Item, StringRef Path) {
  const Rule &R = ruleOf(Item.Of);
  const std::string Where =
      (Path + ":" + Twine(Item.FirstLine) + ": item '" + Item.Id + "': ").str();
  if (!is_contained(R.Kinds, Item.Kind)) {
    std::vector<std::string> Names;
    for (Kind K : R.Kinds)
      Names.push_back(toString(K).str());
    return failure(Where + "kind '" + toString(Item.Kind) + "' does not fit " +
                       (R.Name == "answer" || R.Name == "ids" ? "an " : "a ") +
                       R.Name,
                   "one of " + join(Names, ", "));
  }
  for (StringRef Want : R.Wants)
    if (std::string Wrong = wrongWith(Item, Want); !Wrong.empty())
      return failure(Where + Wrong,
                     "restore the line, or record the item anew: culprit "
                     "golden verify --accept='" + Item.Id + "' ...");
  for (const auto &[Name, Value] : Item.Tolerance) {
    if (!is_contained(R.Tolerances, StringRef(Name)))
      return failure(
          Where + "there is no tolerance '" + Name + "' of a " + R.Name,
          R.Tolerances.size() == 0 ? Twine("it has none: write none")
                                   : "one of " + join(R.Tolerances, ", "));
    if (!(Value >= 0) || std::isinf(Value))
      return failure(Where + "tolerance '" + Name + "' is " +
                         formatNumber(Value) + ", not a number from 0 on",
                     "for example " + Name + ": 0.1");
  }
  if (Item.Of == Subject::Level && Item.text("better") != "lower" &&
      Item.text("better") != "higher")
    return failure(Where + "'better' is '" + Item.text("better") + "'",
                   "lower or higher");
  return Error::success();
}

std::string goldenHash(StringRef Bytes) {
  std::string Digits = utohexstr(xxh3_64bits(Bytes), /*LowerCase=*/true);
  return "xxh3:" + std::string(16 - Digits.size(), '0') + Digits;
}

} // namespace culprit
