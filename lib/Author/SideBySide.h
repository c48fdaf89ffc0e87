//===- SideBySide.h - Expected and actual in two columns --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Prints pairs of lines beside each other within a width, those that differ
/// marked:
///
///     expected                     actual
///     - symptom: gpu-idle          - symptom: gpu-idle
///   !   at.device: 1                 at.device: 0
///       message: GPU 1 is *          message: GPU 1 is idle 39 % of the
///                                      profile
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_AUTHOR_SIDEBYSIDE_H
#define CULPRIT_AUTHOR_SIDEBYSIDE_H

#include "llvm/ADT/ArrayRef.h"
#include <string>

namespace llvm {
class raw_ostream;
} // namespace llvm

namespace culprit {

/// A line of each side; leading spaces are kept, also where it is broken.
struct SideRow {
  std::string Left, Right;
  bool Differs = false;
};

struct SideStyle {
  unsigned Width = 100;
  unsigned Indent = 0; ///< Columns before the mark.
  bool Color = false;  ///< Green and red for what differs.
};

void printSideBySide(llvm::raw_ostream &OS, llvm::ArrayRef<SideRow> Rows,
                     const SideStyle &Style);

/// \p Text in lines of at most \p Width columns, broken between words where
/// that is possible and within characters never. Lines after the first begin
/// two columns right of the first.
std::vector<std::string> brokenLines(llvm::StringRef Text, size_t Width);

} // namespace culprit

#endif // CULPRIT_AUTHOR_SIDEBYSIDE_H
