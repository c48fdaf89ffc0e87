//===- LogFix.h - Brings a log to the common form ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// `kb check --fix`: labels, statuses, dates and line ends in the form that
/// culprit writes. Words of the entries are never touched.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_KB_LOGFIX_H
#define CULPRIT_KB_LOGFIX_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <string>
#include <vector>

namespace culprit {

/// A line that was rewritten; both texts without their line end.
struct LineChange {
  unsigned Line = 0;
  std::string From, To;
};

struct LogFix {
  std::string Text; ///< The whole log, changed or not.
  std::vector<LineChange> Changes;
  /// Line ends or a byte-order mark were changed as well.
  bool Plainer = false;

  bool empty() const { return Changes.empty() && !Plainer; }
};

/// \p Text in the common form. It holds the same entries, field by field; a
/// change that would alter one is not made.
LogFix fixLog(llvm::StringRef Text);

/// Rewrites the file \p Path, at once or not at all, and tells what changed.
llvm::Expected<LogFix> fixLogFile(llvm::StringRef Path);

} // namespace culprit

#endif // CULPRIT_KB_LOGFIX_H
