//===- ExampleRows.h - Rows of a dumped batch -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Finds the batches of a case, what their loss counts, and what is odd about
/// a row. Printing is in Examples.h.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_REPORT_EXAMPLEROWS_H
#define CULPRIT_REPORT_EXAMPLEROWS_H

#include "Case/Case.h"
#include "Case/TokenVocabulary.h"
#include <optional>
#include <set>

namespace culprit {

/// The rows of `tensors` that belong to one batch; none where it lacks one.
struct Batch {
  size_t Ids;
  std::optional<size_t> Labels, Answer, Attention;
};

/// One row of a batch.
struct Example {
  std::vector<int64_t> Ids;
  std::vector<bool> Counted; ///< In the loss, by token.
  std::vector<bool> Padding;
  std::vector<bool> Answer; ///< By the batch's own mask; empty without one.
  bool HasLoss = false;     ///< Labels or a mask tell what counts.
};

/// Tokens with a meaning of their own, where the case names them.
struct Marks {
  std::set<int64_t> Ends;
  std::optional<int64_t> Pad;
};

/// Reads rows of the batches of one case, which outlives it.
class ExampleRows {
public:
  ExampleRows(const Case &C, const TokenVocabulary &Words);

  /// The first batches with values, \p Most at the most.
  std::vector<Batch> batches(size_t Most) const;
  /// Row \p Line of \p B.
  Example example(const Batch &B, int64_t Line) const;
  /// What is odd about \p E, a sentence each; none for a row as it should be.
  std::vector<std::string> oddities(const Example &E) const;

private:
  llvm::StringRef text(size_t Row, unsigned Column) const;
  bool usable(size_t Row) const;
  void findMarks();

  const Case &C;
  const Table &Tensors;
  const TokenVocabulary &Words;
  Marks Known;
};

} // namespace culprit

#endif // CULPRIT_REPORT_EXAMPLEROWS_H
