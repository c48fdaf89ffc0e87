//===- Strategy.cpp ---------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/Strategy.h"
#include "KB/AddEntryText.h"
#include "KB/Lexer.h"
#include "KB/WordForms.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include <map>
#include <set>

using namespace llvm;

namespace culprit {

/// Hours to find and mend, where the log does not say: an error that names
/// itself, a slow run, and a wrong result that looks right. Only their ratios
/// matter for the order.
static constexpr double LoudHours = 2, SlowHours = 4, SilentHours = 8;
static constexpr double HoursOfDay = 8, HoursOfWeek = 40;
/// The words of one section that is about the cause, or of two that are not.
static constexpr double LeastWords = 2;

static constexpr Practice Practices[] = {
#define KB_PRACTICE(Id, Title, Do, Layers, Classes, Words)                     \
  {Id, Title, Do, Layers, Classes, Words},
#include "KB/Strategy.def"
};

ArrayRef<Practice> practices() { return Practices; }

static bool lists(StringRef Blanked, StringRef Word) {
  SmallVector<StringRef, 32> Words;
  Blanked.split(Words, ' ', -1, false);
  return is_contained(Words, Word);
}

/// Whether word \p I is the load of a machine, as in `under load` and `load
/// test`, and not what is done to weights.
static bool isTraffic(ArrayRef<Word> Words, size_t I) {
  auto At = [&](size_t J) {
    return J < Words.size() ? StringRef(Words[J].Text).lower() : std::string();
  };
  static constexpr StringRef Before[] = {"under", "high", "heavy", "peak",
                                         "low"};
  static constexpr StringRef Behind[] = {"test", "tests", "tested", "testing",
                                         "balancer", "average", "generator"};
  return At(I) == "load" && ((I > 0 && is_contained(Before, At(I - 1))) ||
                             is_contained(Behind, At(I + 1)));
}

static std::set<std::string> stemsOf(StringRef Text) {
  std::set<std::string> Out;
  std::vector<Word> Words = lex(Text);
  for (const auto &[I, W] : enumerate(Words)) {
    if (isTraffic(Words, I))
      continue;
    std::string Lower = StringRef(W.Text).lower();
    Out.insert(Lower);
    Out.insert(stem(Lower));
    for (const std::string &Part : splitIdentifier(W.Text))
      Out.insert(stem(Part));
  }
  return Out;
}

static const Practice *practiceByWords(const Entry &E) {
  // What was wrong and what would catch it say more than how it looked.
  const std::pair<std::set<std::string>, double> Sections[] = {
      {stemsOf(E.Title), 2},
      {stemsOf(E.RootCause), 2},
      {stemsOf(join(E.Prevention, "\n")), 2},
      {stemsOf(E.Symptom), 1},
      {stemsOf(E.Fix), 1}};
  const Practice *Best = nullptr;
  double Most = 0;
  for (const Practice &P : Practices) {
    SmallVector<StringRef, 32> Words;
    P.Words.split(Words, ' ', -1, false);
    std::set<std::string> Stems;
    for (StringRef W : Words)
      Stems.insert(stem(W));
    double Score = 0;
    for (const auto &[Seen, Weight] : Sections)
      for (const std::string &S : Stems)
        Score += Seen.count(S) ? Weight : 0;
    if (Score > Most) {
      Most = Score;
      Best = &P;
    }
  }
  return Most >= LeastWords ? Best : nullptr;
}

const Practice *practiceFor(const Entry &E, const Vocabulary &V) {
  const ClassTerm *T = E.Class.empty() ? nullptr : V.rootCause(E.Class);
  if (!T)
    return practiceByWords(E);
  for (const Practice &P : Practices)
    if (lists(P.Classes, T->Id))
      return &P;
  for (const Practice &P : Practices)
    if (lists(P.Layers, T->Layer))
      return &P;
  return practiceByWords(E);
}

/// The hours that \p Text states, `3 days` or `about 1.5 h`; 0 without any.
static double statedHours(StringRef Text) {
  double Sum = 0;
  SmallVector<StringRef, 16> Words;
  std::string Spaced;
  for (char C : Text.lower()) {
    // `4h` as `4 h`
    if (isAlpha(C) && !Spaced.empty() && isDigit(Spaced.back()))
      Spaced += ' ';
    Spaced += isSpace(C) || C == ',' || C == '~' ? ' ' : C;
  }
  StringRef(Spaced).split(Words, ' ', -1, false);
  for (size_t I = 0; I + 1 < Words.size(); ++I) {
    double Number;
    if (Words[I].getAsDouble(Number) || !(Number > 0) || Number > 1e5)
      continue;
    StringRef Unit = Words[I + 1].rtrim(".;)");
    Unit.consume_back("s");
    Sum += Number * StringSwitch<double>(Unit)
                        .Cases("min", "minute", 1.0 / 60)
                        .Cases("h", "hr", "hour", 1)
                        .Cases("d", "day", HoursOfDay)
                        .Cases("w", "week", HoursOfWeek)
                        .Default(0);
  }
  return Sum;
}

EntryCost costOf(const Entry &E) {
  for (const OtherSection &S : E.Other) {
    std::string Label = StringRef(S.Label).lower();
    bool Tells = Label == "cost" || Label == "impact" ||
                 Label == "time lost" || Label == "time spent" ||
                 Label == "time to fix";
    if (double Hours = Tells ? statedHours(S.Text) : 0)
      return {Hours, "stated"};
  }
  std::set<std::string> Seen = stemsOf(E.Title + "\n" + E.Symptom);
  auto Any = [&](std::initializer_list<StringRef> Words) {
    return any_of(Words, [&](StringRef W) { return Seen.count(stem(W)); });
  };
  if (Any({"error", "exception", "crash", "traceback", "abort", "segfault",
           "panic", "raise", "oom", "refuse", "fail", "500", "502", "503",
           "504"}))
    return {LoudHours, "loud"};
  if (Any({"slow", "slower", "throughput", "latency", "stall", "hang", "idle",
           "timeout", "utilisation", "utilization"}))
    return {SlowHours, "slow"};
  return {SilentHours, "silent"};
}

Strategy deriveStrategy(ArrayRef<const Entry *> Entries, const Vocabulary &V,
                        const TestIndex *Tests) {
  Strategy Out;
  Out.Entries = static_cast<unsigned>(Entries.size());
  Out.LookedForTests = Tests != nullptr;
  std::map<const Practice *, size_t> Where;
  for (const Entry *E : Entries) {
    const Practice *P = practiceFor(*E, V);
    auto [At, New] = Where.try_emplace(P, Out.Priorities.size());
    if (New) {
      Out.Priorities.emplace_back();
      Out.Priorities.back().What = P;
    }
    Priority &To = Out.Priorities[At->second];
    StrategyIssue Issue;
    Issue.E = E;
    Issue.Cost = costOf(*E);
    for (const std::string &Item : E->Prevention) {
      if (isPrompt(Item))
        continue;
      if (Tests)
        Issue.Preventions.push_back(Tests->look(Item));
      else
        Issue.Preventions.push_back({Item, testNames(Item), "", {}, ""});
    }
    To.Covered += any_of(Issue.Preventions, [](const TestedPrevention &T) {
      return !T.Found.empty();
    });
    To.Hours += Issue.Cost.Hours;
    Out.Hours += Issue.Cost.Hours;
    To.Issues.push_back(std::move(Issue));
  }
  for (Priority &P : Out.Priorities)
    llvm::stable_sort(P.Issues, [](const auto &A, const auto &B) {
      return A.Cost.Hours > B.Cost.Hours;
    });
  // Of equals the one whose tests come first in the list of practices.
  llvm::stable_sort(Out.Priorities, [](const Priority &A, const Priority &B) {
    if (!A.What || !B.What)
      return A.What != nullptr && !B.What;
    return A.Hours != B.Hours ? A.Hours > B.Hours : A.What < B.What;
  });
  return Out;
}

} // namespace culprit
