//===- ErrorLine.cpp --------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/ErrorLine.h"
#include "Readers/TimeStamp.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"
#include <cstdint>

using namespace llvm;

namespace culprit {

/// 0000:9b:00, 9b:00 or 0009:01:00.0 at the start of \p Text.
static std::string pciAddress(StringRef Text) {
  StringRef Address =
      Text.take_while([](char C) { return isHexDigit(C) || C == ':'; });
  StringRef Rest = Text.drop_front(Address.size());
  size_t Colons = Address.count(':');
  if (Colons < 1 || Colons > 2 || Address.size() < 5 || Address.size() > 16 ||
      Address.ends_with(":"))
    return "";
  std::string Out = (Colons == 1 ? "0000:" : "") + Address.lower();
  // The driver leaves out the function, which is 0 for a GPU and a switch.
  if (Rest.consume_front(".") && !Rest.empty() && isDigit(Rest[0]) &&
      Rest[0] != '0')
    Out += {'.', Rest[0]};
  return Out;
}

std::string deviceIn(StringRef Text) {
  Text = Text.take_front(400);
  for (StringRef Word : {"PCI:", "Xid (", "GPU at ", "NVIDIA GPU ", "GPU "}) {
    for (size_t At = Text.find(Word); At != StringRef::npos;
         At = Text.find(Word, At + 1)) {
      StringRef Rest = Text.drop_front(At + Word.size());
      Rest.consume_front("PCI:");
      if (std::string Address = pciAddress(Rest); !Address.empty())
        return Address;
      StringRef Index = Rest.take_while(isDigit);
      StringRef After = Rest.drop_front(Index.size());
      if (Word == "GPU " && !Index.empty() && Index.size() < 4 &&
          (After.starts_with(" has a total") || After.starts_with(";")))
        return Index.str();
    }
  }
  return "";
}

/// Days from 1970-01-01 to the first of January of \p Year.
static int64_t daysToYear(int64_t Year) {
  int64_t Y = Year - 1;
  return 365 * (Year - 1970) + (Y / 4 - Y / 100 + Y / 400) - 477;
}

static bool isLeap(int Year) {
  return Year % 4 == 0 && (Year % 100 != 0 || Year % 400 == 0);
}

int yearOf(double Unix) {
  int64_t Days = static_cast<int64_t>(Unix / 86400);
  int Year = static_cast<int>(1970 + Days / 366);
  while (daysToYear(Year + 1) <= Days)
    ++Year;
  return Year;
}

static std::optional<double> unixTime(int Year, int Month, int Day,
                                      double Seconds) {
  if (Year < 1970 || Year > 2200 || Month < 1 || Month > 12 || Day < 1 ||
      Day > 31)
    return std::nullopt;
  int64_t Days = daysToYear(Year) + daysIntoYear(Month, Day) +
                 (Month > 2 && isLeap(Year));
  return Days * 86400.0 + Seconds;
}

/// 02:07:08.408 at the start of \p Text, which it is taken off.
static std::optional<double> timeOfDay(StringRef &Text) {
  int Parts[3];
  StringRef Rest = Text;
  for (int I = 0; I != 3; ++I) {
    if (I && !Rest.consume_front(":"))
      return std::nullopt;
    StringRef Digits = Rest.take_while(isDigit);
    if (Digits.size() != 2 || Digits.getAsInteger(10, Parts[I]))
      return std::nullopt;
    Rest = Rest.drop_front(2);
  }
  double Out = Parts[0] * 3600.0 + Parts[1] * 60.0 + Parts[2];
  if (Rest.size() > 1 && (Rest[0] == '.' || Rest[0] == ',') &&
      isDigit(Rest[1])) {
    Rest = Rest.drop_front();
    for (double Unit = 0.1; !Rest.empty() && isDigit(Rest[0]); Unit /= 10) {
      Out += (Rest[0] - '0') * Unit;
      Rest = Rest.drop_front();
    }
  }
  Text = Rest;
  return Out;
}

static int monthOf(StringRef Name) {
  size_t At = StringRef("JanFebMarAprMayJunJulAugSepOctNovDec").find(Name);
  return Name.size() != 3 || At == StringRef::npos || At % 3 ? 0
                                                             : int(At / 3 + 1);
}

/// "Mar 21 02:07:08" at the start of \p Text, which it is taken off.
static std::optional<double> syslogStamp(StringRef &Text, int Year) {
  int Month = monthOf(Text.take_front(3));
  StringRef Rest = Text.drop_front(std::min<size_t>(3, Text.size()));
  if (!Month || !Rest.consume_front(" "))
    return std::nullopt;
  Rest = Rest.ltrim(' ');
  StringRef Digits = Rest.take_while(isDigit);
  int Day = 0;
  if (Digits.size() > 2 || Digits.getAsInteger(10, Day))
    return std::nullopt;
  Rest = Rest.drop_front(Digits.size()).ltrim(' ');
  std::optional<double> Seconds = timeOfDay(Rest);
  if (!Seconds)
    return std::nullopt;
  Text = Rest;
  return unixTime(Year, Month, Day, *Seconds);
}

/// "E321 02:07:08.4" or "E0321 02:07:08.4" at the start of \p Text.
static std::optional<double> glogStamp(StringRef Text, int Year) {
  if (Text.size() < 10 || !StringRef("VDIWEFC").contains(Text[0]))
    return std::nullopt;
  Text = Text.drop_front();
  StringRef Digits = Text.take_while(isDigit);
  int Date = 0;
  if (Digits.size() < 3 || Digits.size() > 4 || Digits.getAsInteger(10, Date))
    return std::nullopt;
  Text = Text.drop_front(Digits.size());
  if (!Text.consume_front(" "))
    return std::nullopt;
  std::optional<double> Seconds = timeOfDay(Text);
  if (!Seconds)
    return std::nullopt;
  return unixTime(Year, Date / 100, Date % 100, *Seconds);
}

std::optional<double> stampWithoutYear(StringRef Text, int Year) {
  Text = Text.ltrim();
  // The labels that launchers put in front: "[rank3]:", "[default0]:", "3: ".
  for (int I = 0; I != 3; ++I) {
    if (std::optional<double> Stamp = glogStamp(Text, Year))
      return Stamp;
    StringRef Syslog = Text;
    if (std::optional<double> Stamp = syslogStamp(Syslog, Year))
      return Stamp;
    if (!Text.consume_front("["))
      return std::nullopt;
    if (std::optional<double> Stamp = glogStamp(Text, Year))
      return Stamp;
    StringRef Day = Text.take_front(3);
    if (StringRef("Mon Tue Wed Thu Fri Sat Sun ").contains(Day.str() + " ")) {
      StringRef Rest = Text.drop_front(std::min<size_t>(4, Text.size()));
      StringRef Probe = Rest;
      if (syslogStamp(Probe, Year)) {
        Probe = Probe.ltrim(' ');
        StringRef Own = Probe.take_while(isDigit);
        int OwnYear = 0;
        if (Own.size() == 4 && !Own.getAsInteger(10, OwnYear))
          return syslogStamp(Rest, OwnYear);
      }
    }
    size_t Close = Text.take_front(40).find(']');
    if (Close == StringRef::npos)
      return std::nullopt;
    Text = Text.drop_front(Close + 1).ltrim(": ");
  }
  return std::nullopt;
}

bool isCountOfNone(StringRef Message) {
  Message = Message.trim(" \t.,;");
  for (StringRef None : {"0", "0%", "0.0", "0 times", "none", "no", "false",
                         "off", "null", "n/a"})
    if (Message.equals_insensitive(None))
      return true;
  return false;
}

} // namespace culprit
