//===- GroupFolds.h - Integer figures of groups -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Counts, exact sums, least and largest integers of groups of rows, all in
/// one pass: the rows go by in blocks that stay in the cache, and each figure
/// looks at a block before the next one comes. Expected: millions of rows, a
/// few figures, from a handful to a million groups.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_TABLE_GROUPFOLDS_H
#define CULPRIT_TABLE_GROUPFOLDS_H

#include "llvm/ADT/ArrayRef.h"
#include <cstdint>
#include <vector>

namespace culprit {

class GroupFolds {
public:
  enum class Kind { Count, Sum, Min, Max };

  /// \p Numbers says of each row which of \p Groups groups it is in, NoRow for
  /// none. It must stay until run() is done.
  GroupFolds(llvm::ArrayRef<uint32_t> Numbers, size_t Groups);

  /// Adds a figure and returns its place for take(). Row I has the value
  /// Values[Rows[I]], or Values[I] without \p Rows; NullInt does not count.
  /// Counting takes no values.
  size_t add(Kind What, llvm::ArrayRef<int64_t> Values = {},
             const uint32_t *Rows = nullptr);

  void run();

  /// The figure \p I by group, once run: sums wrap and are 0 for no value,
  /// least and largest are NullInt then.
  std::vector<int64_t> take(size_t I);

private:
  struct Fold {
    Kind What;
    llvm::ArrayRef<int64_t> Values;
    const uint32_t *Rows;
    std::vector<int64_t> Slots;
  };

  void addBlock(Fold &F, size_t First, size_t Last) const;

  llvm::ArrayRef<uint32_t> Numbers;
  size_t Groups;
  /// Sets of slots: where rows of one group follow each other, each would wait
  /// for the one before, so few groups have four.
  size_t Sets;
  std::vector<uint32_t> BlockSlots; ///< Of the rows of the block at hand.
  std::vector<Fold> Folds;
};

} // namespace culprit

#endif // CULPRIT_TABLE_GROUPFOLDS_H
