//===- StringVerbs.cpp - Functions on text ----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// All take time linear in what they read and write (glob: in the product of
/// text and pattern), and a text as a receiver may be a number, as in Lua.
///
//===----------------------------------------------------------------------===//

#include "Script/Binding.h"
#include "Support/FindText.h"
#include "Support/Glob.h"
#include "Support/Units.h"
#include "llvm/ADT/StringExtras.h"
#include <cmath>

using namespace llvm;

namespace culprit {

static constexpr size_t MaxMade = size_t(1) << 20;
static constexpr size_t MaxParts = 100000;

/// Argument 1, which may be a number.
static std::string subject(Call &C) {
  if (lua_type(C.state(), 1) == LUA_TNUMBER)
    return textOf(C.state(), 1);
  return C.text(1).str();
}

Expected<int> stringSub(Call &C) {
  std::string Text = subject(C);
  int64_t Size = static_cast<int64_t>(Text.size());
  int64_t First = C.integer(2), Last = C.integer(3, -1);
  if (C.failed())
    return C.error();
  if (First < 0)
    First = std::max<int64_t>(Size + First + 1, 1);
  if (Last < 0)
    Last = Size + Last + 1;
  First = std::max<int64_t>(First, 1);
  Last = std::min(Last, Size);
  if (First > Last)
    return C.push(StringRef(""));
  return C.push(Text.substr(static_cast<size_t>(First - 1),
                            static_cast<size_t>(Last - First + 1)));
}

Expected<int> stringLower(Call &C) {
  std::string Text = subject(C);
  if (C.failed())
    return C.error();
  return C.push(StringRef(Text).lower());
}

Expected<int> stringUpper(Call &C) {
  std::string Text = subject(C);
  if (C.failed())
    return C.error();
  return C.push(StringRef(Text).upper());
}

Expected<int> stringLen(Call &C) {
  std::string Text = subject(C);
  if (C.failed())
    return C.error();
  return C.push(static_cast<int64_t>(Text.size()));
}

Expected<int> stringRep(Call &C) {
  std::string Text = subject(C);
  size_t Times = C.size(2);
  StringRef Separator = C.text(3, "");
  if (C.failed())
    return C.error();
  size_t Part = Text.size() + Separator.size();
  if (Part && Times > MaxMade / Part)
    return failure("rep() would make a text of more than " +
                   formatBytes(static_cast<double>(MaxMade)));
  std::string Out;
  for (size_t I = 0; Part && I != Times; ++I)
    Out += (I ? Separator : "").str() + Text;
  return C.push(Out);
}

Expected<int> stringByte(Call &C) {
  std::string Text = subject(C);
  int64_t Index = C.integer(2, 1);
  if (C.failed())
    return C.error();
  int64_t Size = static_cast<int64_t>(Text.size());
  if (Index < 0)
    Index = Size + Index + 1;
  if (Index < 1 || Index > Size)
    return C.pushNil();
  return C.push(static_cast<int64_t>(
      static_cast<unsigned char>(Text[static_cast<size_t>(Index - 1)])));
}

Expected<int> stringTrim(Call &C) {
  std::string Text = subject(C);
  if (C.failed())
    return C.error();
  return C.push(StringRef(Text).trim());
}

Expected<int> stringContains(Call &C) {
  std::string Text = subject(C);
  StringRef Wanted = C.text(2);
  if (C.failed())
    return C.error();
  return C.push(Wanted.empty() || containsText(Text, Wanted));
}

Expected<int> stringStartsWith(Call &C) {
  std::string Text = subject(C);
  StringRef Wanted = C.text(2);
  if (C.failed())
    return C.error();
  return C.push(StringRef(Text).starts_with(Wanted));
}

Expected<int> stringEndsWith(Call &C) {
  std::string Text = subject(C);
  StringRef Wanted = C.text(2);
  if (C.failed())
    return C.error();
  return C.push(StringRef(Text).ends_with(Wanted));
}

Expected<int> stringGlob(Call &C) {
  std::string Text = subject(C);
  StringRef Patterns = C.text(2);
  if (C.failed())
    return C.error();
  if (Patterns.size() > 4096 || Text.size() > MaxMade)
    return failure("glob() wants a pattern of at most 4,096 characters and a "
                   "text of at most 1 MiB");
  SmallVector<StringRef, 8> Alternatives;
  Patterns.split(Alternatives, '|');
  bool Matches = false;
  for (StringRef Pattern : Alternatives)
    Matches |= globMatch(Pattern, Text);
  return C.push(Matches);
}

Expected<int> stringIndex(Call &C) {
  std::string Text = subject(C);
  StringRef Wanted = C.text(2);
  int64_t From = C.integer(3, 1);
  if (C.failed())
    return C.error();
  if (From < 1)
    C.rejectType(3, "1 or more");
  if (C.failed())
    return C.error();
  size_t Begin = static_cast<size_t>(From - 1);
  size_t At = Wanted.empty() ? (Begin <= Text.size() ? Begin : StringRef::npos)
                             : findText(Text, Wanted, Begin);
  if (At == StringRef::npos)
    return C.pushNil();
  return C.push(static_cast<int64_t>(At + 1));
}

Expected<int> stringSplit(Call &C) {
  lua_State *L = C.state();
  std::string Text = subject(C);
  StringRef Separator = C.text(2);
  if (!C.failed() && Separator.empty())
    C.rejectType(2, "a text of one character or more");
  if (C.failed())
    return C.error();
  SmallVector<StringRef, 16> Parts;
  StringRef Rest = Text;
  for (size_t At; Parts.size() != MaxParts &&
                  (At = findText(Rest, Separator)) != StringRef::npos;
       Rest = Rest.drop_front(At + Separator.size()))
    Parts.push_back(Rest.take_front(At));
  Parts.push_back(Rest);
  lua_createtable(L, static_cast<int>(Parts.size()), 0);
  for (size_t I = 0; I != Parts.size(); ++I) {
    lua_pushlstring(L, Parts[I].data(), Parts[I].size());
    lua_rawseti(L, -2, static_cast<lua_Integer>(I + 1));
  }
  return 1;
}

Expected<int> stringReplace(Call &C) {
  std::string Text = subject(C);
  StringRef Wanted = C.text(2), By = C.text(3);
  if (!C.failed() && Wanted.empty())
    C.rejectType(2, "a text of one character or more");
  if (C.failed())
    return C.error();
  std::string Out;
  StringRef Rest = Text;
  for (size_t At; (At = findText(Rest, Wanted)) != StringRef::npos;) {
    Out += Rest.take_front(At);
    Out += By;
    Rest = Rest.drop_front(At + Wanted.size());
    if (Out.size() > MaxMade)
      return failure("replace() would make a text of more than " +
                     formatBytes(static_cast<double>(MaxMade)));
  }
  Out += Rest;
  return C.push(Out);
}

/// A decimal number at the begin of \p Text: its length, or 0.
static size_t numberLength(StringRef Text) {
  size_t I = 0;
  auto Digits = [&] {
    size_t First = I;
    while (I < Text.size() && isDigit(Text[I]))
      ++I;
    return I - First;
  };
  if (Text.starts_with("-") || Text.starts_with("+"))
    ++I;
  if (!Digits())
    return 0;
  if (I + 1 < Text.size() && Text[I] == '.' && isDigit(Text[I + 1])) {
    ++I;
    Digits();
  }
  size_t Whole = I;
  if (I < Text.size() && (Text[I] == 'e' || Text[I] == 'E')) {
    ++I;
    if (I < Text.size() && (Text[I] == '-' || Text[I] == '+'))
      ++I;
    if (!Digits())
      I = Whole;
  }
  return I;
}

Expected<int> stringNumbers(Call &C) {
  lua_State *L = C.state();
  std::string Text = subject(C);
  if (C.failed())
    return C.error();
  lua_newtable(L);
  lua_Integer Count = 0;
  StringRef Rest = Text;
  char Before = ' ';
  while (!Rest.empty() && Count != static_cast<lua_Integer>(MaxParts)) {
    // A sign belongs to a number after a space or a bracket: "10-20" has two
    // positive ones.
    bool Sign = Rest.front() == '-' || Rest.front() == '+';
    size_t Length =
        Sign && (isAlnum(Before) || Before == '.') ? 0 : numberLength(Rest);
    if (Length == 0 || isAlpha(Before) || Before == '_') {
      // The digits of a word, as in fp16, are no number.
      Length = std::max<size_t>(Length, 1);
      Before = Rest[Length - 1];
      if (Length > 1 || isDigit(Before))
        Before = 'a';
      Rest = Rest.drop_front(Length);
      continue;
    }
    StringRef Digits = Rest.take_front(Length);
    Digits.consume_front("+");
    int64_t Whole;
    double Number = 0;
    if (!Digits.getAsInteger(10, Whole)) {
      lua_pushinteger(L, Whole);
    } else {
      (void)Digits.getAsDouble(Number);
      lua_pushnumber(L, Number);
    }
    lua_rawseti(L, -2, ++Count);
    Before = Rest[Length - 1];
    Rest = Rest.drop_front(Length);
  }
  return 1;
}

// Units --------------------------------------------------------------------//

Expected<int> unitsFormat(Call &C) {
  double Value = C.number(1);
  if (C.failed())
    return C.error();
  if (!std::isfinite(Value))
    return C.push(formatNumber(Value));
  return C.push(formatDuration(
      static_cast<int64_t>(std::clamp(std::round(Value), -9e18, 9e18))));
}

Expected<int> unitsBytes(Call &C) {
  double Value = C.number(1);
  if (C.failed())
    return C.error();
  return C.push(formatBytes(Value));
}

Expected<int> unitsCount(Call &C) {
  double Value = C.number(1);
  if (C.failed())
    return C.error();
  if (std::isfinite(Value) && Value == std::round(Value) &&
      std::fabs(Value) < 9e18)
    return C.push(formatCount(static_cast<int64_t>(Value)));
  return C.push(formatNumber(Value));
}

Expected<int> unitsPlural(Call &C) {
  double Value = C.number(1);
  StringRef One = C.text(2), Many = C.text(3, "");
  if (C.failed())
    return C.error();
  std::string Count = std::isfinite(Value) && Value == std::round(Value) &&
                              std::fabs(Value) < 9e18
                          ? formatCount(static_cast<int64_t>(Value))
                          : formatNumber(Value);
  if (Value == 1)
    return C.push(Count + " " + One.str());
  return C.push(Count + " " + (Many.empty() ? One.str() + "s" : Many.str()));
}

Expected<int> unitsPercent(Call &C) {
  double Value = C.number(1) * 100;
  if (C.failed())
    return C.error();
  // 12 %, 3.4 %, 0.25 %: two significant digits below ten.
  return C.push((std::fabs(Value) >= 9.95 ? formatNumber(std::round(Value), 6)
                                          : formatNumber(Value, 2)) +
                " %");
}

Expected<int> unitsNumber(Call &C) {
  double Value = C.number(1);
  int64_t Digits = C.integer(2, 4);
  if (!C.failed() && (Digits < 1 || Digits > 17))
    C.rejectType(2, "from 1 to 17");
  if (C.failed())
    return C.error();
  return C.push(formatNumber(Value, static_cast<int>(Digits)));
}

} // namespace culprit
