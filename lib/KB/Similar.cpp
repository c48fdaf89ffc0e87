//===- Similar.cpp ----------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/Similar.h"
#include "KB/Lexer.h"
#include "KB/WordForms.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

using namespace llvm;

namespace culprit {

/// What the signals count where both entries name some.
static constexpr double SignalShare = 0.3;
/// How much words of a section count; the fix and the prevention of different
/// bugs are often the same.
static constexpr double TitleWeight = 2, SymptomWeight = 2, CauseWeight = 1;
/// A word of more entries than this cannot bring two together, only add to
/// what others did; it keeps 100,000 entries from being 5e9 pairs.
static constexpr unsigned CommonWord = 64;
static constexpr size_t MostWords = 8;

double roundedScore(double Score) { return std::round(Score * 1000) / 1000; }

StringRef SimilarPair::advice() const {
  bool Both = !A->Class.empty() && !B->Class.empty();
  if (Both && !SameClass)
    return "two causes: say in both what separates them";
  return Score >= 0.8 ? "join the two entries"
                      : "one cause: join them; two: say what separates them";
}

namespace {

struct WordWeight {
  unsigned Word;
  double Weight;
};

/// The words of all entries, weighted by rarity.
class WordVectors {
public:
  explicit WordVectors(ArrayRef<const Entry *> Entries) {
    for (const Entry *E : Entries)
      Rows.push_back(count(*E));
    std::vector<unsigned> Df(Names.size());
    for (const auto &Row : Rows)
      for (const WordWeight &W : Row)
        ++Df[W.Word];
    double N = static_cast<double>(Rows.size());
    for (size_t I = 0; I < Rows.size(); ++I) {
      double Sum = 0;
      for (WordWeight &W : Rows[I]) {
        // In a log of two entries every word that they share is in all of
        // them, and counts all the same: as if there were eight.
        W.Weight *= std::log(1 + std::max(N, 8.0) / Df[W.Word]);
        Sum += W.Weight * W.Weight;
        if (Df[W.Word] <= CommonWord)
          Where[W.Word].push_back(static_cast<unsigned>(I));
      }
      for (WordWeight &W : Rows[I])
        W.Weight /= std::sqrt(Sum);
    }
  }

  /// Entries before \p I that share a word with it.
  std::vector<unsigned> neighbours(unsigned I) const {
    std::vector<unsigned> Out;
    for (const WordWeight &W : Rows[I]) {
      auto At = Where.find(W.Word);
      if (At != Where.end())
        for (unsigned K : At->second)
          if (K < I)
            Out.push_back(K);
    }
    llvm::sort(Out);
    Out.erase(std::unique(Out.begin(), Out.end()), Out.end());
    return Out;
  }

  /// The cosine of two entries; the shared words by their part in it.
  double cosine(unsigned A, unsigned B, std::vector<std::string> &Words) const {
    std::vector<std::pair<double, unsigned>> Shared;
    double Sum = 0;
    for (auto X = Rows[A].begin(), Y = Rows[B].begin();
         X != Rows[A].end() && Y != Rows[B].end();) {
      if (X->Word < Y->Word) {
        ++X;
      } else if (Y->Word < X->Word) {
        ++Y;
      } else {
        double Part = X++->Weight * Y->Weight;
        Shared.push_back({-Part, Y++->Word});
        Sum += Part;
      }
    }
    llvm::sort(Shared, [&](const auto &L, const auto &R) {
      return L.first != R.first ? L.first < R.first
                                : Names[L.second] < Names[R.second];
    });
    for (const auto &[Part, Word] : Shared)
      if (Words.size() < MostWords)
        Words.push_back(Names[Word]);
    return Sum;
  }

private:
  std::vector<WordWeight> count(const Entry &E) {
    std::map<unsigned, double> Counts;
    auto Add = [&](StringRef Text, double Weight) {
      for (const Word &W : lex(Text)) {
        std::string Lower = StringRef(W.Text).lower();
        if (Lower.size() < 2 || isStopWord(Lower))
          continue;
        auto [At, New] = Ids.try_emplace(
            W.K == Word::Kind::Name ? stem(Lower) : Lower, Names.size());
        if (New)
          Names.push_back(Lower);
        Counts[At->second] += Weight;
      }
    };
    Add(E.Title, TitleWeight);
    Add(E.Symptom, SymptomWeight);
    Add(E.RootCause, CauseWeight);
    std::vector<WordWeight> Out;
    for (auto [Id, Count] : Counts)
      Out.push_back({Id, std::sqrt(Count)});
    return Out;
  }

  StringMap<unsigned> Ids;
  std::vector<std::string> Names; ///< As first written, by id.
  std::vector<std::vector<WordWeight>> Rows;
  std::map<unsigned, std::vector<unsigned>> Where;
};

} // namespace

static std::set<StringRef> signalsOf(const Entry &E) {
  std::set<StringRef> Out;
  for (const Signal &S : E.Signals)
    if (S.How != Frequency::Never)
      Out.insert(S.Symptom);
  return Out;
}

static void compare(SimilarPair &P) {
  const Entry &A = *P.A, &B = *P.B;
  std::set<StringRef> X = signalsOf(A), Y = signalsOf(B);
  for (StringRef S : X)
    if (Y.count(S))
      P.SharedSignals.push_back(S.str());
  P.HasSignals = !X.empty() && !Y.empty();
  size_t Both = P.SharedSignals.size();
  if (P.HasSignals)
    P.Signals = static_cast<double>(Both) / (X.size() + Y.size() - Both);
  for (const std::string &F : A.LogFragments)
    if (is_contained(B.LogFragments, F))
      P.SharedLog.push_back(F);
  P.SameClass = !A.Class.empty() && A.Class == B.Class;
  P.Score = P.HasSignals
                ? (1 - SignalShare) * P.Text + SignalShare * P.Signals
                : P.Text;
}

static void sortPairs(std::vector<SimilarPair> &Pairs) {
  llvm::stable_sort(Pairs, [](const SimilarPair &L, const SimilarPair &R) {
    return L.Score > R.Score;
  });
}

std::vector<SimilarPair> similarPairs(ArrayRef<const Entry *> Entries,
                                      double Least) {
  WordVectors Vectors(Entries);
  std::vector<SimilarPair> Out;
  for (unsigned I = 0; I < Entries.size(); ++I) {
    for (unsigned K : Vectors.neighbours(I)) {
      SimilarPair P;
      P.A = Entries[K];
      P.B = Entries[I];
      P.Text = Vectors.cosine(K, I, P.Words);
      // Signals cannot lift it above this.
      if ((1 - SignalShare) * P.Text + SignalShare < Least)
        continue;
      compare(P);
      if (P.Score >= Least)
        Out.push_back(std::move(P));
    }
  }
  sortPairs(Out);
  return Out;
}

std::vector<SimilarPair> similarTo(const Entry &E, ArrayRef<Entry> Others,
                                   double Least) {
  std::vector<const Entry *> All;
  for (const Entry &O : Others)
    All.push_back(&O);
  All.push_back(&E);
  WordVectors Vectors(All);
  std::vector<SimilarPair> Out;
  unsigned Last = static_cast<unsigned>(Others.size());
  for (unsigned K : Vectors.neighbours(Last)) {
    SimilarPair P;
    P.A = All[K];
    P.B = &E;
    P.Text = Vectors.cosine(K, Last, P.Words);
    compare(P);
    if (P.Score >= Least)
      Out.push_back(std::move(P));
  }
  sortPairs(Out);
  return Out;
}

json::Value similarJson(ArrayRef<SimilarPair> Pairs, size_t Entries) {
  auto Side = [](const Entry &E) {
    return json::Object{{"entry", E.Id},
                        {"title", E.Title},
                        {"class", E.Class},
                        {"source", json::Object{{"file", json::fixUTF8(
                                                             E.Source.File)},
                                                {"line", E.Source.Line}}}};
  };
  json::Array Out;
  for (const SimilarPair &P : Pairs) {
    Out.push_back(json::Object{
        {"score", roundedScore(P.Score)},
        {"text", roundedScore(P.Text)},
        {"signals", P.HasSignals ? json::Value(roundedScore(P.Signals))
                                 : json::Value(nullptr)},
        {"a", Side(*P.A)},
        {"b", Side(*P.B)},
        {"words", json::Array(P.Words)},
        {"shared_signals", json::Array(P.SharedSignals)},
        {"shared_log", json::Array(P.SharedLog)},
        {"same_class", P.SameClass},
        {"advice", P.advice()}});
  }
  return json::Object{
      {"schema", 1}, {"entries", Entries}, {"pairs", std::move(Out)}};
}

void printSimilar(raw_ostream &OS, ArrayRef<SimilarPair> Pairs,
                  size_t Entries) {
  auto Side = [&](const Entry &E) {
    OS << "      " << E.Title << "\n        " << E.Id << "  (" << E.Source.File
       << ':' << E.Source.Line << ")\n";
  };
  for (const SimilarPair &P : Pairs) {
    OS << formatv("{0:f2}  ", P.Score) << P.advice() << '\n';
    Side(*P.A);
    Side(*P.B);
    OS << "      words " << join(P.Words, ", ") << formatv(" ({0:f2})", P.Text);
    if (!P.SharedSignals.empty())
      OS << "; signals " << join(P.SharedSignals, ", ")
         << formatv(" ({0:f2})", P.Signals);
    if (!P.SharedLog.empty())
      OS << "; log '" << P.SharedLog.front() << "'";
    if (P.SameClass)
      OS << "; both of class " << P.A->Class;
    OS << "\n\n";
  }
  OS << Pairs.size() << (Pairs.size() == 1 ? " pair" : " pairs") << " among "
     << Entries << (Entries == 1 ? " entry\n" : " entries\n");
}

} // namespace culprit
