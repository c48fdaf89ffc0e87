//===- StoreFormat.h - The tables of a store --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Writes entries with their index into a database and reads them back. The
/// tables are plain, so that `culprit sql` can ask them: `entries`, `items`
/// (lists: prevention, also, log, fails_when, works_when, reference, other),
/// `signals`, `files`, and the FTS5 table `entry_text`.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_KB_STOREFORMAT_H
#define CULPRIT_KB_STOREFORMAT_H

#include "KB/Analyzer.h"
#include "KB/Database.h"
#include "KB/Entry.h"
#include "KB/Fields.h"
#include "KB/Vocabulary.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include <array>
#include <string>
#include <vector>

namespace culprit {

/// The terms of an entry's fields, as the index holds them.
using IndexText = std::array<std::string, NumFields>;

/// A markdown file with what was read from it.
struct LogFile {
  std::string Path;
  std::string Hash; ///< Of the content, in hex.
  std::vector<Entry> Entries;
  std::vector<IndexText> Index; ///< One for each entry; or empty: to be made.
};

/// What a store holds.
struct StoreContent {
  std::vector<LogFile> Files;
  std::string AnalyzerHash; ///< Of the analyzer and vocabulary of its index.
};

/// Changes with the analyzer and with the vocabulary \p V.
std::string analyzerHash(const Vocabulary &V);

/// Writes \p Files and their index into the empty database \p D.
llvm::Error writeStore(const Database &D, llvm::ArrayRef<LogFile> Files,
                       const Vocabulary &V);

/// Reads all of \p D in its order. Fails when it is no store of this version;
/// \p Name is told in the message. The index texts are read \p WithIndex.
llvm::Expected<StoreContent> readStore(const Database &D, llvm::StringRef Name,
                                       bool WithIndex);

} // namespace culprit

#endif // CULPRIT_KB_STOREFORMAT_H
