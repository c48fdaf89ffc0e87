//===- TimeStamp.cpp --------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/TimeStamp.h"
#include "Support/FindText.h"
#include "llvm/ADT/StringExtras.h"
#include <cstdint>

using namespace llvm;

namespace culprit {

/// Takes exactly \p Digits digits.
static bool takeNumber(StringRef &Text, unsigned Digits, int &Value) {
  if (Text.size() < Digits)
    return false;
  Value = 0;
  for (unsigned I = 0; I != Digits; ++I) {
    if (!isDigit(Text[I]))
      return false;
    Value = Value * 10 + (Text[I] - '0');
  }
  Text = Text.drop_front(Digits);
  return true;
}

/// Days from 1970-01-01, Howard Hinnant's days_from_civil.
static int64_t daysFromCivil(int64_t Year, unsigned Month, unsigned Day) {
  Year -= Month <= 2;
  int64_t Era = (Year >= 0 ? Year : Year - 399) / 400;
  unsigned YearOfEra = static_cast<unsigned>(Year - Era * 400);
  unsigned DayOfYear = (153 * (Month + (Month > 2 ? -3 : 9)) + 2) / 5 + Day - 1;
  unsigned DayOfEra =
      YearOfEra * 365 + YearOfEra / 4 - YearOfEra / 100 + DayOfYear;
  return Era * 146097 + static_cast<int64_t>(DayOfEra) - 719468;
}

namespace {
struct Date {
  int Year = 0, Month = 0, Day = 0;
  bool valid() const {
    return Year >= 1990 && Year < 2200 && Month >= 1 && Month <= 12 &&
           Day >= 1 && Day <= 31;
  }
};
} // namespace

/// 2026-01-05, 2026/01/05 or, as Transformers' example scripts write it,
/// 01/05/2026.
static bool takeDate(StringRef &Text, Date &D) {
  StringRef Rest = Text;
  if (takeNumber(Rest, 4, D.Year)) {
    if (Rest.empty() || !StringRef("-/").contains(Rest[0]))
      return false;
    char Separator = Rest[0];
    if (!takeNumber(Rest = Rest.drop_front(), 2, D.Month) || Rest.empty() ||
        Rest[0] != Separator || !takeNumber(Rest = Rest.drop_front(), 2, D.Day))
      return false;
  } else if (!takeNumber(Rest, 2, D.Month) || !Rest.consume_front("/") ||
             !takeNumber(Rest, 2, D.Day) || !Rest.consume_front("/") ||
             !takeNumber(Rest, 4, D.Year)) {
    return false;
  }
  if (!D.valid())
    return false;
  Text = Rest;
  return true;
}

/// 08:59:57 with an optional fraction after '.' or ','.
static bool takeTime(StringRef &Text, double &Seconds) {
  StringRef Rest = Text;
  int H = 0, M = 0, S = 0;
  if (!takeNumber(Rest, 2, H) || !Rest.consume_front(":") ||
      !takeNumber(Rest, 2, M) || !Rest.consume_front(":") ||
      !takeNumber(Rest, 2, S) || H > 23 || M > 59 || S > 60)
    return false;
  Seconds = H * 3600.0 + M * 60.0 + S;
  if (Rest.size() > 1 && (Rest[0] == '.' || Rest[0] == ',') &&
      isDigit(Rest[1])) {
    Rest = Rest.drop_front();
    for (double Unit = 0.1; !Rest.empty() && isDigit(Rest[0]); Unit /= 10) {
      Seconds += (Rest[0] - '0') * Unit;
      Rest = Rest.drop_front();
    }
  }
  Text = Rest;
  return true;
}

/// Z, +08:00 or -0500, as seconds east of Greenwich.
static int takeZone(StringRef &Text) {
  if (Text.consume_front("Z"))
    return 0;
  StringRef Rest = Text;
  bool West = Rest.consume_front("-");
  if (!West && !Rest.consume_front("+"))
    return 0;
  int H = 0, M = 0;
  if (!takeNumber(Rest, 2, H))
    return 0;
  Rest.consume_front(":");
  if (!takeNumber(Rest, 2, M))
    return 0;
  Text = Rest;
  return (West ? -1 : 1) * (H * 3600 + M * 60);
}

static bool takeDateAndTime(StringRef &Text, TimeStamp &Out) {
  StringRef Rest = Text;
  Date D;
  if (!takeDate(Rest, D))
    return false;
  if (!Rest.consume_front("T") && !Rest.consume_front("t"))
    while (Rest.consume_front(" ") || Rest.consume_front("_"))
      ;
  double Seconds = 0;
  if (!takeTime(Rest, Seconds))
    return false;
  int Zone = takeZone(Rest);
  Out.Unix = daysFromCivil(D.Year, D.Month, D.Day) * 86400.0 + Seconds - Zone;
  Text = Rest;
  return true;
}

/// Jan  5 08:59:57, as syslog writes it: no year, so no point in time.
static bool takeSyslog(StringRef &Text) {
  if (Text.size() < 15 || Text[3] != ' ' || !isUpper(Text[0]))
    return false;
  StringRef Months = "JanFebMarAprMayJunJulAugSepOctNovDec";
  size_t At = Months.find(Text.take_front(3));
  if (At == StringRef::npos || At % 3 != 0)
    return false;
  StringRef Rest = Text.drop_front(4).ltrim();
  if (Rest.empty() || !isDigit(Rest[0]))
    return false;
  Rest = Rest.drop_while(isDigit).ltrim();
  double Ignored;
  if (!takeTime(Rest, Ignored))
    return false;
  Text = Rest;
  return true;
}

/// 01-05 08:59:57 or 01-05 08:59, as vLLM writes them, and MMEngine's 01/05
/// 08:59:57: no year, so no point in time.
static bool takeMonthAndDay(StringRef &Text) {
  StringRef Rest = Text;
  int Month = 0, Day = 0, Hour = 0, Minute = 0;
  double Ignored;
  if (!takeNumber(Rest, 2, Month))
    return false;
  const bool Slash = Rest.consume_front("/");
  if (!(Slash || Rest.consume_front("-")) || !takeNumber(Rest, 2, Day) ||
      !Rest.consume_front(" ") || Month < 1 || Month > 12 || Day < 1 ||
      Day > 31)
    return false;
  StringRef Short = Rest;
  if (!takeTime(Rest, Ignored)) {
    if (Slash || !takeNumber(Short, 2, Hour) || !Short.consume_front(":") ||
        !takeNumber(Short, 2, Minute) || Hour > 23 || Minute > 59 ||
        !Short.starts_with(" "))
      return false;
    Rest = Short;
  }
  Text = Rest;
  return true;
}

int daysIntoYear(int Month, int Day) {
  static constexpr int DaysBefore[] = {0,   31,  59,  90,  120, 151,
                                       181, 212, 243, 273, 304, 334};
  return Month < 1 || Month > 12 ? 0 : DaysBefore[Month - 1] + Day - 1;
}

/// [12345.678901], the kernel's seconds since boot.
static bool takeUptime(StringRef &Text) {
  StringRef Rest = Text;
  if (!Rest.consume_front("["))
    return false;
  Rest = Rest.ltrim();
  size_t Whole = Rest.find_if_not(isDigit);
  if (Whole == 0 || Whole == StringRef::npos || Rest[Whole] != '.')
    return false;
  Rest = Rest.drop_front(Whole + 1);
  size_t Fraction = Rest.find_if_not(isDigit);
  if (Fraction != 6 || !Rest.drop_front(6).consume_front("]"))
    return false;
  Text = Rest.drop_front(7);
  return true;
}

std::optional<double> commonLogTime(StringRef Text) {
  StringRef Months = "JanFebMarAprMayJunJulAugSepOctNovDec";
  StringRef Rest = Text;
  Date D;
  double Seconds;
  if (!takeNumber(Rest, 2, D.Day) || !Rest.consume_front("/") ||
      Rest.size() < 4)
    return std::nullopt;
  size_t At = Months.find(Rest.take_front(3));
  Rest = Rest.drop_front(3);
  if (At == StringRef::npos || At % 3 != 0 || !Rest.consume_front("/") ||
      !takeNumber(Rest, 4, D.Year) || !Rest.consume_front(":") ||
      !takeTime(Rest, Seconds))
    return std::nullopt;
  D.Month = static_cast<int>(At / 3) + 1;
  if (!D.valid())
    return std::nullopt;
  Rest = skipBlanks(Rest);
  return daysFromCivil(D.Year, D.Month, D.Day) * 86400.0 + Seconds -
         takeZone(Rest);
}

std::optional<TimeStamp> leadingTimeStamp(StringRef Text) {
  StringRef Rest = skipBlanks(Text);
  TimeStamp Out;
  auto done = [&]() -> std::optional<TimeStamp> {
    Out.Length = Text.size() - Rest.size();
    return Out;
  };
  // A quick way out: a stamp begins with a digit, a bracket or a month.
  if (Rest.empty() || !(isDigit(Rest[0]) || Rest[0] == '[' || isUpper(Rest[0])))
    return std::nullopt;
  if (takeUptime(Rest))
    return done();
  bool Bracket = Rest.consume_front("[");
  if (takeDateAndTime(Rest, Out)) {
    if (Bracket)
      Rest.consume_front("]");
    return done();
  }
  double Seconds;
  if ((isDigit(Rest.empty() ? 'x' : Rest[0]) && takeTime(Rest, Seconds) &&
       (!Bracket || Rest.consume_front("]"))) ||
      takeSyslog(Rest) || (!Bracket && takeMonthAndDay(Rest)))
    return done();
  return std::nullopt;
}

} // namespace culprit
