//===- Search.h - From a complaint to entries -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// The result of a search. One symptom has many causes, so results are spread
/// over classes, and each says which question tells it from the others.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_KB_SEARCH_H
#define CULPRIT_KB_SEARCH_H

#include "KB/Entry.h"
#include "llvm/Support/JSON.h"
#include <functional>
#include <string>
#include <vector>

namespace llvm {
class raw_ostream;
} // namespace llvm

namespace culprit {

struct SearchWeights;

/// What one term of the query gave to a hit.
struct TermShare {
  std::string Term; ///< As indexed: `overflow`, `kv+cach`, `#cuda-700`.
  std::string Said; ///< What it was in the query, where that is not the term.
  llvm::StringRef Kind;   ///< word, identifier, number, alias, pair, fragment
  llvm::StringRef Clause; ///< fails, works, or empty.
  double Score = 0;
  /// How much of it comes from which field, most first.
  std::vector<std::pair<llvm::StringRef, double>> Fields;
};

/// One entry found. Points into the KnowledgeBase.
struct SearchHit {
  unsigned Rank = 0; ///< From 1.
  const Entry *Found = nullptr;
  double Score = 0;
  std::string Separates; ///< The question that tells it from the other hits.
  /// Why it was found, most first; only when asked for. The score is their sum,
  /// less where an entry of the same class is better.
  std::vector<TermShare> Shares;
};

struct SearchOptions {
  unsigned Limit = 5;
  bool Explain = false;
  bool Questions = true; ///< Fill in SearchHit::Separates; of many hits slow.
  const SearchWeights *Weights = nullptr; ///< Other than the usual ones.
  /// Which classes may be among the hits; empty for all.
  std::function<bool(llvm::StringRef Class)> Passes;
};

struct SearchResult {
  std::string Query;
  std::vector<SearchHit> Hits; ///< Best first; ties by entry id.
  /// Words of the query that were read as another: `recieved` as `received`.
  std::vector<std::pair<std::string, std::string>> Corrections;
};

/// The contract of `kb search --format json`.
llvm::json::Value searchJson(const SearchResult &Result);

/// \p Result for people: plain text, at most 100 columns.
void printSearchText(llvm::raw_ostream &OS, const SearchResult &Result);

/// Why \p Hit was found, line by line; at most 100 columns.
void printShares(llvm::raw_ostream &OS, const SearchHit &Hit);
llvm::json::Value sharesJson(const SearchHit &Hit);

/// All of \p E for people: plain text, at most 100 columns.
void printEntryText(llvm::raw_ostream &OS, const Entry &E);

/// All of \p E as an object, for `kb show --format json`.
llvm::json::Value entryJson(const Entry &E);

} // namespace culprit

#endif // CULPRIT_KB_SEARCH_H
