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
#include <numeric>

using namespace llvm;

namespace culprit {

/// Of a log that is longer only the ends are searched word by word: the set-up
/// and the crash. Its fragments are looked for in all of it.
static constexpr size_t HeadBytes = 32 << 10, TailBytes = 96 << 10;
/// Terms whose places are kept in memory, a few hundred bytes each.
static constexpr size_t MaxRemembered = 20000;
/// A hit below this share of the best one is noise.
static constexpr double Noise = 0.05;

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

Expected<ArrayRef<Posting>> Searcher::postings(StringRef Term) const {
  auto [It, New] = Postings.try_emplace(Term);
  if (New)
    for (const TextIndex &Index : Indexes)
      if (Error E = Index.postings(Term, It->second))
        return E;
  return ArrayRef<Posting>(It->second);
}

bool Searcher::isIndexed(StringRef Term) const {
  Expected<ArrayRef<Posting>> Found = postings(Term);
  if (Found)
    return !Found->empty();
  consumeError(Found.takeError()); // The search itself will tell.
  return true;
}

std::array<double, NumFields>
Searcher::frequencies(const QueryTerm &Q, const Posting &P,
                      const SearchWeights &W) const {
  std::array<double, NumFields> Out = {};
  for (unsigned F = 0; F < NumFields; ++F) {
    if (!P.Counts[F])
      continue;
    double Weight = W.Field[F];
    if (Q.Part == Role::Fails)
      Weight *= Fields[F].Fails;
    else if (Q.Part == Role::Works)
      Weight *= Fields[F].Works;
    double Length = Lengths[P.Entry][F] / MeanLength[F];
    double Share = W.Rank.length;
    Out[F] = Weight * P.Counts[F] / (1 - Share + Share * Length);
  }
  return Out;
}

double Searcher::weight(const QueryTerm &Q, size_t Having,
                        const SearchWeights &W) const {
  double N = static_cast<double>(Entries.size());
  double Df = static_cast<double>(Having);
  double Rarity = std::log(1 + (N - Df + 0.5) / (Df + 0.5));
  return Q.Weight * W.kind(Q.T.K) * std::pow(Rarity, W.Rank.rarity);
}

/// BM25: the second occurrence says less than the first.
static double saturated(double Frequency, const SearchWeights &W) {
  return Frequency * (W.Rank.saturation + 1) /
         (W.Rank.saturation + Frequency);
}

Error Searcher::addTerm(const QueryTerm &Q, const SearchWeights &W,
                        std::vector<double> &Scores) const {
  Expected<ArrayRef<Posting>> Found = postings(Q.T.Text);
  if (!Found)
    return Found.takeError();
  double Weight = weight(Q, Found->size(), W);
  for (const Posting &P : *Found) {
    if (P.Entry >= Scores.size())
      continue;
    std::array<double, NumFields> Parts = frequencies(Q, P, W);
    double Frequency = std::accumulate(Parts.begin(), Parts.end(), 0.0);
    Scores[P.Entry] += Weight * saturated(Frequency, W);
  }
  return Error::success();
}

static bool isDefinition(const Entry &E) {
  return E.Symptom.empty() && E.Title == E.RootCause;
}

std::map<unsigned, std::pair<unsigned, double>>
Searcher::fragments(StringRef Query, const SearchWeights &W) const {
  std::vector<LogMatch> Matches = Matcher.match(Query);
  // A fragment that many entries list separates none of them.
  std::map<std::string, double> Sharing;
  auto TextOf = [&](const LogMatch &M) {
    return StringRef(Entries[M.Entry].LogFragments[M.Fragment]).lower();
  };
  for (const LogMatch &M : Matches)
    ++Sharing[TextOf(M)];
  std::map<unsigned, std::pair<unsigned, double>> Best;
  for (const LogMatch &M : Matches) {
    std::string Text = TextOf(M);
    double Telling = std::min(1.0, static_cast<double>(Text.size()) / 24);
    double Score = W.Rank.fragment * Telling / std::sqrt(Sharing[Text]);
    auto [It, New] = Best.try_emplace(M.Entry, M.Fragment, Score);
    if (!New && It->second.second < Score)
      It->second = {M.Fragment, Score};
  }
  return Best;
}

std::vector<SearchHit> Searcher::diversify(ArrayRef<double> Scores,
                                           const SearchWeights &W,
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
      Score *= std::pow(W.Rank.repeated, Repeats[Entries[I].Class]++);
    Hits.push_back({0, &Entries[I], Score, "", {}});
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

static StringRef kindName(Term::Kind K) {
  static constexpr StringRef Names[] = {"word", "identifier", "number", "alias",
                                        "pair"};
  return Names[static_cast<size_t>(K)];
}

static StringRef clauseName(Role R) {
  static constexpr StringRef Names[] = {"", "fails", "works"};
  return Names[static_cast<size_t>(R)];
}

Error Searcher::explain(ArrayRef<QueryTerm> Terms, const SearchWeights &W,
                        std::vector<SearchHit> &Hits) const {
  for (const QueryTerm &Q : Terms) {
    Expected<ArrayRef<Posting>> Found = postings(Q.T.Text);
    if (!Found)
      return Found.takeError();
    double Weight = weight(Q, Found->size(), W);
    for (SearchHit &H : Hits) {
      unsigned Index = static_cast<unsigned>(H.Found - Entries.data());
      auto P =
          find_if(*Found, [&](const Posting &P) { return P.Entry == Index; });
      if (P == Found->end())
        continue;
      std::array<double, NumFields> Parts = frequencies(Q, *P, W);
      double Sum = std::accumulate(Parts.begin(), Parts.end(), 0.0);
      TermShare S{Q.T.Text, Q.T.Spelled == Q.T.Text ? "" : Q.T.Spelled,
                  kindName(Q.T.K), clauseName(Q.Part), 0, {}};
      S.Score = Weight * saturated(Sum, W);
      if (isDefinition(*H.Found))
        S.Score *= W.Rank.definition;
      if (S.Score <= 0)
        continue;
      for (unsigned F = 0; F < NumFields; ++F)
        if (Parts[F] > 0)
          S.Fields.push_back({Fields[F].Name, S.Score * Parts[F] / Sum});
      llvm::stable_sort(S.Fields, [](const auto &A, const auto &B) {
        return A.second > B.second;
      });
      H.Shares.push_back(std::move(S));
    }
  }
  for (SearchHit &H : Hits)
    llvm::stable_sort(H.Shares, [](const TermShare &A, const TermShare &B) {
      return A.Score > B.Score;
    });
  return Error::success();
}

Expected<SearchResult> Searcher::search(StringRef Query,
                                        const SearchOptions &Options) const {
  static const SearchWeights Usual;
  const SearchWeights &W = Options.Weights ? *Options.Weights : Usual;
  if (Postings.size() > MaxRemembered)
    Postings.clear();
  SearchResult Result;
  Result.Query = Query.str();
  auto Correct = [&](StringRef Spelled, std::string &Key) {
    if (isIndexed(Key))
      return;
    if (!Spell)
      Spell = std::make_unique<Speller>(Entries, Phrases);
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
    if (Error E = addTerm(Q, W, Scores))
      return E;
  for (size_t I = 0; I < Entries.size(); ++I)
    if (isDefinition(Entries[I]))
      Scores[I] *= W.Rank.definition;
  auto Fragments = fragments(Query, W);
  for (const auto &[Index, Match] : Fragments)
    Scores[Index] += Match.second;
  Result.Hits = diversify(Scores, W, Options.Limit);
  if (Options.Explain) {
    for (SearchHit &H : Result.Hits) {
      unsigned Index = static_cast<unsigned>(H.Found - Entries.data());
      if (auto It = Fragments.find(Index); It != Fragments.end())
        H.Shares.push_back({H.Found->LogFragments[It->second.first], "",
                            "fragment", "", It->second.second,
                            {{"log", It->second.second}}});
    }
    if (Error E = explain(Terms, W, Result.Hits))
      return E;
  }
  addQuestions(Result.Hits);
  return Result;
}

} // namespace culprit
