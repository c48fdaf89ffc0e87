//===- SearchExplain.cpp - Which term gave how much -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/Searcher.h"
#include "llvm/ADT/STLExtras.h"
#include <map>
#include <numeric>

using namespace llvm;

namespace culprit {

static StringRef kindName(Term::Kind K) {
  static constexpr StringRef Names[] = {"word", "identifier", "number", "alias",
                                        "pair"};
  return Names[static_cast<size_t>(K)];
}

static StringRef clauseName(Role R) {
  static constexpr StringRef Names[] = {"", "fails", "works"};
  return Names[static_cast<size_t>(R)];
}

Error Searcher::explain(ArrayRef<QueryTerm> Terms, ArrayRef<Ranked> Order,
                        const SearchWeights &W,
                        std::vector<SearchHit> &Hits) const {
  for (const QueryTerm &Q : Terms) {
    Expected<Occurrences> Found = occurrences(Q.T);
    if (!Found)
      return Found.takeError();
    if (!Found->Entries)
      continue;
    // Where the term is in the hits, by entry.
    std::map<unsigned, Posting> Places;
    for (const Ranked &R : Order)
      Places[R.Entry].Entry = R.Entry;
    for (const Posting &P : Found->Pairs)
      if (auto It = Places.find(P.Entry); It != Places.end())
        It->second = P;
    for (auto [I, P] : enumerate(Entries.parts()))
      if (I < Found->Rows.size() && Found->Rows[I])
        readCounts(
            Found->Rows[I]->Places, P.Source->size(),
            [&, First = P.First](unsigned Entry, unsigned F, uint32_t Count) {
              if (auto It = Places.find(First + Entry); It != Places.end())
                It->second.Counts[F] = Count;
            },
            [](unsigned) {});
    double Weight = weight(Q, Found->Entries, W);
    for (auto [I, H] : enumerate(Hits)) {
      std::array<double, NumFields> Parts =
          frequencies(Q, Places[Order[I].Entry], W);
      double Sum = std::accumulate(Parts.begin(), Parts.end(), 0.0);
      TermShare S{Q.T.Text, Q.T.Spelled == Q.T.Text ? "" : Q.T.Spelled,
                  kindName(Q.T.K), clauseName(Q.Part), 0, {}};
      S.Score = Weight * saturated(Sum, W);
      if (isDefinition(*H.Found))
        S.Score *= W.Rank.definition;
      if (!(S.Score > 0))
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

} // namespace culprit
