//===- StoreFormat.h - The tables of a store --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Writes entries with their index into a database and reads them back. The
/// tables are plain, so that `culprit sql` can ask them: `entries`, `items`
/// (lists: prevention, also, log, fails_when, works_when, reference, other),
/// `signals`, `files`, `words`, and `terms`, the index: of each term in how
/// many entries it is, and where in the form of Postings.h. `index_parts` is
/// what a search needs of all entries.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_KB_STOREFORMAT_H
#define CULPRIT_KB_STOREFORMAT_H

#include "KB/Analyzer.h"
#include "KB/Database.h"
#include "KB/Entry.h"
#include "KB/Vocabulary.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include <string>
#include <vector>

namespace culprit {

/// A markdown file with what was read from it.
struct LogFile {
  std::string Path;
  std::string Hash; ///< Of the content, in hex.
  std::vector<Entry> Entries;
};

/// Changes with the analyzer and with the vocabulary \p V.
std::string analyzerHash(const Vocabulary &V);

/// Writes \p Files and their index into the empty database \p D.
llvm::Error writeStore(const Database &D, llvm::ArrayRef<LogFile> Files,
                       const Vocabulary &V);

/// A store to read from.
struct OpenedStore {
  Database D;
  /// Whether its index was made with this analyzer and vocabulary. If not, its
  /// entries are good all the same.
  bool IndexFits = false;
};

/// Opens the store \p Path, to be used with \p V. Fails when it is no store of
/// this version.
llvm::Expected<OpenedStore> openStore(llvm::StringRef Path,
                                      const Vocabulary &V);

/// Reads the files of the store \p D without their entries.
llvm::Expected<std::vector<LogFile>> readStoreFiles(const Database &D);
/// How many entries the store \p D has.
llvm::Expected<unsigned> countEntries(const Database &D);
/// Reads all files and entries of the store \p D in their order.
llvm::Expected<std::vector<LogFile>> readStore(const Database &D);

/// Reads entries of a store one by one, by their row from 0. \p D must outlive
/// this.
class EntryReader {
public:
  static llvm::Expected<EntryReader> open(const Database &D);

  llvm::Expected<Entry> read(unsigned Row);
  /// The id as it was written; another entry may have the same.
  llvm::Expected<std::string> id(unsigned Row);
  /// The rows of id \p Id, ascending.
  llvm::Expected<std::vector<unsigned>> rows(llvm::StringRef Id);
  /// A log fragment; empty when there is none.
  llvm::Expected<std::string> fragment(unsigned Row, unsigned Fragment);

private:
  Statement One, Items, Signals, Id, Rows, Log;
  std::string Name; ///< Of the store, for messages.
};

} // namespace culprit

#endif // CULPRIT_KB_STOREFORMAT_H
