//===- Print.cpp - What became of a golden lock -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Golden/Check.h"
#include "Support/Text.h"
#include "Support/Units.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/WithColor.h"

using namespace llvm;

namespace culprit {

using Outcome = GoldenFinding::Outcome;

/// So many new items or keys are named; the rest is counted.
static constexpr size_t MostNamed = 5;

/// Column of what follows a label.
static constexpr size_t Column = 12;

/// \p Text behind \p Label, broken at blanks into lines of \p Width.
static void printPart(raw_ostream &OS, StringRef Label, StringRef Text,
                      unsigned Width) {
  if (Text.empty())
    return;
  OS << "  " << Label;
  size_t At = 2 + Label.size();
  bool Begins = true; // a line
  while (!Text.empty()) {
    auto [Word, Rest] = Text.split(' ');
    Text = Rest;
    if (!Begins && At + 1 + Word.size() > Width) {
      OS << '\n';
      At = 0;
      Begins = true;
    }
    OS.indent(Begins ? unsigned(Column - At) : 1);
    At = (Begins ? Column : At + 1) + Word.size();
    OS << Word;
    Begins = false;
  }
  OS << '\n';
}

static void printBroken(raw_ostream &OS, const GoldenFinding &F,
                        unsigned Width) {
  WithColor(OS, raw_ostream::RED)
      << (F.Is == Outcome::Missing ? "missing" : "failed");
  OS << "  " << F.Id << " (" << toString(F.Kind) << ' ' << toString(F.Of)
     << ")\n";
  printPart(OS, "where", F.Where, Width);
  printPart(OS, "what", F.What, Width);
  if (!F.Expected.empty() || !F.Found.empty()) {
    printPart(OS, "expected", F.Expected.empty() ? "nothing" : F.Expected,
              Width);
    printPart(OS, "found", F.Found.empty() ? "nothing" : F.Found, Width);
  }
  printPart(OS, "first", F.First, Width);
  printPart(OS, "next", F.Next, Width);
  OS << '\n';
}

static std::string named(ArrayRef<std::string> Names) {
  std::string Out = join(Names.take_front(std::min(Names.size(), MostNamed)),
                         ", ");
  if (Names.size() > MostNamed)
    Out += " and " + formatCount(int64_t(Names.size() - MostNamed)) + " more";
  return Out;
}

void printGolden(raw_ostream &OS, const GoldenReport &R, unsigned Width) {
  std::vector<std::string> New;
  for (const GoldenFinding &F : R.Findings) {
    if (F.broken())
      printBroken(OS, F, Width);
    if (F.Is == Outcome::New)
      New.push_back(F.Id);
  }
  for (const GoldenFinding &F : R.Findings)
    if (!F.Added.empty())
      OS << "note: " << F.Id << " has " << F.Added.size()
         << (F.Added.size() == 1 ? " key" : " keys")
         << " that the lock has not: " << named(F.Added) << '\n';
  if (!New.empty())
    OS << "note: the run has " << formatCount(int64_t(New.size()))
       << (New.size() == 1 ? " item" : " items")
       << " that the lock has not, which breaks nothing: " << named(New)
       << '\n';
  const size_t Holds = R.count(Outcome::Holds);
  const size_t Failed = R.count(Outcome::Failed);
  const size_t Missing = R.count(Outcome::Missing);
  OS << R.Lock << ": " << formatCount(int64_t(Holds)) << " of "
     << formatCount(int64_t(Holds + Failed + Missing)) << " items hold";
  if (Failed)
    OS << ", " << formatCount(int64_t(Failed)) << " failed";
  if (Missing)
    OS << ", " << formatCount(int64_t(Missing)) << " missing";
  if (!New.empty())
    OS << ", " << formatCount(int64_t(New.size())) << " new";
  if (!R.Accepted.empty())
    OS << "; " << formatCount(int64_t(R.Accepted.size())) << " accepted";
  OS << '\n';
  if (!R.holds())
    OS << "where a change is meant, accept it by id or glob and commit the "
          "lock: --accept='ID'\n";
}

json::Value goldenJson(const GoldenReport &R) {
  const auto TextOrNull = [](StringRef Text) {
    return Text.empty() ? json::Value(nullptr) : jsonText(Text);
  };
  const auto List = [](ArrayRef<std::string> Texts) {
    json::Array Out;
    for (const std::string &T : Texts)
      Out.push_back(jsonText(T));
    return Out;
  };
  json::Array Items;
  for (const GoldenFinding &F : R.Findings) {
    const StringRef Is = F.Is == Outcome::Holds     ? "holds"
                         : F.Is == Outcome::Failed  ? "failed"
                         : F.Is == Outcome::Missing ? "missing"
                                                    : "new";
    Items.push_back(json::Object{{"id", jsonText(F.Id)},
                                 {"outcome", Is},
                                 {"kind", toString(F.Kind)},
                                 {"of", toString(F.Of)},
                                 {"where", TextOrNull(F.Where)},
                                 {"what", TextOrNull(F.What)},
                                 {"expected", TextOrNull(F.Expected)},
                                 {"found", TextOrNull(F.Found)},
                                 {"first", TextOrNull(F.First)},
                                 {"next", TextOrNull(F.Next)},
                                 {"added", List(F.Added)}});
  }
  return json::Object{
      {"schema", 1},
      {"kind", "golden"},
      {"lock", jsonText(R.Lock)},
      {"verdict", R.holds() ? "holds" : "failed"},
      {"counts",
       json::Object{{"holds", int64_t(R.count(Outcome::Holds))},
                    {"failed", int64_t(R.count(Outcome::Failed))},
                    {"missing", int64_t(R.count(Outcome::Missing))},
                    {"new", int64_t(R.count(Outcome::New))}}},
      {"items", std::move(Items)},
      {"accepted", List(R.Accepted)},
      {"notes", List(R.Notes)}};
}

} // namespace culprit
