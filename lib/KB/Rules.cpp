//===- Rules.cpp ------------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/Rules.h"
#include "KB/AddEntryText.h"
#include "KB/Check.h"
#include "KB/Lexer.h"
#include "KB/TextWrap.h"
#include "KB/WordForms.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"
#include <map>
#include <set>

using namespace llvm;

namespace culprit {

/// Two preventions that share this much of their words are one rule.
static constexpr double SameRule = 0.8;
/// A word of more rules than this finds none; it keeps the time linear.
static constexpr size_t MostRulesOfWord = 256;
static constexpr StringLiteral NoGroup = "Other rules";

static std::set<std::string> wordsOf(StringRef Text) {
  std::set<std::string> Out;
  for (const Word &W : lex(Text)) {
    std::string Lower = StringRef(W.Text).lower();
    // Numbers too: "after 100 steps" and "after 10" are two rules.
    if (!isStopWord(Lower))
      Out.insert(W.K == Word::Kind::Name ? stem(Lower) : Lower);
  }
  return Out;
}

/// "never" and "do not" turn a rule around.
static bool negates(StringRef Text) {
  for (const Word &W : lex(Text)) {
    std::string Lower = StringRef(W.Text).lower();
    if (Lower == "never" || Lower == "not" || Lower == "don't" ||
        Lower == "don" || Lower == "without" || Lower == "avoid")
      return true;
  }
  return false;
}

namespace {

/// The rules so far, found again by their words.
class RuleFinder {
public:
  /// The number of the rule that says what \p Text says; a new one when there
  /// is none.
  std::pair<size_t, bool> place(StringRef Text) {
    std::set<std::string> Words = wordsOf(Text);
    bool Negative = negates(Text);
    // Rules that share this much share a rare word, or all words are common.
    std::set<size_t> Near;
    for (const std::string &W : Words)
      if (const std::vector<size_t> &Having = ByWord[W];
          Having.size() <= MostRulesOfWord)
        Near.insert(Having.begin(), Having.end());
    for (size_t I : Near) {
      size_t N = static_cast<size_t>(count_if(Words, [&](const auto &W) {
        return Rules[I].Words.count(W) != 0;
      }));
      size_t All = Words.size() + Rules[I].Words.size() - N;
      if (Rules[I].Negative == Negative &&
          static_cast<double>(N) >= SameRule * static_cast<double>(All))
        return {I, false};
    }
    size_t New = Rules.size();
    for (const std::string &W : Words)
      ByWord[W].push_back(New);
    Rules.push_back({std::move(Words), Negative});
    return {New, true};
  }

private:
  struct Known {
    std::set<std::string> Words;
    bool Negative;
  };
  std::vector<Known> Rules;
  std::map<std::string, std::vector<size_t>> ByWord;
};

} // namespace

static std::string oneLine(StringRef Text) {
  std::string Out;
  for (char C : Text.trim())
    if (!isSpace(C))
      Out += C;
    else if (!Out.empty() && Out.back() != ' ')
      Out += ' ';
  return Out;
}

RuleBook makeRules(ArrayRef<const Entry *> Entries, const Vocabulary &V) {
  RuleBook Out;
  RuleFinder Finder;
  std::vector<std::pair<const Practice *, Rule>> All;
  for (const Entry *E : Entries) {
    const Practice *P = practiceFor(*E, V);
    for (const std::string &Item : E->Prevention) {
      ++Out.Items;
      std::string Why =
          isPrompt(Item) ? "is not answered" : preventionObjection(Item);
      if (!Why.empty()) {
        Out.Refused.push_back({E, "'" + oneLine(Item) + "' " + Why});
        continue;
      }
      auto [At, New] = Finder.place(Item);
      if (New)
        All.push_back({P, {oneLine(Item), {}}});
      Rule &R = All[At].second;
      if (R.Because.empty() || R.Because.back() != E)
        R.Because.push_back(E);
    }
  }
  auto Take = [&](const Practice *P) {
    RuleGroup G;
    G.What = P;
    for (auto &[Of, R] : All)
      if (Of == P)
        G.Rules.push_back(std::move(R));
    llvm::stable_sort(G.Rules, [](const Rule &A, const Rule &B) {
      return A.Because.size() > B.Because.size();
    });
    if (!G.Rules.empty())
      Out.Groups.push_back(std::move(G));
  };
  for (const Practice &P : practices())
    Take(&P);
  Take(nullptr);
  return Out;
}

static StringRef titleOf(const RuleGroup &G) {
  return G.What ? G.What->Title : NoGroup;
}

static size_t countRules(const RuleBook &B) {
  size_t N = 0;
  for (const RuleGroup &G : B.Groups)
    N += G.Rules.size();
  return N;
}

void printRules(raw_ostream &OS, const RuleBook &B) {
  for (const RuleGroup &G : B.Groups) {
    OS << titleOf(G) << '\n';
    for (const Rule &R : G.Rules) {
      printWrapped(OS, R.Text, "  - ", "    ", TextWidth);
      for (const Entry *E : R.Because)
        OS << "    because of " << E->Id << "  (" << E->Source.File << ':'
           << E->Source.Line << ")\n";
    }
    OS << '\n';
  }
  OS << countRules(B) << " rules from " << B.Items << " preventions";
  if (!B.Refused.empty())
    OS << ", " << B.Refused.size() << " left out";
  OS << '\n';
}

void printRulesMarkdown(raw_ostream &OS, const RuleBook &B) {
  OS << "# Rules learned from past issues\n\n"
        "Each rule names the issue that taught it. Follow the rule, or say why "
        "that issue cannot come back.\nWritten by `culprit kb rules`; change "
        "the issues log, not this file.\n";
  for (const RuleGroup &G : B.Groups) {
    OS << "\n## " << titleOf(G) << "\n\n";
    for (const Rule &R : G.Rules) {
      OS << "- " << escapedMarkdown(R.Text) << '\n';
      for (const Entry *E : R.Because) {
        OS << "  Because: " << escapedMarkdown(oneLine(E->Title)) << " (`"
           << E->Id << '`';
        if (!E->Date.empty())
          OS << ", " << E->Date;
        OS << ")\n";
      }
    }
  }
}

json::Value rulesJson(const RuleBook &B) {
  json::Array Groups, Refused;
  for (const RuleGroup &G : B.Groups) {
    json::Array Rules;
    for (const Rule &R : G.Rules) {
      json::Array Because;
      for (const Entry *E : R.Because)
        Because.push_back(json::Object{
            {"entry", E->Id},
            {"title", E->Title},
            {"date", E->Date},
            {"source", json::Object{{"file", json::fixUTF8(E->Source.File)},
                                    {"line", E->Source.Line}}}});
      Rules.push_back(
          json::Object{{"text", R.Text}, {"because", std::move(Because)}});
    }
    json::Object Out{{"title", titleOf(G)}, {"rules", std::move(Rules)}};
    Out["practice"] = G.What ? json::Value(G.What->Id) : json::Value(nullptr);
    Groups.push_back(std::move(Out));
  }
  for (const auto &[E, Why] : B.Refused)
    Refused.push_back(json::Object{{"entry", E->Id}, {"why", Why}});
  return json::Object{{"schema", 1},
                      {"preventions", B.Items},
                      {"groups", std::move(Groups)},
                      {"left_out", std::move(Refused)}};
}

} // namespace culprit
