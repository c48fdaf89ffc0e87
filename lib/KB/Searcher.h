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
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include <array>
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
                                      unsigned Limit) const;

private:
  Searcher(llvm::ArrayRef<Entry> Entries, const Vocabulary &V,
           std::vector<TextIndex> Indexes)
      : Entries(Entries), A(V), Matcher(Entries), Indexes(std::move(Indexes)) {}

  llvm::Error postings(llvm::StringRef Term, std::vector<Posting> &Out) const;
  llvm::Error addTerm(const QueryTerm &Q, std::vector<double> &Scores) const;
  void addLogMatches(llvm::StringRef Query, std::vector<double> &Scores) const;
  std::vector<SearchHit> diversify(llvm::ArrayRef<double> Scores,
                                   unsigned Limit) const;

  llvm::ArrayRef<Entry> Entries;
  Analyzer A;
  LogMatcher Matcher;
  std::vector<TextIndex> Indexes;
  std::vector<std::array<unsigned, NumFields>> Lengths;
  std::array<double, NumFields> MeanLength = {};
  std::vector<std::string> Phrases;       ///< Of the aliases.
  mutable std::unique_ptr<Speller> Spell; ///< Made by the first search.
};

/// Fills in what separates each of \p Hits from the others.
void addQuestions(std::vector<SearchHit> &Hits);

} // namespace culprit

#endif // CULPRIT_KB_SEARCHER_H
