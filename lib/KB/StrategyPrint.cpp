//===- StrategyPrint.cpp - A strategy for people and programs ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/Similar.h"
#include "KB/Strategy.h"
#include "KB/TextWrap.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;

namespace culprit {

/// Of a priority, for people; all stand in the JSON.
static constexpr size_t MostIssues = 8;

static StringRef titleOf(const Priority &P) {
  return P.What ? P.What->Title : "Fits no kind of test";
}

static std::string count(size_t N, StringRef One) {
  return formatv("{0} {1}{2}", N, One, N == 1 ? "" : "s");
}

/// `3 issues, 24 h (8 silent, ...)`.
static std::string measure(const Priority &P, const Strategy &S) {
  return formatv("{0}, {1:f1} h of {2:f1} h", count(P.Issues.size(), "issue"),
                 P.Hours, S.Hours);
}

/// What is known of the test of \p T, or empty.
static std::string testState(const TestedPrevention &T, bool Looked) {
  if (!T.Found.empty())
    return "test: " + T.Found + " at " + placeText(T.Where);
  std::string Out;
  if (!T.Names.empty())
    Out = Looked ? "no test: " + T.Names.front() + " was not found"
                 : "names " + T.Names.front();
  else if (Looked)
    Out = "no test named";
  if (!T.Candidate.empty())
    Out += "; perhaps " + T.Candidate + " at " + placeText(T.Where);
  return Out;
}

static void printIssue(raw_ostream &OS, const StrategyIssue &I, bool Looked) {
  const Entry &E = *I.E;
  std::string Head = "   - ";
  if (!E.Date.empty())
    Head += E.Date + " ";
  if (!E.Status.empty())
    Head += "[" + E.Status + "] ";
  printWrapped(OS, Head + E.Title, "", "     ", TextWidth);
  OS << "     " << E.Id << "  (" << placeText(E.Source) << "), "
     << formatv("{0:f1} h, {1}\n", I.Cost.Hours, I.Cost.From);
  for (const TestedPrevention &T : I.Preventions) {
    printWrapped(OS, T.Text, "     * ", "       ", TextWidth);
    std::string State = testState(T, Looked);
    if (!State.empty())
      printWrapped(OS, State, "       ", "       ", TextWidth);
  }
}

void printStrategy(raw_ostream &OS, const Strategy &S) {
  if (!S.Entries) {
    OS << "no entries\n";
    return;
  }
  unsigned Rank = 0;
  for (const Priority &P : S.Priorities) {
    std::string Head = P.What ? formatv("{0}. ", ++Rank).str() : "-  ";
    OS << Head << titleOf(P) << ": " << measure(P, S);
    if (S.LookedForTests)
      OS << ", " << P.Covered << " with a test";
    OS << '\n';
    if (P.What)
      printWrapped(OS, P.What->Do, "   ", "   ", TextWidth);
    for (const StrategyIssue &I : ArrayRef(P.Issues).take_front(MostIssues))
      printIssue(OS, I, S.LookedForTests);
    if (P.Issues.size() > MostIssues)
      OS << "   and " << P.Issues.size() - MostIssues << " more\n";
    OS << '\n';
  }
  OS << count(S.Priorities.size(), "group") << " of " << S.Entries
     << (S.Entries == 1 ? " entry" : " entries")
     << "; rank is how often times how much. Hours are stated in a section "
        "Cost, else 8 for a silent failure, 4 for a slow one, 2 for an error\n";
}

void printStrategyMarkdown(raw_ostream &OS, const Strategy &S) {
  OS << "## Testing Strategy (Derived from Issues)\n\n"
        "These issues suggest the following testing priorities:\n\n";
  unsigned Rank = 0;
  for (const Priority &P : S.Priorities) {
    if (!P.What)
      continue;
    OS << ++Rank << ". **" << P.What->Title << "**: " << P.What->Do << " ("
       << measure(P, S);
    if (S.LookedForTests)
      OS << ", " << P.Covered << " with a test";
    OS << ")\n";
    for (const StrategyIssue &I : P.Issues) {
      OS << "   - " << I.E->Title << " (`" << I.E->Id << "`)";
      for (const TestedPrevention &T : I.Preventions)
        if (!T.Found.empty())
          OS << ", tested by `" << T.Found << "`";
      OS << '\n';
    }
  }
}

static json::Value sourceJson(const SourcePlace &S) {
  return json::Object{{"file", json::fixUTF8(S.File)}, {"line", S.Line}};
}

static json::Value preventionJson(const TestedPrevention &T, bool Looked) {
  json::Object Out{{"text", T.Text}, {"names", json::Array(T.Names)}};
  Out["test"] = nullptr;
  Out["candidate"] = nullptr;
  if (!T.Found.empty())
    Out["test"] =
        json::Object{{"name", T.Found}, {"source", sourceJson(T.Where)}};
  else if (!T.Candidate.empty())
    Out["candidate"] =
        json::Object{{"name", T.Candidate}, {"source", sourceJson(T.Where)}};
  Out["state"] = !T.Found.empty()    ? "found"
                 : !Looked           ? "not-looked-for"
                 : !T.Names.empty()  ? "missing"
                                     : "unnamed";
  return Out;
}

json::Value strategyJson(const Strategy &S) {
  json::Array Priorities;
  unsigned Rank = 0;
  for (const Priority &P : S.Priorities) {
    json::Array Issues;
    for (const StrategyIssue &I : P.Issues) {
      json::Array Preventions;
      for (const TestedPrevention &T : I.Preventions)
        Preventions.push_back(preventionJson(T, S.LookedForTests));
      Issues.push_back(json::Object{{"entry", I.E->Id},
                                    {"title", I.E->Title},
                                    {"date", I.E->Date},
                                    {"status", I.E->Status},
                                    {"class", I.E->Class},
                                    {"hours", roundedScore(I.Cost.Hours)},
                                    {"hours_from", I.Cost.From},
                                    {"preventions", std::move(Preventions)},
                                    {"source", sourceJson(I.E->Source)}});
    }
    json::Object Out{{"title", titleOf(P)},
                     {"do", P.What ? P.What->Do : ""},
                     {"hours", roundedScore(P.Hours)},
                     {"covered", S.LookedForTests ? json::Value(P.Covered)
                                                  : json::Value(nullptr)},
                     {"issues", std::move(Issues)}};
    Out["practice"] = P.What ? json::Value(P.What->Id) : json::Value(nullptr);
    Out["rank"] = P.What ? json::Value(++Rank) : json::Value(nullptr);
    Priorities.push_back(std::move(Out));
  }
  return json::Object{{"schema", 1},
                      {"entries", S.Entries},
                      {"hours", roundedScore(S.Hours)},
                      {"priorities", std::move(Priorities)}};
}

} // namespace culprit
