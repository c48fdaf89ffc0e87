//===- LogBars.h - Steps told by progress bars ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Transformers prints its metrics as dicts without a step, by tqdm.write(),
/// which draws the bar of the whole run anew behind them:
///
///     5%|5         | 5/100 [00:23<05:51,  3.70s/it]
///   {'loss': 2.5, 'epoch': 0.05}
///     6%|6         | 6/100 [00:27<05:47,  3.70s/it]
///
/// So the first state of that bar behind a dict, or where it is missing the
/// last one before it, is the dict's step. Where bars and dicts go through
/// different buffers they come in any order; then the epochs of the dicts do
/// not grow with those steps, and no steps are told.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_LOGBARS_H
#define CULPRIT_READERS_LOGBARS_H

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <optional>
#include <vector>

namespace culprit {

/// Follows the bars and dicts of one log, in their order. Not thread-safe.
class LogBars {
public:
  /// Looks at one state of a line, whether it is a bar or not.
  void state(llvm::StringRef Text);
  /// A dict was printed; \p Epoch is what it says of itself.
  void dict(std::optional<double> Epoch);

  /// The step of each dict; empty when the bars do not tell.
  std::vector<int64_t> steps() const;

private:
  /// The states of one bar between two dicts.
  struct Bar {
    int64_t Total, First, Last;
  };
  /// Nested bars are few; more are of something else.
  static constexpr size_t MaxBars = 8;
  using Gap = llvm::SmallVector<Bar, 2>;

  std::vector<int64_t> stepsOf(int64_t Total, bool Behind) const;
  bool agrees(llvm::ArrayRef<int64_t> Steps) const;

  std::vector<Gap> Gaps = std::vector<Gap>(1); ///< One more than dicts.
  std::vector<std::optional<double>> Epochs;
  int64_t Longest = 0;
};

} // namespace culprit

#endif // CULPRIT_READERS_LOGBARS_H
