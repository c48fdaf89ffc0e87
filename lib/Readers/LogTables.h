//===- LogTables.h - Metrics in a printed table -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// fastai, spaCy, NequIP and hand-written loops print a line of names once and
/// then one of numbers an epoch, or a step:
///
///   epoch     train_loss  valid_loss  accuracy  time
///   0         2.301000    2.250000    0.150000  00:12
///
///   E    #       LOSS TOK2VEC  LOSS NER  ENTS_F  SCORE
///   ---  ------  ------------  --------  ------  ------
///     0       0         10.50     20.25    0.00    0.00
///
/// A name may be of two words where all of them stand two blanks apart. Cells
/// of nerfstudio have units and blanks of their own:
///
///   Step (% Done)   Train Iter (time)   ETA (time)        Train Rays / Sec
///   10 (3.98%)      25.760 ms           6 s, 295.000 ms   4.97 K
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_LOGTABLES_H
#define CULPRIT_READERS_LOGTABLES_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <optional>
#include <string>
#include <vector>

namespace culprit {

/// Follows the tables of one log, line by line.
class PrintedTable {
public:
  enum class Kind { Other, Names, Row };

  /// What \p Text is, a line without its stamp.
  Kind line(llvm::StringRef Text);
  /// Whether rows may follow.
  bool open() const { return !Columns.empty(); }
  /// Of the table begun last.
  llvm::ArrayRef<std::string> columns() const { return Columns; }
  /// Of the row that came last, one a column: none for a time of the day.
  llvm::ArrayRef<std::optional<double>> values() const { return Values; }

private:
  std::vector<std::string> Columns;
  std::vector<std::optional<double>> Values;
  /// Where the columns begin of a table whose cells have blanks.
  std::vector<size_t> Starts;
  double Last = -1;     ///< Counter of the row before.
  unsigned Foreign = 0; ///< Lines of other kinds since then.
};

} // namespace culprit

#endif // CULPRIT_READERS_LOGTABLES_H
