//===- Similar.cpp ----------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/Similar.h"
#include "KB/AddEntryText.h"
#include "KB/WordKeys.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"
#include <algorithm>
#include <cmath>
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
static constexpr unsigned MostEntriesOfWord = 64;
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
    std::vector<unsigned> Df(Keys.size());
    for (const auto &Row : Rows)
      for (const WordWeight &W : Row)
        ++Df[W.Word];
    Where.resize(Keys.size());
    double N = static_cast<double>(Rows.size());
    for (size_t I = 0; I < Rows.size(); ++I) {
      double Sum = 0, Common = 0;
      for (WordWeight &W : Rows[I]) {
        // In a log of two entries every word that they share is in all of
        // them, and counts all the same: as if there were eight.
        W.Weight *= std::log(1 + std::max(N, 8.0) / Df[W.Word]);
        Sum += W.Weight * W.Weight;
        if (Df[W.Word] > MostEntriesOfWord)
          Common += W.Weight * W.Weight;
      }
      CommonPart.push_back(Sum > 0 ? std::sqrt(Common / Sum) : 0);
      for (WordWeight &W : Rows[I]) {
        W.Weight /= std::sqrt(Sum);
        if (Df[W.Word] <= MostEntriesOfWord)
          Where[W.Word].push_back({static_cast<unsigned>(I), W.Weight});
      }
    }
  }

  /// Calls \p Each with the entries before \p I that share a word with it that
  /// is not common, in order, and a bound on the cosine.
  void neighbours(unsigned I, function_ref<void(unsigned, double)> Each) {
    Sums.resize(Rows.size());
    Found.clear();
    for (const WordWeight &W : Rows[I])
      for (const WordWeight &At : Where[W.Word]) {
        if (At.Word >= I)
          break;
        if (Sums[At.Word] == 0)
          Found.push_back(At.Word);
        Sums[At.Word] += W.Weight * At.Weight;
      }
    llvm::sort(Found);
    for (unsigned K : Found) {
      // Of common words no more than if they were the same.
      double Most = Sums[K] + CommonPart[I] * CommonPart[K];
      Sums[K] = 0;
      Each(K, Most * (1 + 1e-9)); // Rounded otherwise than the cosine is.
    }
  }

  /// The cosine of two entries.
  double cosine(unsigned A, unsigned B) const {
    double Sum = 0;
    forEachShared(A, B, [&](double Part, unsigned) { Sum += Part; });
    return Sum;
  }

  /// The words that two entries share, by their part in the cosine.
  std::vector<std::string> words(unsigned A, unsigned B) const {
    std::vector<std::pair<double, unsigned>> Shared;
    forEachShared(A, B, [&](double Part, unsigned Word) {
      Shared.push_back({-Part, Word});
    });
    llvm::sort(Shared, [&](const auto &L, const auto &R) {
      return L.first != R.first ? L.first < R.first
                                : Keys.name(L.second) < Keys.name(R.second);
    });
    std::vector<std::string> Out;
    for (const auto &[Part, Word] : Shared)
      if (Out.size() < MostWords)
        Out.push_back(Keys.name(Word));
    return Out;
  }

private:
  template <typename Function>
  void forEachShared(unsigned A, unsigned B, Function Each) const {
    for (auto X = Rows[A].begin(), Y = Rows[B].begin();
         X != Rows[A].end() && Y != Rows[B].end();) {
      if (X->Word < Y->Word) {
        ++X;
      } else if (Y->Word < X->Word) {
        ++Y;
      } else {
        Each(X->Weight * Y->Weight, X->Word);
        ++X;
        ++Y;
      }
    }
  }

  std::vector<WordWeight> count(const Entry &E) {
    std::vector<WordWeight> All, Out;
    std::vector<uint32_t> Text;
    auto Add = [&](StringRef Section, double Weight) {
      if (isPrompt(Section))
        return; // The form's words, the same in each.
      Text.clear();
      Keys.add(Section, Text);
      for (uint32_t Word : Text)
        All.push_back({Word, Weight});
    };
    Add(E.Title, TitleWeight);
    Add(E.Symptom, SymptomWeight);
    Add(E.RootCause, CauseWeight);
    llvm::sort(All, [](const WordWeight &L, const WordWeight &R) {
      return L.Word < R.Word;
    });
    for (const WordWeight &W : All) {
      if (Out.empty() || Out.back().Word != W.Word)
        Out.push_back({W.Word, 0});
      Out.back().Weight += W.Weight; // Whole numbers, so in any order.
    }
    for (WordWeight &W : Out)
      W.Weight = std::sqrt(W.Weight);
    return Out;
  }

  WordKeys Keys{/*OnlyNames=*/false};
  std::vector<std::vector<WordWeight>> Rows;
  /// Entries, as Word, by a word that is not common, with its weight.
  std::vector<std::vector<WordWeight>> Where;
  std::vector<double> CommonPart; ///< Length of an entry's common words.
  std::vector<double> Sums;       ///< Of neighbours(), by entry; else 0.
  std::vector<unsigned> Found;
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
  std::vector<bool> Signalled;
  for (const Entry *E : Entries)
    Signalled.push_back(!signalsOf(*E).empty());
  std::vector<SimilarPair> Out;
  for (unsigned I = 0; I < Entries.size(); ++I) {
    Vectors.neighbours(I, [&](unsigned K, double Most) {
      // Signals cannot lift it above this.
      bool Both = Signalled[I] && Signalled[K];
      auto Reached = [&](double Text) {
        return Both ? (1 - SignalShare) * Text + SignalShare : Text;
      };
      if (Reached(Most) < Least)
        return;
      SimilarPair P;
      P.A = Entries[K];
      P.B = Entries[I];
      P.Text = Vectors.cosine(K, I);
      if (Reached(P.Text) < Least)
        return;
      compare(P);
      if (P.Score < Least)
        return;
      P.Words = Vectors.words(K, I);
      Out.push_back(std::move(P));
    });
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
  Vectors.neighbours(Last, [&](unsigned K, double) {
    SimilarPair P;
    P.A = All[K];
    P.B = &E;
    P.Text = Vectors.cosine(K, Last);
    compare(P);
    if (P.Score < Least)
      return;
    P.Words = Vectors.words(K, Last);
    Out.push_back(std::move(P));
  });
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
