//===- Format.cpp - string.format -------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Lua's own would print addresses of tables, and says "number has no integer
/// representation" where an author wants to hear which argument it was.
///
//===----------------------------------------------------------------------===//

#include "Script/Binding.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"
#include <cmath>
#include <cstdio>

using namespace llvm;

namespace culprit {

static constexpr size_t MaxResult = size_t(16) << 20;

namespace {
/// One `%-8.3f`.
struct Directive {
  std::string Text; ///< Without the conversion: %-8.3
  char Conversion = 0;
};
} // namespace

/// Takes the directive at the begin of \p Rest, after its `%`.
static Expected<Directive> takeDirective(StringRef &Rest) {
  StringRef All = Rest;
  Directive Out;
  Out.Text = "%";
  while (!Rest.empty() && StringRef("-+ #0").contains(Rest.front()) &&
         Out.Text.size() < 6) {
    Out.Text += Rest.front();
    Rest = Rest.drop_front();
  }
  auto Digits = [&] {
    for (int I = 0; I != 2 && !Rest.empty() && isDigit(Rest.front()); ++I) {
      Out.Text += Rest.front();
      Rest = Rest.drop_front();
    }
  };
  Digits();
  if (Rest.consume_front(".")) {
    Out.Text += '.';
    Digits();
  }
  if (Rest.empty() || !StringRef("diucxXoeEfFgGaAsq").contains(Rest.front()))
    return failure("'%" + All.take_front(All.size() - Rest.size() + 1) +
                       "' is no directive of 'format'",
                   "write %% for a percent sign");
  Out.Conversion = Rest.front();
  Rest = Rest.drop_front();
  return Out;
}

/// Appends argument \p I as \p D says.
static Error formatOne(Call &C, int I, const Directive &D, std::string &Out) {
  lua_State *L = C.state();
  // Width and precision are two digits each, so that numbers fit.
  char Buffer[512];
  std::string Spec = D.Text;
  if (I > C.count())
    return failure("'format' lacks a value for '" + D.Text + D.Conversion +
                   "'");
  switch (D.Conversion) {
  case 's': {
    std::string Text = textOf(L, C.slot(I));
    if (Spec == "%") {
      Out += Text;
      return Error::success();
    }
    // Cut and pad here: a text may be longer than any buffer.
    StringRef Width = StringRef(Spec).drop_front();
    bool Left = Width.contains('-');
    Width = Width.ltrim("-+ #0");
    auto [Wide, Precision] = Width.split('.');
    size_t Least = 0, Most = Text.size();
    (void)Wide.getAsInteger(10, Least);
    if (Width.contains('.') && Precision.getAsInteger(10, Most))
      Most = 0;
    Text.resize(std::min(Text.size(), Most));
    std::string Padding(Least > Text.size() ? Least - Text.size() : 0, ' ');
    Out += Left ? Text + Padding : Padding + Text;
    return Error::success();
  }
  case 'q': {
    raw_string_ostream OS(Out);
    OS << '"';
    printEscapedString(textOf(L, C.slot(I)), OS);
    OS << '"';
    return Error::success();
  }
  case 'c':
    Out += static_cast<char>(C.integer(I));
    return C.failed() ? C.error() : Error::success();
  case 'd':
  case 'i':
  case 'u':
  case 'x':
  case 'X':
  case 'o': {
    if (lua_type(L, C.slot(I)) != LUA_TNUMBER)
      break;
    int Whole = 0;
    lua_Integer Value = lua_tointegerx(L, C.slot(I), &Whole);
    if (!Whole)
      return failure("'" + D.Text + D.Conversion +
                         "' wants a whole number, and argument " + Twine(I) +
                         " of 'format' is " + textOf(L, C.slot(I)),
                     "write %.0f, or math.floor first");
    Spec += "ll";
    Spec += D.Conversion;
    std::snprintf(Buffer, sizeof(Buffer), Spec.c_str(),
                  static_cast<long long>(Value));
    Out += Buffer;
    return Error::success();
  }
  default: {
    if (lua_type(L, C.slot(I)) != LUA_TNUMBER)
      break;
    double Value = lua_tonumber(L, C.slot(I));
    Spec += D.Conversion;
    if (std::isnan(Value)) { // without the sign, which means nothing
      Out += "nan";
      return Error::success();
    }
    std::snprintf(Buffer, sizeof(Buffer), Spec.c_str(), Value);
    Out += Buffer;
    return Error::success();
  }
  }
  C.reject("argument " + Twine(I) + " of 'format' must be a number for '" +
               D.Text + Twine(D.Conversion) + "', not " + wordFor(L, C.slot(I)),
           lua_isnil(L, C.slot(I))
               ? "a field of a row is nil where the case has no value"
               : "");
  return C.error();
}

Expected<int> stringFormat(Call &C) {
  StringRef Rest = C.text(1);
  if (C.failed())
    return C.error();
  std::string Out;
  int Next = 2;
  while (!Rest.empty()) {
    auto [Plain, After] = Rest.split('%');
    Out += Plain;
    if (Plain.size() == Rest.size())
      break;
    Rest = After;
    if (Rest.consume_front("%")) {
      Out += '%';
      continue;
    }
    Expected<Directive> D = takeDirective(Rest);
    if (!D)
      return D.takeError();
    if (Error E = formatOne(C, Next++, *D, Out))
      return E;
    if (Out.size() > MaxResult)
      return failure("format() would make a text of more than 16 MiB");
  }
  return C.push(Out);
}

} // namespace culprit
