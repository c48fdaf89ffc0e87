//===- EntryTitle.cpp -------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/EntryTitle.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <array>

using namespace llvm;

namespace culprit {

/// The month that \p Word names in full or by its first letters; 0 for none.
static unsigned monthOf(StringRef Word) {
  static constexpr std::array<StringRef, 12> Months = {
      "january", "february", "march",     "april",   "may",      "june",
      "july",    "august",   "september", "october", "november", "december"};
  std::string Lower = Word.lower();
  if (Lower.size() < 3)
    return 0;
  for (unsigned M = 0; M < Months.size(); ++M)
    if (Months[M].starts_with(Lower) || (Lower == "sept" && M == 8))
      return M + 1;
  return 0;
}

namespace {

/// Takes the parts of a date off a text from the left.
struct DateParts {
  StringRef Rest;

  /// A number of at least \p Least and at most \p Most digits; 0 for none.
  unsigned number(unsigned Least, unsigned Most) {
    StringRef Digits = Rest.take_while(isDigit);
    unsigned Value = 0;
    if (Digits.size() < Least || Digits.size() > Most ||
        Digits.getAsInteger(10, Value))
      return 0;
    Rest = Rest.drop_front(Digits.size());
    return Value;
  }

  unsigned month() {
    StringRef Word = Rest.take_while(isAlpha);
    unsigned M = monthOf(Word);
    if (M)
      Rest = Rest.drop_front(Word.size());
    return M;
  }

  /// One of `-/. ` or a comma with a blank; the one taken, or 0.
  char separator(StringRef Allowed) {
    char C = Rest.empty() ? '\0' : Rest.front();
    if (!C || !Allowed.contains(C))
      return '\0';
    Rest = Rest.drop_front();
    Rest = C == ',' || C == '.' || C == ' ' ? Rest.ltrim(' ') : Rest;
    return C;
  }
};

} // namespace

static bool isDay(unsigned Year, unsigned Month, unsigned Day) {
  return Year >= 1970 && Year <= 2200 && Month >= 1 && Month <= 12 &&
         Day >= 1 && Day <= 31;
}

/// The date that \p Text begins with.
static WrittenDate dateAt(StringRef Text) {
  auto Found = [&](StringRef Rest, unsigned Y, unsigned M, unsigned D) {
    WrittenDate Date;
    bool Ends = Rest.empty() || !isDigit(Rest.front());
    if (Ends && isDay(Y, M, D)) {
      Date.Where = Text.drop_back(Rest.size());
      Date.Iso = formatv("{0}-{1,0+2}-{2,0+2}", Y, M, D).str();
    }
    return Date;
  };
  DateParts P{Text};
  if (unsigned Y = P.number(4, 4)) { // 2026-11-20
    bool Signs = P.Rest.consume_front("年");
    char By = Signs ? '\0' : P.separator("-/.");
    if (!Signs && !By)
      return {};
    unsigned M = P.number(1, 2);
    if (Signs ? !P.Rest.consume_front("月") : P.separator({&By, 1}) == 0)
      return {};
    unsigned D = P.number(1, 2);
    if (Signs)
      P.Rest.consume_front("日");
    return Found(P.Rest, Y, M, D);
  }
  if (unsigned M = P.month()) { // Nov 20, 2026
    P.separator(".");
    P.separator(" ");
    unsigned D = P.number(1, 2);
    for (StringRef Th : {"st", "nd", "rd", "th"})
      P.Rest.consume_front(Th);
    if (!P.separator(", "))
      return {};
    return Found(P.Rest, P.number(4, 4), M, D);
  }
  unsigned D = P.number(1, 2);
  if (!D)
    return {};
  for (StringRef Th : {"st", "nd", "rd", "th"})
    P.Rest.consume_front(Th);
  char By = P.separator("-/. ");
  if (!By)
    return {};
  if (unsigned M = P.month()) { // 20 November 2026
    P.separator(",.");
    P.separator("-/ ");
    unsigned Y = P.number(4, 4);
    return Found(P.Rest, Y, M, D);
  }
  unsigned M = P.number(1, 2); // 20/11/2026
  if (By == ' ' || !M || P.separator({&By, 1}) == 0)
    return {};
  unsigned Y = P.number(4, 4);
  if (By == '.' || (D > 12 && M <= 12)) // Points are written day first.
    return Found(P.Rest, Y, M, D);
  if (M > 12)
    return Found(P.Rest, Y, D, M);
  WrittenDate Date = Found(P.Rest, Y, M, D);
  if (D != M && !Date.Where.empty()) {
    Date.Iso = Date.Where.str();
    Date.Ambiguous = true;
  }
  return Date;
}

WrittenDate findDate(StringRef Text) {
  for (size_t I = 0; I < Text.size(); ++I) {
    if (!isAlnum(Text[I]) || (I && isAlnum(Text[I - 1])))
      continue;
    WrittenDate Date = dateAt(Text.drop_front(I));
    if (!Date.Where.empty())
      return Date;
  }
  return {};
}

// Words that nothing but a status is written with.
static constexpr std::array<StringRef, 22> Statuses = {
    "FIXED",     "OPEN",       "WONTFIX",       "WON'T FIX", "WONT FIX",
    "SKIPPED",   "SKIP",       "CLOSED",        "RESOLVED",  "DONE",
    "DUPLICATE", "INVALID",    "IN PROGRESS",   "WIP",       "DRAFT",
    "TODO",      "WORKAROUND", "INVESTIGATING", "DEFERRED",  "MITIGATED",
    "BLOCKED",   "UNRESOLVED"};

/// \p Word as a status in upper case, or empty.
static std::string knownStatus(StringRef Word) {
  std::string Upper = Word.trim().upper();
  return is_contained(Statuses, Upper) ? Upper : std::string();
}

bool isSetAside(StringRef Status) {
  for (StringRef S : {"WONTFIX", "WON'T FIX", "WONT FIX", "SKIPPED", "SKIP",
                      "DUPLICATE", "INVALID", "DEFERRED"})
    if (Status == S)
      return true;
  return false;
}

bool isOpen(StringRef Status) {
  for (StringRef S : {"OPEN", "IN PROGRESS", "WIP", "INVESTIGATING", "TODO",
                      "UNRESOLVED", "BLOCKED", "MITIGATED"})
    if (Status == S)
      return true;
  return false;
}

std::string statusMeant(StringRef Status) {
  // Of a short word half of the letters is a slip: `NEW` is not `DONE`.
  if (Status.size() < 4 || is_contained(Statuses, Status))
    return {};
  for (StringRef S : Statuses)
    if (S.size() >= 4 && Status.edit_distance(S, true, 1) <= 1)
      return S.str();
  return {};
}

static std::string bracketStatus(StringRef Word) {
  if (Word == "x" || Word == "X")
    return "FIXED";
  if (Word == " ")
    return "OPEN";
  bool IsWord =
      !Word.empty() && Word.size() <= 20 && all_of(Word, [](char C) {
        return isAlpha(C) || C == ' ' || C == '-' || C == '\'' || C == '_';
      });
  return IsWord ? Word.trim().upper() : std::string();
}

/// Takes the status off the groups that \p T begins with: the one that is a
/// known status (`[P1][FIXED] title`), or else the first.
static std::string leadingBrackets(std::string &T) {
  std::string Status;
  size_t Begin = 0, Size = 0;
  for (size_t At = 0; At < T.size() && T[At] == '[';) {
    size_t Close = T.find(']', At);
    if (Close == std::string::npos)
      break;
    StringRef Word = StringRef(T).slice(At + 1, Close);
    std::string Known = knownStatus(Word);
    if (!Known.empty() || At == 0) {
      Status = Known.empty() ? bracketStatus(Word) : Known;
      Begin = At;
      Size = Close + 1 - At;
    }
    if (!Known.empty())
      break;
    At = std::min(T.find_first_not_of(' ', Close + 1), T.size());
  }
  if (Status.empty() || StringRef(T).drop_front(Begin + Size).trim().empty())
    return {};
  T.erase(Begin, Size);
  return Status;
}

std::string takeStatus(std::string &Title) {
  StringRef T = StringRef(Title).trim();
  // A sign before it: a check mark, a cross.
  StringRef Signs =
      T.take_while([](char C) { return (C & 0x80) != 0 || C == ' '; });
  StringRef Plain = Signs.size() <= 8 ? T.drop_front(Signs.size()) : T;
  std::string Status, Groups;
  if (Plain.starts_with("[")) {
    Groups = Plain.str();
    Status = leadingBrackets(Groups);
    if (!Status.empty())
      T = Groups;
  } else if (T.ends_with("]")) {
    auto [Front, Word] = T.drop_back().rsplit('[');
    Status = Front.trim().empty() ? "" : bracketStatus(Word);
    if (!Status.empty())
      T = Front;
  } else if (T.ends_with(")") && T.contains('(')) {
    auto [Front, Word] = T.drop_back().rsplit('(');
    Status = Front.trim().empty() ? "" : knownStatus(Word);
    if (!Status.empty())
      T = Front;
  }
  for (StringRef Sep : {":", " - ", " – ", " — "}) {
    if (!Status.empty())
      break;
    auto [Word, Rest] = Plain.split(Sep);
    if (Rest.trim().empty() || Word.size() > 20)
      continue;
    Status = knownStatus(Word);
    if (!Status.empty())
      T = Rest;
  }
  if (!Status.empty())
    Title = T.trim(" :-").str();
  return Status;
}

StringRef firstClause(StringRef Title) {
  for (size_t I = 0; I < Title.size(); ++I) {
    StringRef Rest = Title.drop_front(I);
    bool Ends = Rest.starts_with(": ") || Rest.starts_with(", ") ||
                Rest.starts_with("; ") || Rest.starts_with(" (") ||
                Rest.starts_with(" - ") || Rest.starts_with(" – ") ||
                Rest.starts_with(" — ");
    if (Ends && Title.take_front(I).count(' ') >= 2)
      return Title.take_front(I);
  }
  return Title;
}

} // namespace culprit
