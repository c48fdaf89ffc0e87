//===- LogPairs.cpp - Numbers and the words before them ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/LogPlace.h"
#include "Readers/ScalarNames.h"
#include "Readers/ScalarUnits.h"
#include "Readers/TextLines.h"
#include "Support/LooseJson.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <charconv>
#include <limits>

using namespace llvm;

namespace culprit {

/// Whether a number may begin at \p I: not inside a word or another number.
static bool mayBegin(StringRef Text, size_t I) {
  if (I == 0)
    return true;
  char Before = Text[I - 1];
  return !isWordChar(Before) && Before != '.' && Before != '@' &&
         Before != '/' && Before != '-' && Before != '+';
}

/// The number at \p I as written, thousands separated or not; empty if none.
static StringRef numberAt(StringRef Text, size_t I) {
  size_t End = I;
  if (Text[End] == '-' || Text[End] == '+')
    ++End;
  StringRef Rest = Text.drop_front(End);
  for (StringRef Word : {"infinity", "nan", "inf"})
    if (Rest.starts_with_insensitive(Word) &&
        (Rest.size() == Word.size() || !isWordChar(Rest[Word.size()])))
      return Text.slice(I, End + Word.size());
  if (Rest.empty() ||
      !(isDigit(Rest[0]) ||
        (Rest[0] == '.' && Rest.size() > 1 && isDigit(Rest[1]))))
    return "";
  double Ignored;
  size_t Length =
      std::from_chars(Rest.begin(), Rest.end(), Ignored).ptr - Rest.begin();
  // 1,234,567
  while (Length && Rest.size() >= Length + 4 && Rest[Length] == ',' &&
         isDigit(Rest[Length + 1]) && isDigit(Rest[Length + 2]) &&
         isDigit(Rest[Length + 3]) &&
         (Rest.size() == Length + 4 || !isDigit(Rest[Length + 4])))
    Length += 4;
  return Text.slice(I, End + Length);
}

/// Removes what a scalar's type prints around it: "loss:np.float64(",
/// "loss:tensor(". False when there is no such thing.
static bool unwrap(StringRef &Before) {
  StringRef Open = Before;
  if (!Open.consume_back("("))
    return false;
  for (StringRef Type :
       {"tensor", "np.float64", "np.float32", "np.float16", "np.int64",
        "numpy.float64", "numpy.float32", "Array"}) {
    StringRef Rest = Open;
    if (Rest.consume_back(Type) && (Rest.empty() || !isWordChar(Rest.back()))) {
      Before = Rest;
      return true;
    }
  }
  return false;
}

/// The words in front of a number, between it and the last border.
static StringRef keyBefore(StringRef Before, bool &Assigned) {
  StringRef Trimmed = Before.rtrim(" \t([");
  Assigned = Trimmed.ends_with(":") || Trimmed.ends_with("=");
  if (Assigned)
    Trimmed = Trimmed.drop_back();
  Trimmed = Trimmed.rtrim(" \t:=");
  // A closing bracket of a unit is part of the key: "per iteration (ms):".
  size_t Border = Trimmed.find_last_of("|,;[]{}\"'\t");
  StringRef Key =
      Trimmed.drop_front(Border == StringRef::npos ? 0 : Border + 1);
  for (StringRef Part : {": ", " - ", "  "}) {
    size_t At = Key.rfind(Part);
    if (At != StringRef::npos)
      Key = Key.drop_front(At + Part.size());
  }
  // epoch=0/micro_step=40, "====> Epoch: 1"
  Key = Key.trim(" -:=)%").ltrim("/<> ");
  // That took the bracket of "(ms)" and "mfu(%)" with it.
  if (Key.count('(') > Key.count(')'))
    Key = StringRef(Key.data(), std::min<size_t>(Trimmed.end() - Key.data(),
                                                 Key.size() + 2))
              .rtrim();
  if (Key.count('(') > Key.count(')'))
    Key = Key.drop_front(Key.rfind('(') + 1);
  for (StringRef Filler : {" is", " was", " of", " ="})
    Key.consume_back(Filler);
  return Key.trim();
}

/// Digits behind the point of a number written without an exponent.
static unsigned decimalsOf(StringRef Written) {
  StringRef Fraction = Written.split('.').second;
  return Fraction.find_first_not_of("0123456789") == StringRef::npos
             ? Fraction.size()
             : 0;
}

/// "24.38 ms": a blank before the unit. Of times alone: "3 s" may be plural.
static StringRef unitBehindBlank(StringRef Rest) {
  if (!Rest.consume_front(" "))
    return "";
  StringRef Unit = Rest.take_while(isAlpha);
  const bool Time = Unit == "ms" || Unit == "msec" || Unit == "us";
  return Time && !Rest.drop_front(Unit.size()).starts_with("/") ? Unit : "";
}

/// The rate that stands behind a number and names it: "12345.67 words/s",
/// "8.59 ms/it", "0.45s/it". A bar's rate is one that it has smoothed.
static StringRef rateBehind(StringRef Rest) {
  Rest.consume_front(" ");
  StringRef Rate = Rest.take_while([](char C) {
    return isAlpha(C) || C == '/';
  });
  auto [Left, Right] = Rate.split('/');
  if (Left.empty() || Right.empty())
    return "";
  const bool Slow = Left == "s" || Left == "ms" || Left == "sec";
  const bool OfStep = is_contained({"it", "iter", "step", "batch"}, Right);
  return (Slow && OfStep) || isWorkRate(Rate.lower()) ? Rate : "";
}

/// Whether a bar of tqdm or Keras stands in the line.
static bool hasBar(StringRef Text) {
  return Text.contains("%|") || Text.contains("[=") || Text.contains("━");
}

/// A number that nothing stands in front of is named by what stands behind it.
static void nameByUnit(LoggedPair &P, StringRef Text) {
  if (!P.Key.empty() || P.Assigned || hasBar(Text))
    return;
  StringRef Rest = Text.drop_front(P.End - P.Unit.size());
  if (StringRef Rate = rateBehind(Rest); !Rate.empty()) {
    P.Key = Rate;
    P.Unit = "";
    P.End = Rate.end() - Text.data();
  } else if (P.Unit == "ms" &&
             Text.drop_front(P.End).ltrim().starts_with("|")) {
    P.Key = "step"; // of llm.c, between its bars
  }
}

void findPairs(StringRef Text, SmallVectorImpl<LoggedPair> &Pairs) {
  Pairs.clear();
  size_t Last = 0; // behind the number before
  for (size_t I = 0; I < Text.size(); ++I) {
    char C = Text[I];
    bool Sign = (C == '-' || C == '+') && I + 1 < Text.size();
    if (!(isDigit(C) || C == '.' || Sign || C == 'n' || C == 'N' || C == 'i' ||
          C == 'I') ||
        !mayBegin(Text, I))
      continue;
    StringRef Written = numberAt(Text, I);
    std::optional<double> Value = parseNumber(Written);
    if (Written.empty() || !Value)
      continue;
    size_t End = I + Written.size();
    LoggedPair P;
    P.Value = *Value;
    StringRef Before = Text.slice(Last, I);
    bool Wrapped = unwrap(Before);
    P.Key = keyBefore(Before, P.Assigned);
    P.Decimals = decimalsOf(Written);
    P.Begin = I;
    // "number of nan iterations" counts, "loss nan" is a value.
    if (isAlpha(Written.back()) && !P.Assigned && !scalarName(P.Key).Known)
      continue;
    // tensor(2.5, device='cuda:0'): what follows belongs to the number.
    if (size_t Close = Wrapped ? Text.find(')', End) : StringRef::npos;
        Close != StringRef::npos) {
      P.End = Close + 1;
      Pairs.push_back(P);
      Last = Close + 1;
      I = Close;
      continue;
    }
    StringRef Rest = Text.drop_front(End);
    // "Batch [500-600]" of Gluon: what was done last.
    if (StringRef To = Rest; P.Key.ends_with_insensitive("batch") &&
                             Text[I - 1] == '[' && To.consume_front("-")) {
      StringRef Digits = To.take_while(isDigit);
      if (std::optional<double> Newest = parseNumber(Digits);
          Newest && To.drop_front(Digits.size()).starts_with("]")) {
        P.Value = *Newest;
        P.End = End = Digits.end() - Text.data();
        Pairs.push_back(P);
        Last = End;
        I = End - 1;
        continue;
      }
    }
    // 0:12:33 is a time and 1.2.3 a version.
    if (Rest.size() > 1 && StringRef(":.-").contains(Rest[0]) &&
        isWordChar(Rest[1])) {
      I = Last = Text.find_first_of(" \t,|]", End);
      if (Last == StringRef::npos)
        return;
      continue;
    }
    P.Unit = Rest.take_while([](char U) { return isAlpha(U) || U == '%'; });
    if (P.Unit.empty())
      P.Unit = unitBehindBlank(Rest);
    if (!P.Unit.empty())
      End = P.Unit.end() - Text.data();
    // "5/ 400": the second number counts the whole.
    StringRef Whole = Rest.ltrim(' ');
    if (P.Unit.empty() && Whole.consume_front("/")) {
      Whole = Whole.ltrim(' ');
      StringRef Of = Whole.empty() ? "" : numberAt(Whole, 0);
      if (std::optional<double> Total = parseNumber(Of)) {
        P.Of = *Total;
        End = Whole.data() + Of.size() - Text.data();
      }
    }
    // 10500/s and 10500/s/gpu are rates.
    StringRef Behind = Text.drop_front(End);
    if (P.Unit.empty() && P.Of == 0 && Behind.starts_with("/s")) {
      StringRef Rate = Behind.take_while([](char U) {
        return isAlpha(U) || U == '/';
      });
      if (Rate == "/s" || Rate == "/s/gpu" || Rate == "/s/device")
        End += Rate.size();
    }
    P.End = End;
    nameByUnit(P, Text);
    End = P.End;
    Pairs.push_back(P);
    Last = End;
    I = End - 1;
  }
}

} // namespace culprit
