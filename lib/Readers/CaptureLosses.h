//===- CaptureLosses.h - Why records are not in a capture -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// The reasons, and what may help, as all of culprit says them: at the end of a
/// recording, when it is read and when it is verified.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_CAPTURELOSSES_H
#define CULPRIT_READERS_CAPTURELOSSES_H

#include "Capture/Format.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <string>

namespace culprit::cprt {

/// A reason for which records that were seen are not in the file.
struct Loss {
  uint64_t capture::Drops::*Count;
  llvm::StringLiteral Name;  ///< As profiler_events.name.
  llvm::StringLiteral Why;   ///< Behind "20 records were lost: ".
  llvm::StringLiteral Which; ///< Behind "20 of 404 records ".
  llvm::StringLiteral Next;  ///< What may help.
};
/// All but those that were left out as asked for.
llvm::ArrayRef<Loss> losses();
/// "20 records were lost: CUPTI could not time these kernels".
std::string lossText(uint64_t Count, llvm::StringRef Why);

} // namespace culprit::cprt

#endif // CULPRIT_READERS_CAPTURELOSSES_H
