//===- Lint.h - What is wrong with a detector before it runs ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Reads the text of a detector for mistakes that a run would show late or
/// never: a name that does not exist in a branch no test takes, an option
/// nobody reads, a symptom never reported, a missing test. It judges by the
/// words of the file and leaves alone what it cannot tell.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_AUTHOR_LINT_H
#define CULPRIT_AUTHOR_LINT_H

#include "Detect/Detector.h"
#include "Script/Modules.h"
#include "Support/Error.h"

namespace culprit {

/// One thing to say about a line of a file.
struct LintRemark {
  std::string File;
  unsigned Line = 1;
  Severity Level = Severity::Warning;
  std::string Text;
  std::string Hint;  ///< Empty when there is nothing to add.
  std::string Check; ///< The name of the check: unused-option.
};

/// "error", "warning" or "note".
llvm::StringRef levelName(Severity Level);

/// "file:1: warning: text [check]" and the hint below it.
std::string toString(const LintRemark &R);

/// The remarks on the detector of \p Source, by line. \p Info is what it
/// declares, or null where it does not load, which \p Problem then explains.
/// What the modules it requires read counts as read, if \p Modules has them.
std::vector<LintRemark> lintDetector(llvm::StringRef File,
                                     llvm::StringRef Source,
                                     const DetectorInfo *Info,
                                     const DetectorError *Problem,
                                     const ModuleSet *Modules = nullptr);

/// The remarks on a module, Lua that detectors `require`.
std::vector<LintRemark> lintModule(llvm::StringRef File,
                                   llvm::StringRef Source,
                                   const ModuleSet *Modules = nullptr);

/// The remarks on the cases \p Text that the detector \p File is tested by.
/// \p TestFile is empty where there are none; \p Place is where they belong.
std::vector<LintRemark> lintTest(llvm::StringRef File,
                                 llvm::StringRef TestFile,
                                 llvm::StringRef Text, llvm::StringRef Place);

/// The headings that the doc comment of a detector has, in their order, each
/// with what a scaffold writes under it.
struct DocHeading {
  llvm::StringRef Heading, Hint;
};
llvm::ArrayRef<DocHeading> docHeadings();

} // namespace culprit

#endif // CULPRIT_AUTHOR_LINT_H
