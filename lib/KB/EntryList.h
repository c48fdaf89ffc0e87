//===- EntryList.h - The entries of several sources -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Entries of stores and of logs read into memory as one list. Those of a store
/// are read when they are asked for, since a search needs a handful of them.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_KB_ENTRYLIST_H
#define CULPRIT_KB_ENTRYLIST_H

#include "KB/StoreFormat.h"
#include "KB/TextIndex.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace culprit {

/// Entries of one origin with their index. Numbers of entries are its own.
class EntrySource {
public:
  /// A store whose index fits \p V, or one that is indexed in memory as its
  /// index does not.
  static llvm::Expected<std::unique_ptr<EntrySource>>
  open(llvm::StringRef Path, const Vocabulary &V);
  /// Entries in memory, which are indexed.
  static std::unique_ptr<EntrySource> inMemory(std::vector<LogFile> Files,
                                               const Vocabulary &V);

  unsigned size() const { return Index->table().Entries; }
  const TextIndex &index() const { return *Index; }
  bool isInMemory() const { return !D; }

  llvm::Expected<Entry> read(unsigned Row) const;
  /// All entries. Of a source in memory they are moved, so that nothing else
  /// may be read from it any more.
  llvm::Expected<std::vector<Entry>> takeAll();
  /// The id as it stands in the source.
  llvm::Expected<std::string> id(unsigned Row) const;
  /// The entries with that id, ascending.
  llvm::Expected<std::vector<unsigned>> withId(llvm::StringRef Id) const;
  llvm::Expected<std::string> fragment(unsigned Row, unsigned Fragment) const;

private:
  std::unique_ptr<Database> D; ///< Null for a source in memory.
  mutable std::optional<EntryReader> Reader;
  std::vector<Entry> Held;
  mutable llvm::StringMap<std::vector<unsigned>> HeldIds; ///< Made when asked.
  std::optional<TextIndex> Index; ///< Refers to D.

  llvm::Expected<EntryReader *> reader() const;
};

/// The entries of sources one behind the other. Ids are unique: one that was
/// there before gets `-2`. Used by one thread at a time.
class EntryList {
public:
  /// Appends \p S.
  void add(std::unique_ptr<EntrySource> S);

  struct Part {
    std::unique_ptr<EntrySource> Source;
    unsigned First; ///< The number of its first entry.
  };
  llvm::ArrayRef<Part> parts() const { return Parts; }
  unsigned size() const { return Size; }
  const Part &partOf(unsigned I) const;

  /// The entry \p I; lives as long as this.
  llvm::Expected<const Entry *> entry(unsigned I) const;
  /// All of them.
  llvm::Expected<llvm::ArrayRef<Entry>> all() const;

  llvm::Expected<std::string> fragment(unsigned I, unsigned Fragment) const;
  /// Whether the id of \p A sorts before that of \p B.
  llvm::Expected<bool> idBefore(unsigned A, unsigned B) const;

private:
  llvm::Expected<std::string> id(unsigned I, const std::string &Given) const;
  llvm::Expected<bool> isTaken(llvm::StringRef Id, unsigned Before) const;
  llvm::Expected<std::vector<unsigned>> withId(llvm::StringRef Id,
                                               unsigned Before) const;

  std::vector<Part> Parts;
  unsigned Size = 0;
  mutable std::vector<Entry> All;
  mutable bool HasAll = false;
  mutable llvm::DenseMap<unsigned, std::unique_ptr<Entry>> Single;
  /// What id() found out: to name one of several entries of an id, those
  /// before it must be named first.
  mutable llvm::DenseMap<unsigned, std::string> Ids;
};

} // namespace culprit

#endif // CULPRIT_KB_ENTRYLIST_H
