//===- ErrorSignatures.h - Known errors in logs -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Tells known errors by their text. The list is ErrorSignatures.def.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_ERRORSIGNATURES_H
#define CULPRIT_READERS_ERRORSIGNATURES_H

#include "Support/PhraseFinder.h"
#include "llvm/ADT/StringRef.h"
#include <optional>
#include <string>
#include <vector>

namespace culprit {

/// What a text was found to be.
struct ErrorMatch {
  llvm::StringRef Signature; ///< Empty: an error, but none of the known kinds.
  llvm::StringRef Type;      ///< CUDA, NCCL, Xid, signal, ...
  std::string Code;
};

/// What one pass over a line found.
struct LineScan {
  std::vector<PhraseFinder::Hit> Hits; ///< Of signatures, for findError.
  bool Other = false;   ///< Has a phrase beside those of metrics.
  bool Metric = false;                 ///< Names a loss or the like.
  bool Traceback = false;              ///< Is the head of a Python traceback.
  bool Overflow = false; ///< Is DeepSpeed's note of a skipped step.
  bool Plan = false;     ///< Says how many steps there will be.
  bool Chain = false;    ///< Says that the next exception came of the last.
};

/// Scans \p Text, which need not be a single line. Reuses \p Out's memory.
void scanLine(llvm::StringRef Text, LineScan &Out);

/// The error that \p Text is, given its scan; none for lookalikes. An
/// \p Exception's own message is no mention of an error but one.
std::optional<ErrorMatch> findError(llvm::StringRef Text, const LineScan &Scan,
                                    bool Exception = false);

/// For callers that look at a single text.
std::optional<ErrorMatch> findError(llvm::StringRef Text,
                                    bool Exception = false);

} // namespace culprit

#endif // CULPRIT_READERS_ERRORSIGNATURES_H
