//===- LogLikeness.h - Whether a text is a log ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Tells logs from other text. Any text could be read line by line, but an
/// error quoted in a README or a test is no evidence, so a text must show the
/// signs of a log.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_LOGLIKENESS_H
#define CULPRIT_READERS_LOGLIKENESS_H

#include "llvm/ADT/StringRef.h"

namespace culprit {

enum class LogLikeness {
  No,
  Weak,  ///< Some signs: a traceback, a known error, a line of metrics.
  Strong ///< Most lines have a time stamp, a level or metrics.
};

/// Looks at \p Head, the beginning of a text, \p Whole if there is no more and
/// \p Named if the file is called a log: `train.log`, `slurm-1.out`.
LogLikeness logLikeness(llvm::StringRef Head, bool Whole, bool Named);

} // namespace culprit

#endif // CULPRIT_READERS_LOGLIKENESS_H
