//===- Snippet.h - A piece of Lua over a case -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// `culprit run-lua`: what a detector does in `run`, without a detector around
/// it. The sandbox and its limits are those of detectors; besides there are
/// `case`, `print`, which writes numbers as a script sees them, and `show`,
/// which writes them with units. Findings and logs are printed as they come.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_SCRIPT_SNIPPET_H
#define CULPRIT_SCRIPT_SNIPPET_H

#include "Script/LuaDetector.h"

namespace llvm {
class raw_ostream;
} // namespace llvm

namespace culprit {

struct Snippet {
  std::string Name; ///< What errors call it: a file, or -e.
  std::string Code;
  bool Typed = false; ///< On a command line, and not a file.
};

struct SnippetSettings {
  /// Symptoms that report{} may name, limits and modules.
  LoadSettings Load;
  unsigned Width = 100;
};

/// Runs \p What over \p C and prints to \p OS: what it prints, and, as an
/// interpreter does, the value of the expression that it is or ends with, or
/// that it returns. The error is that of a detector.
std::optional<DetectorError> runSnippet(const Snippet &What, const Case &C,
                                        const SnippetSettings &Settings,
                                        llvm::raw_ostream &OS);

} // namespace culprit

#endif // CULPRIT_SCRIPT_SNIPPET_H
