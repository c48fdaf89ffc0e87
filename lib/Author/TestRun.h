//===- TestRun.h - Runs the cases of a test ---------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Builds the case that a test describes, runs its detector over it and
/// compares what it said with what was expected.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_AUTHOR_TESTRUN_H
#define CULPRIT_AUTHOR_TESTRUN_H

#include "Author/SideBySide.h"
#include "Author/TestFile.h"
#include "Detect/Detector.h"

namespace culprit {

/// What became of one case.
struct TestResult {
  enum class Verdict {
    Passed,
    Failed, ///< The detector said something else.
    Broken, ///< The case could not be made; Problems says why.
  };
  Verdict What = Verdict::Passed;
  std::string Name;
  unsigned Line = 0;
  /// Of a failed case: all that was expected and all there is.
  std::vector<SideRow> Rows;
  /// Remarks of the readers about the case; errors where it is broken.
  std::vector<Diagnostic> Problems;
  Outcome Got;
};

/// What of the case \p C of \p Test cannot be right for the detector \p Info:
/// symptoms that it does not have, options that it does not know.
std::vector<Diagnostic> checkAgainst(const DetectorInfo &Info,
                                     const TestFile &Test, const TestCase &C);

/// Runs \p D over the case \p C of \p Test, if nothing is wrong with it.
/// Options not set there have their defaults, whatever the project's settings
/// say. Where Got is Abandoned, \p D must stay until the process ends.
TestResult runTestCase(const Detector &D, const TestFile &Test,
                       const TestCase &C, const Limits &Bounds);

/// The files that \p C reads, besides the test itself.
std::vector<std::string> inputsOf(const TestFile &Test, const TestCase &C);

/// Whether \p Got is what \p Expected says. The rows of both beside each other
/// go to \p Rows.
bool compareOutcome(const Expectation &Expected, const Outcome &Got,
                    std::vector<SideRow> &Rows);

} // namespace culprit

#endif // CULPRIT_AUTHOR_TESTRUN_H
