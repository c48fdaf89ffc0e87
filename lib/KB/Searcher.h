//===- Searcher.h - Scores entries against a query --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// BM25F over the indexes of all stores as if they were one: term frequencies
/// are weighted by field before they saturate, so that a word in the title
/// and the symptom counts once and well, not twice.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_KB_SEARCHER_H
#define CULPRIT_KB_SEARCHER_H

#include "KB/Analyzer.h"
#include "KB/EntryList.h"
#include "KB/LogMatcher.h"
#include "KB/Postings.h"
#include "KB/Query.h"
#include "KB/Search.h"
#include "KB/Speller.h"
#include "KB/Weights.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"
#include <array>
#include <map>
#include <memory>
#include <vector>

namespace culprit {

/// Refers to entries and the vocabulary that its owner keeps. Used by one
/// thread at a time.
class Searcher {
public:
  Searcher(const EntryList &Entries, const Vocabulary &V);

  llvm::Expected<SearchResult> search(llvm::StringRef Query,
                                      const SearchOptions &Options) const;

private:
  /// Where a term of the query occurs.
  struct Occurrences {
    /// Of a term of the index: its row in each source, or null.
    llvm::SmallVector<const IndexTerm *, 4> Rows;
    std::vector<Posting> Pairs; ///< Of a pair.
    size_t Entries = 0;         ///< How many have it.
  };
  /// By field and by length, what an occurrence there gives.
  using FieldGains = std::array<std::array<double, 256>, NumFields>;
  /// A fragment of an entry that is in the query.
  struct Quoted {
    std::string Text;
    double Score = 0;
  };

  llvm::Expected<Occurrences> rows(llvm::StringRef Term) const;
  llvm::Expected<Occurrences> occurrences(const Term &T) const;
  bool isIndexed(llvm::StringRef Term) const;
  Speller &speller(char First) const;

  /// How much of a length of \p Length terms is left for one occurrence.
  double share(unsigned Field, double Length, const SearchWeights &W) const;
  /// What an occurrence gives in a field of a length that a byte cannot hold.
  double longGain(const QueryTerm &Q, unsigned Entry, unsigned Field,
                  const SearchWeights &W) const;
  /// What the fields of \p P give for \p Q, before saturation.
  std::array<double, NumFields> frequencies(const QueryTerm &Q,
                                            const Posting &P,
                                            const SearchWeights &W) const;
  /// How rare and telling \p Q is, when \p Having entries have it.
  double weight(const QueryTerm &Q, size_t Having,
                const SearchWeights &W) const;
  /// BM25: the second occurrence says less than the first.
  static double saturated(double Frequency, const SearchWeights &W);
  void addTerm(const QueryTerm &Q, const Occurrences &O,
               const SearchWeights &W, std::vector<double> &Scores) const;
  /// By entry: the fragment that tells most and what it gives.
  llvm::Expected<std::map<unsigned, Quoted>>
  fragments(llvm::StringRef Query, const SearchWeights &W) const;

  struct Ranked {
    unsigned Entry;
    double Score;
  };
  llvm::Expected<std::vector<Ranked>>
  diversify(llvm::ArrayRef<double> Scores, const SearchWeights &W,
            const SearchOptions &Options) const;
  llvm::Error explain(llvm::ArrayRef<QueryTerm> Terms,
                      llvm::ArrayRef<Ranked> Order, const SearchWeights &W,
                      std::vector<SearchHit> &Hits) const;
  uint32_t classOf(unsigned Entry) const;

  const EntryList &Entries;
  Analyzer A;
  std::array<double, NumFields> MeanLength = {};
  std::vector<std::string> Classes; ///< Of all sources; the first is "".
  /// By source and its number of a class, the index into Classes.
  std::vector<std::vector<uint32_t>> ClassNumbers;
  llvm::ArrayRef<AliasGroup> Aliases;
  mutable std::vector<PairFinder> Pairs;    ///< One for each source.
  mutable std::map<char, Speller> Spellers; ///< Made when a word is unknown.
};

/// Fills in what separates each of \p Hits from the others.
void addQuestions(std::vector<SearchHit> &Hits);

} // namespace culprit

#endif // CULPRIT_KB_SEARCHER_H
