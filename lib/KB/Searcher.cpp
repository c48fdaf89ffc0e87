//===- Searcher.cpp ---------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/Searcher.h"
#include "KB/FragmentIndex.h"
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
/// A hit below this share of the best one is noise.
static constexpr double Noise = 0.05;

Searcher::Searcher(const EntryList &Entries, const Vocabulary &V)
    : Entries(Entries), A(V), Aliases(V.aliases()) {
  std::array<double, NumFields> Sum = {}, Having = {};
  StringMap<uint32_t> Known;
  Known[""] = 0;
  Classes.push_back("");
  for (const EntryList::Part &P : Entries.parts()) {
    const EntryTable &T = P.Source->index().table();
    for (unsigned F = 0; F < NumFields; ++F) {
      Sum[F] += static_cast<double>(T.Sum[F]);
      Having[F] += static_cast<double>(T.Having[F]);
    }
    std::vector<uint32_t> &Numbers = ClassNumbers.emplace_back();
    for (const std::string &Class : T.Classes) {
      auto [It, New] = Known.try_emplace(Class, uint32_t(Classes.size()));
      if (New)
        Classes.push_back(Class);
      Numbers.push_back(It->second);
    }
  }
  // Over the entries that have the field, as an optional one that is missing
  // says nothing about how long it usually is.
  for (unsigned F = 0; F < NumFields; ++F)
    MeanLength[F] = Having[F] ? Sum[F] / Having[F] : 1;
}

uint32_t Searcher::classOf(unsigned Entry) const {
  const EntryList::Part &P = Entries.partOf(Entry);
  size_t Source = static_cast<size_t>(&P - Entries.parts().data());
  return ClassNumbers[Source][P.Source->index().classOf(Entry - P.First)];
}

Expected<Searcher::Occurrences> Searcher::rows(StringRef Term) const {
  Occurrences O;
  for (const EntryList::Part &P : Entries.parts()) {
    Expected<const IndexTerm *> Row = P.Source->index().find(Term);
    if (!Row)
      return Row.takeError();
    O.Rows.push_back(*Row);
    if (*Row)
      O.Entries += (*Row)->Entries;
  }
  return O;
}

Expected<Searcher::Occurrences> Searcher::occurrences(const Term &T) const {
  if (T.K != Term::Kind::Pair)
    return rows(T.Text);
  Occurrences O;
  auto [First, Second] = StringRef(T.Text).split('+');
  Expected<Occurrences> Left = rows(First);
  if (!Left)
    return Left;
  if (!Left->Entries)
    return O;
  Expected<Occurrences> Right = rows(Second);
  if (!Right)
    return Right;
  for (auto [I, P] : enumerate(Entries.parts()))
    if (Left->Rows[I] && Right->Rows[I])
      Pairs[I].find(Left->Rows[I]->Places, Right->Rows[I]->Places,
                    P.Source->size(), P.First, O.Pairs);
  O.Entries = O.Pairs.size();
  return O;
}

bool Searcher::isIndexed(StringRef Term) const {
  Expected<Occurrences> Found = rows(Term);
  if (Found)
    return Found->Entries != 0;
  consumeError(Found.takeError()); // The search itself will tell.
  return true;
}

Speller &Searcher::speller(char First) const {
  auto It = Spellers.find(First);
  if (It != Spellers.end())
    return It->second;
  WordCounts Words;
  for (const EntryList::Part &P : Entries.parts())
    consumeError(P.Source->index().addWords(First, Words));
  WordCounts OfAliases;
  for (const AliasGroup &G : Aliases)
    for (const std::string &Phrase : G.Phrases)
      countWords(Phrase, OfAliases);
  for (const auto &Item : OfAliases)
    if (Item.first().front() == First)
      Words[Item.first()] += Item.second;
  return Spellers.emplace(First, std::move(Words)).first->second;
}

double Searcher::share(unsigned Field, double Length,
                       const SearchWeights &W) const {
  double Share = W.Rank.length;
  return 1 / (1 - Share + Share * Length / MeanLength[Field]);
}

static double fieldWeight(const QueryTerm &Q, unsigned F,
                          const SearchWeights &W) {
  double Weight = W.Field[F];
  if (Q.Part == Role::Fails)
    Weight *= Fields[F].Fails;
  else if (Q.Part == Role::Works)
    Weight *= Fields[F].Works;
  return Weight;
}

double Searcher::longGain(const QueryTerm &Q, unsigned Entry, unsigned Field,
                          const SearchWeights &W) const {
  const EntryList::Part &P = Entries.partOf(Entry);
  uint32_t Length = P.Source->index().length(Entry - P.First, Field);
  return fieldWeight(Q, Field, W) * share(Field, Length, W);
}

std::array<double, NumFields>
Searcher::frequencies(const QueryTerm &Q, const Posting &P,
                      const SearchWeights &W) const {
  std::array<double, NumFields> Out = {};
  for (unsigned F = 0; F < NumFields; ++F)
    if (P.Counts[F])
      Out[F] = P.Counts[F] * longGain(Q, P.Entry, F, W);
  return Out;
}

double Searcher::weight(const QueryTerm &Q, size_t Having,
                        const SearchWeights &W) const {
  double N = static_cast<double>(Entries.size());
  double Df = static_cast<double>(Having);
  double Rarity = std::log(1 + (N - Df + 0.5) / (Df + 0.5));
  return Q.Weight * W.kind(Q.T.K) * std::pow(Rarity, W.Rank.rarity);
}

double Searcher::saturated(double Frequency, const SearchWeights &W) {
  return Frequency * (W.Rank.saturation + 1) /
         (W.Rank.saturation + Frequency);
}

void Searcher::addTerm(const QueryTerm &Q, const Occurrences &O,
                       const SearchWeights &W,
                       std::vector<double> &Scores) const {
  if (!O.Entries)
    return;
  double Weight = weight(Q, O.Entries, W);
  for (const Posting &P : O.Pairs) {
    std::array<double, NumFields> Parts = frequencies(Q, P, W);
    double Frequency = std::accumulate(Parts.begin(), Parts.end(), 0.0);
    Scores[P.Entry] += Weight * saturated(Frequency, W);
  }
  if (O.Rows.empty())
    return;
  FieldGains Gains;
  for (unsigned F = 0; F < NumFields; ++F)
    for (unsigned Length = 0; Length < 256; ++Length)
      Gains[F][Length] = fieldWeight(Q, F, W) * share(F, Length, W);
  for (auto [I, P] : enumerate(Entries.parts())) {
    if (!O.Rows[I])
      continue;
    unsigned Size = P.Source->size();
    const char *Lengths = P.Source->index().table().Lengths.data();
    double *Into = Scores.data() + P.First;
    unsigned First = P.First;
    double Frequency = 0;
    readCounts(
        O.Rows[I]->Places, Size,
        [&](unsigned Entry, unsigned F, uint32_t Count) {
          uint8_t Length =
              static_cast<uint8_t>(Lengths[size_t(Entry) * NumFields + F]);
          double Gain = LLVM_LIKELY(Length != EntryTable::LongField)
                            ? Gains[F][Length]
                            : longGain(Q, First + Entry, F, W);
          Frequency += Count * Gain;
        },
        [&](unsigned Entry) {
          Into[Entry] += Weight * saturated(Frequency, W);
          Frequency = 0;
        });
  }
}

Expected<std::map<unsigned, Searcher::Quoted>>
Searcher::fragments(StringRef Query, const SearchWeights &W) const {
  std::map<unsigned, Quoted> Best;
  std::vector<LogFragment> Possible;
  for (const EntryList::Part &P : Entries.parts()) {
    Expected<StringRef> Anchors = P.Source->index().anchors();
    if (!Anchors)
      return Anchors.takeError();
    for (auto [Row, Fragment] : possibleFragments(*Anchors, Query)) {
      if (Row >= P.Source->size())
        continue; // Damaged.
      unsigned Entry = P.First + Row;
      Expected<std::string> Text = Entries.fragment(Entry, Fragment);
      if (!Text)
        return Text.takeError();
      Possible.push_back({Entry, static_cast<unsigned>(Possible.size()),
                          std::move(*Text)});
    }
  }
  if (Possible.empty())
    return Best;
  std::vector<LogMatch> Matches = LogMatcher(Possible).match(Query);
  // A fragment that many entries list separates none of them.
  std::map<std::string, double> Sharing;
  auto TextOf = [&](const LogMatch &M) {
    return StringRef(Possible[M.Fragment].Text).lower();
  };
  for (const LogMatch &M : Matches)
    ++Sharing[TextOf(M)];
  for (const LogMatch &M : Matches) {
    std::string Text = TextOf(M);
    double Telling = std::min(1.0, static_cast<double>(Text.size()) / 24);
    double Score = W.Rank.fragment * Telling / std::sqrt(Sharing[Text]);
    auto [It, New] = Best.try_emplace(M.Entry);
    if (New || It->second.Score < Score)
      It->second = {Possible[M.Fragment].Text, Score};
  }
  return Best;
}

Expected<std::vector<Searcher::Ranked>>
Searcher::diversify(ArrayRef<double> Scores, const SearchWeights &W,
                    const SearchOptions &Options) const {
  double Best = 0;
  for (double Score : Scores)
    Best = std::max(Best, Score);
  std::vector<char> Passes(Classes.size(), 1);
  if (Options.Passes)
    for (auto [I, Class] : enumerate(Classes))
      Passes[I] = Options.Passes(Class);
  Error Failed = Error::success();
  auto Better = [&](const Ranked &A, const Ranked &B) {
    if (A.Score != B.Score)
      return A.Score > B.Score;
    if (A.Entry == B.Entry || Failed)
      return A.Entry < B.Entry;
    Expected<bool> Before = Entries.idBefore(A.Entry, B.Entry);
    if (Before)
      return *Before;
    Failed = Before.takeError();
    return A.Entry < B.Entry;
  };
  // The first ones are enough: what the repetition of a class takes from their
  // scores is compared with the best of those left out.
  size_t Taken = std::max<size_t>(64, size_t(4) * Options.Limit);
  if (W.Rank.repeated > 1)
    Taken = Scores.size();
  std::vector<Ranked> Order, Hits;
  while (true) {
    // A heap with the worst one at the front.
    Order.clear();
    bool All = true;
    for (unsigned I = 0; I < Scores.size(); ++I) {
      Ranked R{I, Scores[I]};
      if (!(R.Score > 0) || R.Score < Noise * Best ||
          (Options.Passes && !Passes[classOf(I)]))
        continue;
      if (Order.size() == Taken) {
        All = false;
        if (R.Score < Order.front().Score || !Better(R, Order.front()))
          continue;
        std::pop_heap(Order.begin(), Order.end(), Better);
        Order.pop_back();
      }
      Order.push_back(R);
      std::push_heap(Order.begin(), Order.end(), Better);
    }
    std::sort_heap(Order.begin(), Order.end(), Better);
    Hits = Order;
    std::map<uint32_t, unsigned> Repeats;
    for (Ranked &H : Hits)
      if (uint32_t Class = classOf(H.Entry))
        H.Score *= std::pow(W.Rank.repeated, Repeats[Class]++);
    // By a heap, which stays within its bounds also when a damaged store makes
    // no order of the entries.
    std::partial_sort(Hits.begin(), Hits.end(), Hits.end(), Better);
    if (All || (Options.Limit && Hits.size() >= Options.Limit &&
                Hits[Options.Limit - 1].Score > Order.back().Score))
      break;
    Taken = std::min(8 * Taken, Scores.size());
  }
  if (Failed)
    return Failed;
  if (Hits.size() > Options.Limit)
    Hits.resize(Options.Limit);
  return Hits;
}

Expected<SearchResult> Searcher::search(StringRef Query,
                                        const SearchOptions &Options) const {
  static const SearchWeights Usual;
  const SearchWeights &W = Options.Weights ? *Options.Weights : Usual;
  for (const EntryList::Part &P : Entries.parts())
    P.Source->index().trim();
  Pairs.assign(Entries.parts().size(), PairFinder());
  SearchResult Result;
  Result.Query = Query.str();
  auto Correct = [&](StringRef Spelled, std::string &Key) {
    if (isIndexed(Key))
      return;
    Speller &Spell = speller(Spelled.front());
    if (Spell.knows(Spelled))
      return;
    std::string Meant = Spell.meant(Spelled);
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
  std::vector<QueryTerm> Terms = analyzeQuery(A, Words, W, Correct);

  std::vector<double> Scores(Entries.size());
  for (const QueryTerm &Q : Terms) {
    Expected<Occurrences> Found = occurrences(Q.T);
    if (!Found)
      return Found.takeError();
    addTerm(Q, *Found, W, Scores);
  }
  for (const EntryList::Part &P : Entries.parts())
    for (unsigned Row : P.Source->index().table().Definitions)
      Scores[P.First + Row] *= W.Rank.definition;
  Expected<std::map<unsigned, Quoted>> Fragments = fragments(Query, W);
  if (!Fragments)
    return Fragments.takeError();
  for (const auto &[Index, Match] : *Fragments)
    Scores[Index] += Match.Score;
  Expected<std::vector<Ranked>> Order = diversify(Scores, W, Options);
  if (!Order)
    return Order.takeError();
  for (auto [I, R] : enumerate(*Order)) {
    Expected<const Entry *> Found = Entries.entry(R.Entry);
    if (!Found)
      return Found.takeError();
    Result.Hits.push_back(
        {static_cast<unsigned>(I + 1), *Found, R.Score, "", {}});
  }
  if (Options.Explain) {
    for (auto [I, R] : enumerate(*Order))
      if (auto It = Fragments->find(R.Entry); It != Fragments->end())
        Result.Hits[I].Shares.push_back({It->second.Text, "", "fragment", "",
                                         It->second.Score,
                                         {{"log", It->second.Score}}});
    if (Error E = explain(Terms, *Order, W, Result.Hits))
      return E;
  }
  if (Options.Questions)
    addQuestions(Result.Hits);
  return Result;
}

} // namespace culprit
