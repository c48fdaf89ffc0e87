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
#include "KB/Entry.h"
#include "KB/LogMatcher.h"
#include "KB/Query.h"
#include "KB/Search.h"
#include "KB/Speller.h"
#include "KB/TextIndex.h"
#include "KB/Weights.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringMap.h"
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
  static llvm::Expected<Searcher> create(llvm::ArrayRef<Entry> Entries,
                                         const Vocabulary &V,
                                         std::vector<TextIndex> Indexes);

  llvm::Expected<SearchResult> search(llvm::StringRef Query,
                                      const SearchOptions &Options) const;

private:
  Searcher(llvm::ArrayRef<Entry> Entries, const Vocabulary &V,
           std::vector<TextIndex> Indexes)
      : Entries(Entries), A(V), Matcher(Entries), Indexes(std::move(Indexes)) {}

  /// Where \p Term occurs; valid until the next search.
  llvm::Expected<llvm::ArrayRef<Posting>> postings(llvm::StringRef Term) const;
  bool isIndexed(llvm::StringRef Term) const;
  /// What the fields of \p P give for \p Q, before saturation.
  std::array<double, NumFields> frequencies(const QueryTerm &Q,
                                            const Posting &P,
                                            const SearchWeights &W) const;
  /// How rare and telling \p Q is, when \p Having entries have it.
  double weight(const QueryTerm &Q, size_t Having,
                const SearchWeights &W) const;
  llvm::Error addTerm(const QueryTerm &Q, const SearchWeights &W,
                      std::vector<double> &Scores) const;
  /// By entry: the fragment that tells most and what it gives.
  std::map<unsigned, std::pair<unsigned, double>>
  fragments(llvm::StringRef Query, const SearchWeights &W) const;
  std::vector<SearchHit> diversify(llvm::ArrayRef<double> Scores,
                                   const SearchWeights &W,
                                   unsigned Limit) const;
  llvm::Error explain(llvm::ArrayRef<QueryTerm> Terms, const SearchWeights &W,
                      std::vector<SearchHit> &Hits) const;

  llvm::ArrayRef<Entry> Entries;
  Analyzer A;
  LogMatcher Matcher;
  std::vector<TextIndex> Indexes;
  std::vector<std::array<unsigned, NumFields>> Lengths;
  std::array<double, NumFields> MeanLength = {};
  std::vector<std::string> Phrases;       ///< Of the aliases.
  mutable std::unique_ptr<Speller> Spell; ///< Made when a word is unknown.
  /// Of the terms that were looked up, since one query's are often the next's.
  mutable llvm::StringMap<std::vector<Posting>> Postings;
};

/// Fills in what separates each of \p Hits from the others.
void addQuestions(std::vector<SearchHit> &Hits);

} // namespace culprit

#endif // CULPRIT_KB_SEARCHER_H
