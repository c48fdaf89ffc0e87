//===- DynamoLine.h - One line of PyTorch's compiler ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Takes the prefix off a line that a logger of torch.compile wrote. All lines
/// of one message have the whole prefix:
///
///   [rank0]:V1101 12:00:00.10 77 torch/_dynamo/guards.py:53] [0/1]
///       [__recompiles] ...                             PyTorch 2.3 and later
///   [2024-01-08 11:14:49,372] [0/0] torch._dynamo.symbolic_convert
///       .__graph_breaks: [DEBUG] ...                   before it
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_DYNAMOLINE_H
#define CULPRIT_READERS_DYNAMOLINE_H

#include "Readers/LogLine.h"

namespace culprit {

struct DynamoLine {
  llvm::StringRef Prefix;  ///< The same for all lines of a message.
  llvm::StringRef Message; ///< Without the spaces in front of it.
  llvm::StringRef Frame;   ///< 0/1, without the attempt; may be empty.
  /// Unix time; of 1970 where the stamp has no year, as since 2.3.
  std::optional<double> At;
  int64_t Place = 0;
};

/// None for the lines of others. Views of \p L.
std::optional<DynamoLine> parseDynamoLine(const LogLine &L);

/// A guard as it was written, without the version it belongs to and without
/// advice: of "- 0/1: L['n'] == 3   # x * n  # a.py:4 in f (HINT: ...)" what
/// stands between the version and the hint, runs of spaces as one.
std::string guardText(llvm::StringRef Text);

} // namespace culprit

#endif // CULPRIT_READERS_DYNAMOLINE_H
