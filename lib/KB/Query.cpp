//===- Query.cpp ------------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/Query.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include <array>
#include <map>

using namespace llvm;

namespace culprit {

// A clause that holds one of these, in whole words, says what works.
static constexpr std::array<StringRef, 36> WorkCues = {
    "is fine",    "are fine",     "was fine",
    "were fine",  "runs fine",    "work fine",
    "works",      "worked",       "is right",
    "are right",  "is correct",   "correctly",
    "properly",   "normally",     "as expected",
    "stable",     "no problem",   "no problems",
    "no issue",   "no issues",    "is ok",
    "are ok",     "ok with",      "fine with",
    "fine on",    "fine without", "without problems",
    "succeeds",   "learns",       "is good",
    "are good",   "looks good",   "load fine",
    "loads fine", "trains fine",  "converges"};

// Such a clause in turn says what fails.
static constexpr std::array<StringRef, 8> Negations = {
    "not",   "never", "no longer", "doesn't",
    "don't", "isn't", "fails",     "stopped"};

static constexpr std::array<StringRef, 14> FailCues = {
    "only when", "only with",  "only if",  "only in", "only on",
    "only for",  "only after", "when",     "once",    "as soon as",
    "if",        "unless",     "whenever", "with"};

// Words between which one clause ends and the next begins.
static constexpr std::array<StringRef, 8> Conjunctions = {
    "but", "while", "although", "though", "whereas", "however", "yet", "then"};

static bool hasPhrase(StringRef Padded, StringRef Phrase) {
  std::string Key = (" " + Twine(Phrase) + " ").str();
  return Padded.contains(Key);
}

/// The role of a clause, given in lower case with blanks around each word.
static Role roleOf(StringRef Clause) {
  bool Negated =
      any_of(Negations, [&](StringRef Cue) { return hasPhrase(Clause, Cue); });
  bool Works =
      any_of(WorkCues, [&](StringRef Cue) { return hasPhrase(Clause, Cue); });
  if (Works && !Negated)
    return Role::Works;
  bool Fails =
      any_of(FailCues, [&](StringRef Cue) { return hasPhrase(Clause, Cue); });
  return Fails ? Role::Fails : Role::Neutral;
}

/// The role of every word.
static std::vector<Role> clauseRoles(ArrayRef<Word> Words) {
  std::vector<Role> Roles(Words.size(), Role::Neutral);
  size_t Begin = 0;
  std::string Clause = " ";
  auto Close = [&](size_t End) {
    Role R = roleOf(Clause);
    for (size_t I = Begin; I < End; ++I)
      Roles[I] = R;
    Begin = End;
    Clause = " ";
  };
  for (size_t I = 0; I < Words.size(); ++I) {
    std::string Lower = StringRef(Words[I].Text).lower();
    if (I && (Words[I].NewClause || is_contained(Conjunctions, Lower)))
      Close(I);
    Clause += Lower + " ";
  }
  Close(Words.size());
  return Roles;
}

/// Whether \p Line was printed by a program.
static bool looksLikeLog(StringRef Line) {
  Line = Line.trim();
  if (Line.empty())
    return false;
  bool Bracket = Line.starts_with("[") || Line.starts_with("{");
  bool Stamp = isDigit(Line[0]) && Line.take_front(20).count(':') >= 2;
  bool Frame = Line.starts_with("File \"") || Line.starts_with("Traceback") ||
               Line.starts_with("at ");
  bool Named = Line.contains("Error:") || Line.contains("ERROR") ||
               Line.contains("WARN") || Line.contains("INFO") ||
               Line.contains("Exception");
  return Bracket || Stamp || Frame || Named;
}

static bool isErrorLine(StringRef Line) {
  std::string Lower = Line.lower();
  for (StringRef Cue : {"error", "fatal", "fail", "exception", "assert",
                        "abort", "killed", "xid", "nan", "timeout", "timed out",
                        "overflow", "cannot", "unable", "warn"})
    if (StringRef(Lower).contains(Cue))
      return true;
  return false;
}

std::vector<QueryTerm> analyzeQuery(const Analyzer &A, StringRef Text,
                                    const SearchWeights &W,
                                    Analyzer::Corrector Correct) {
  SmallVector<StringRef, 32> Lines;
  Text.split(Lines, '\n');
  // In a long log most lines are about other things.
  std::vector<double> LineWeight;
  std::vector<bool> Typed;
  for (StringRef Line : Lines) {
    bool Long = Lines.size() > 10;
    bool Log = Long || looksLikeLog(Line);
    Typed.push_back(!Log);
    // What follows a sentence on lines of its own is mostly pasted.
    LineWeight.push_back(LineWeight.empty() && !Log ? 1
                         : isErrorLine(Line)        ? W.Rank.error_line
                         : Long                     ? W.Rank.long_log_line
                         : Log                      ? W.Rank.log_line
                                                    : W.Rank.later_line);
  }
  std::vector<Word> Words = lex(Text);
  std::vector<Role> Roles = clauseRoles(Words);

  // What a log holds was not typed.
  if (Words.size() > 80)
    Correct = nullptr;

  std::vector<QueryTerm> Out;
  std::map<std::string, size_t> Index;
  for (Term &T : A.terms(Words, Correct)) {
    unsigned Line = Words[T.Word].Line;
    bool Sentence = Typed[Line];
    Role R = Sentence ? Roles[T.Word] : Role::Neutral;
    double Weight = LineWeight[Line];
    auto [It, New] = Index.try_emplace(T.Text, Out.size());
    if (New) {
      Out.push_back({std::move(T), R, Weight});
      continue;
    }
    // Said again, a term counts as where it counts most; in which clause it
    // stands no longer separates anything.
    QueryTerm &Old = Out[It->second];
    Old.Weight = std::max(Old.Weight, Weight);
    if (Old.Part != R)
      Old.Part = Role::Neutral;
  }
  return Out;
}

} // namespace culprit
