//===- TextIndex.h - Reads an index -----------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// The index of one source, in memory or in a store. Of a store only what a
/// search needs is read: the table of its entries once, the rows of terms when
/// they are asked for.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_KB_TEXTINDEX_H
#define CULPRIT_KB_TEXTINDEX_H

#include "KB/Database.h"
#include "KB/IndexData.h"
#include "KB/Speller.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <optional>

namespace culprit {

/// The parts of an index that are kept whole, by their row in a store.
enum class IndexPart : int64_t {
  Summary = 1, ///< EntryTable less what follows, see packSummary().
  Lengths,
  Classes, ///< EntryTable::ClassOf.
  Order,
  Anchors,
};
llvm::StringRef indexPartName(IndexPart P);

/// \p T as bytes, without Lengths and ClassOf.
std::string packSummary(const EntryTable &T);

/// Used by one thread at a time.
class TextIndex {
public:
  explicit TextIndex(IndexData Data);
  /// Reads from \p D, which must outlive this.
  static llvm::Expected<TextIndex> open(const Database &D);

  const EntryTable &table() const { return Data.Table; }
  /// The number of terms of a field.
  uint32_t length(unsigned Entry, unsigned Field) const;
  uint32_t classOf(unsigned Entry) const;
  /// The rank of an entry among all of this index by id.
  llvm::Expected<uint32_t> order(unsigned Entry) const;
  llvm::Expected<llvm::StringRef> anchors() const;

  /// The row of \p Term or null; valid until trim().
  llvm::Expected<const IndexTerm *> find(llvm::StringRef Term) const;
  /// Forgets rows when they take much memory.
  void trim() const;

  /// Adds the words of the entries that begin with \p First.
  llvm::Error addWords(char First, WordCounts &Counts) const;

private:
  TextIndex() = default;
  llvm::Error part(IndexPart P, std::string &Into) const;
  llvm::Error read(llvm::StringRef Term, int64_t Key, IndexTerm &Into) const;

  mutable IndexData Data; ///< Of a store, what was read so far.
  const Database *D = nullptr;
  mutable Statement FindTerm;
  mutable BlobReader ReadPlaces, ReadPart;
  mutable llvm::StringMap<IndexTerm> Known; ///< No entries: no such term.
  mutable size_t KnownBytes = 0;
  mutable bool HasOrder = false, HasAnchors = false;
};

} // namespace culprit

#endif // CULPRIT_KB_TEXTINDEX_H
