//===- ShowRows.h - Tables, rows and columns for a terminal -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// What `print` and `show` of a snippet write. Columns without a value are left
/// out, and nothing is wider than the terminal.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_SCRIPT_SHOWROWS_H
#define CULPRIT_SCRIPT_SHOWROWS_H

#include "Case/Case.h"

namespace culprit {

struct ShowStyle {
  unsigned Width = 100;
  size_t MaxRows = 20;
  /// Durations and sizes with units, for reading; otherwise as the numbers
  /// that a detector sees.
  bool Units = false;
};

/// The first rows, under a line with the name and how many there are.
std::string showTable(const Table &T, const ShowStyle &Style);
/// A line a column; numbers that have a unit with and without it.
std::string showRow(const Table &T, size_t Row, const ShowStyle &Style);
/// The first values of the column #\p Index.
std::string showColumn(const Table &T, size_t Index, const ShowStyle &Style);
/// The tables that have rows.
std::string showCase(const Case &C);

} // namespace culprit

#endif // CULPRIT_SCRIPT_SHOWROWS_H
