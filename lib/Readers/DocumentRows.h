//===- DocumentRows.h - Rows of a data set ----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Fills `documents` from records, with a bound on the text that is kept.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_DOCUMENTROWS_H
#define CULPRIT_READERS_DOCUMENTROWS_H

#include "Case/Source.h"
#include "Support/LooseTree.h"
#include <string>

namespace culprit {

/// Bytes of text that the file at \p Path may keep: Whole whatever else there
/// is, and more as its part of Folder, which the data sets of one folder share
/// by size, so that a hundred shards take no more than one.
struct TextBudget {
  static constexpr uint64_t Folder = uint64_t(128) << 20;
  static constexpr uint64_t Whole = uint64_t(4) << 20;

  static uint64_t of(llvm::StringRef Path, uint64_t DiskSize);
};

/// Fills the table of one Source, which must outlive it. Not thread-safe.
class DocumentRows {
public:
  /// A text is cut to MaxText. When half of \p Budget is used up, only the
  /// first MaxStart bytes of each text are kept, and none when all of it is:
  /// copies of a text begin alike, so they are still found.
  static constexpr size_t MaxText = 64 * 1024;
  static constexpr size_t MaxStart = 512;
  /// Rows beyond it are counted alone.
  static constexpr size_t MaxRows = size_t(4) << 20;

  DocumentRows(Source &S, uint64_t Budget);

  /// Adds the row of \p Record at \p Line; false when it is no example.
  bool add(LooseValue Record, int64_t Line);
  /// Remarks on what was not kept.
  void finish();
  size_t rows() const { return Rows; }

private:
  void textOf(LooseValue Record);
  void turn(llvm::StringRef Role, LooseValue Content);

  Source &S;
  uint64_t Budget, Kept = 0;
  StringId File, Run, Split;
  std::string Text;
  size_t Rows = 0, Cut = 0, Without = 0, Uncounted = 0;
};

} // namespace culprit

#endif // CULPRIT_READERS_DOCUMENTROWS_H
