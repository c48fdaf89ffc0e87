//===- Searcher.cpp ---------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/Searcher.h"
#include "KB/WordForms.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

using namespace llvm;

namespace culprit {

// Saturation and length normalisation of BM25, tuned with the queries of
// test/bench/kb-queries.
static constexpr double Saturation = 3;
static constexpr double LengthShare = 0.4;
/// Rarity counts squared: complaints are long and entries are too, and a
/// dozen common words in common must not outweigh the one that tells.
static constexpr double RarityPower = 2;
/// What a second entry of a class keeps of its score for the order: a reader
/// wants to see other causes before variants of the same.
static constexpr double RepeatedClass = 0.6;
/// A class that is known by its definition alone has few words to match.
static constexpr double DefinitionShare = 1.2;
/// Of a log that is longer only the ends are searched word by word: the set-up
/// and the crash. Its fragments are looked for in all of it.
static constexpr size_t HeadBytes = 32 << 10, TailBytes = 96 << 10;
/// A hit below this share of the best one is noise.
static constexpr double Noise = 0.05;
/// A literal fragment of an entry in a pasted log is about as much evidence
/// as two rare words in the title.
static constexpr double FragmentScore = 50;

Expected<Searcher> Searcher::create(ArrayRef<Entry> Entries,
                                    const Vocabulary &V,
                                    std::vector<TextIndex> Indexes) {
  Searcher S(Entries, V, std::move(Indexes));
  for (const AliasGroup &G : V.aliases())
    append_range(S.Phrases, G.Phrases);
  S.Lengths.resize(Entries.size());
  for (const TextIndex &Index : S.Indexes)
    if (Error E = Index.lengths(S.Lengths))
      return E;
  for (unsigned F = 0; F < NumFields; ++F) {
    // Over the entries that have the field, as an optional one that is
    // missing says nothing about how long it usually is.
    double Sum = 0, Count = 0;
    for (const std::array<unsigned, NumFields> &L : S.Lengths) {
      Sum += L[F];
      Count += L[F] != 0;
    }
    S.MeanLength[F] = Count ? Sum / Count : 1;
  }
  return S;
}

Error Searcher::postings(StringRef Term, std::vector<Posting> &Out) const {
  for (const TextIndex &Index : Indexes)
    if (Error E = Index.postings(Term, Out))
      return E;
  return Error::success();
}

Error Searcher::addTerm(const QueryTerm &Q, std::vector<double> &Scores) const {
  std::vector<Posting> Found;
  if (Error E = postings(Q.T.Text, Found))
    return E;
  double N = static_cast<double>(Entries.size());
  double Df = static_cast<double>(Found.size());
  double Rarity = std::log(1 + (N - Df + 0.5) / (Df + 0.5));
  for (const Posting &P : Found) {
    if (P.Entry >= Scores.size())
      continue;
    double Frequency = 0;
    for (unsigned F = 0; F < NumFields; ++F) {
      if (!P.Counts[F])
        continue;
      double Weight = Fields[F].Weight;
      if (Q.Part == Role::Fails)
        Weight *= Fields[F].Fails;
      else if (Q.Part == Role::Works)
        Weight *= Fields[F].Works;
      double Length = Lengths[P.Entry][F] / MeanLength[F];
      Frequency +=
          Weight * P.Counts[F] / (1 - LengthShare + LengthShare * Length);
    }
    Scores[P.Entry] += Q.Weight * std::pow(Rarity, RarityPower) * Frequency *
                       (Saturation + 1) / (Saturation + Frequency);
  }
  return Error::success();
}

static bool isDefinition(const Entry &E) {
  return E.Symptom.empty() && E.Title == E.RootCause;
}

void Searcher::addLogMatches(StringRef Query,
                             std::vector<double> &Scores) const {
  std::vector<LogMatch> Matches = Matcher.match(Query);
  // A fragment that many entries list separates none of them.
  std::map<std::string, double> Sharing;
  auto TextOf = [&](const LogMatch &M) {
    return StringRef(Entries[M.Entry].LogFragments[M.Fragment]).lower();
  };
  for (const LogMatch &M : Matches)
    ++Sharing[TextOf(M)];
  std::map<unsigned, double> Best;
  for (const LogMatch &M : Matches) {
    std::string Text = TextOf(M);
    double Telling = std::min(1.0, static_cast<double>(Text.size()) / 24);
    double &Score = Best[M.Entry];
    Score = std::max(Score, FragmentScore * Telling / std::sqrt(Sharing[Text]));
  }
  for (auto [Entry, Score] : Best)
    Scores[Entry] += Score;
}

std::vector<SearchHit> Searcher::diversify(ArrayRef<double> Scores,
                                           unsigned Limit) const {
  std::vector<unsigned> Order;
  for (unsigned I = 0; I < Scores.size(); ++I)
    if (Scores[I] > 0)
      Order.push_back(I);
  llvm::sort(Order, [&](unsigned A, unsigned B) {
    if (Scores[A] != Scores[B])
      return Scores[A] > Scores[B];
    return Entries[A].Id < Entries[B].Id;
  });
  std::vector<SearchHit> Hits;
  std::map<StringRef, unsigned> Repeats;
  for (unsigned I : Order) {
    double Score = Scores[I];
    if (Score < Noise * Scores[Order.front()])
      break;
    if (!Entries[I].Class.empty())
      Score *= std::pow(RepeatedClass, Repeats[Entries[I].Class]++);
    Hits.push_back({0, &Entries[I], Score, ""});
  }
  llvm::stable_sort(Hits, [](const SearchHit &A, const SearchHit &B) {
    if (A.Score != B.Score)
      return A.Score > B.Score;
    return A.Found->Id < B.Found->Id;
  });
  if (Hits.size() > Limit)
    Hits.resize(Limit);
  for (unsigned I = 0; I < Hits.size(); ++I)
    Hits[I].Rank = I + 1;
  return Hits;
}

Expected<SearchResult> Searcher::search(StringRef Query, unsigned Limit) const {
  SearchResult Result;
  Result.Query = Query.str();
  auto Correct = [&](StringRef Spelled, std::string &Key) {
    if (Spell->knows(Spelled))
      return;
    std::string Meant = Spell->meant(Spelled);
    if (Meant.empty())
      return;
    std::pair<std::string, std::string> Pair(Spelled.str(), Meant);
    if (!is_contained(Result.Corrections, Pair))
      Result.Corrections.push_back(Pair);
    Key = stem(Meant);
  };
  if (!Spell)
    Spell = std::make_unique<Speller>(Entries, Phrases);
  std::string Shortened;
  StringRef Words = Query;
  if (Query.size() > HeadBytes + TailBytes) {
    Shortened =
        (Twine(Query.take_front(HeadBytes)) + "\n" + Query.take_back(TailBytes))
            .str();
    Words = Shortened;
  }
  std::vector<QueryTerm> Terms = analyzeQuery(A, Words, Correct);

  std::vector<double> Scores(Entries.size());
  for (const QueryTerm &Q : Terms)
    if (Error E = addTerm(Q, Scores))
      return E;
  for (size_t I = 0; I < Entries.size(); ++I)
    if (isDefinition(Entries[I]))
      Scores[I] *= DefinitionShare;
  addLogMatches(Query, Scores);
  Result.Hits = diversify(Scores, Limit);
  addQuestions(Result.Hits);
  return Result;
}

} // namespace culprit
