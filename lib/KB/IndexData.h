//===- IndexData.h - The index of a list of entries -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Makes the index: from which terms occur where to what a search needs to know
/// of every entry. It depends on the entries and the vocabulary alone, not on
/// how many threads make it.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_KB_INDEXDATA_H
#define CULPRIT_KB_INDEXDATA_H

#include "KB/Entry.h"
#include "KB/Fields.h"
#include "KB/Vocabulary.h"
#include "llvm/ADT/ArrayRef.h"
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace culprit {

/// A term of the index.
struct IndexTerm {
  int64_t Key = 0; ///< firstKey() of the text, or the next that is free.
  std::string Text;
  unsigned Entries = 0; ///< How many have it.
  std::string Places;   ///< In the form of Postings.h.
};

/// Where the search for the row of \p Term begins. Rows follow each other
/// without a gap as long as their terms have the same key. Never negative.
int64_t firstKey(llvm::StringRef Term);

/// A length that does not fit a byte.
struct LongLength {
  uint32_t Entry, Field, Terms;
};

/// What the index holds beside the terms.
struct EntryTable {
  unsigned Entries = 0;
  /// The number of terms of each field of each entry; LongField where it is
  /// that or more, and then among Long, by entry and field.
  std::string Lengths;
  std::vector<LongLength> Long;
  static constexpr uint8_t LongField = 255;
  /// Of each field: all its terms, and the entries that have any.
  std::array<uint64_t, NumFields> Sum = {}, Having = {};

  std::vector<std::string> Classes; ///< Distinct; the first is "".
  /// Of each entry the index in Classes: two bytes, the lower first, or four
  /// where there are more than 65536.
  std::string ClassOf;
  /// Entries known by a definition only, ascending.
  std::vector<unsigned> Definitions;
};

struct IndexData {
  EntryTable Table;
  std::vector<IndexTerm> Terms; ///< By key.
  /// The number of each entry in the order of ids, four bytes each.
  std::string Order;
  /// The anchors of log fragments, see FragmentIndex.h.
  std::string Anchors;
  /// The words of the entries, as the speller counts them, by word.
  std::vector<std::pair<std::string, unsigned>> Words;
};

/// Whether \p E says nothing but what its class means.
bool isDefinition(const Entry &E);

/// Indexes entries in threads of its own while the caller does something else.
class IndexBuilder {
public:
  /// Begins. \p Entries and \p V must outlive this. At most \p Threads beside
  /// the caller's work at it.
  IndexBuilder(std::vector<const Entry *> Entries, const Vocabulary &V,
               unsigned Threads);
  ~IndexBuilder();

  /// Takes part in the work and returns when all is done. Once.
  IndexData finish();

private:
  struct State;
  std::unique_ptr<State> S;
};

/// All at once, with as many threads as the number of entries is worth.
IndexData buildIndex(std::vector<const Entry *> Entries, const Vocabulary &V);

/// How many threads beside the caller's are worth it for \p Entries.
unsigned indexThreads(size_t Entries);

} // namespace culprit

#endif // CULPRIT_KB_INDEXDATA_H
