//===- TestRuns.h - Tests that were run, and their print --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Runs the cases of one detector, and prints what became of all.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_TOOL_TESTRUNS_H
#define CULPRIT_TOOL_TESTRUNS_H

#include "Author/TestRun.h"
#include "TestTargets.h"

namespace culprit {

/// What became of one detector's test.
struct TestRun {
  enum class Kind {
    Ran,
    NoTest,  ///< The detector has none.
    LitTest, ///< Its test is not for us; Named says whether to speak of it.
    Broken,  ///< No case was run; Problems say why.
  };
  Kind What = Kind::Ran;
  std::string Id;   ///< Of the detector; its file where that is not known.
  std::string Lua;  ///< The detector's file; may be empty.
  std::string Test; ///< Empty where there is none.
  bool Named = false;
  std::vector<TestResult> Results;
  size_t LeftOut = 0; ///< Cases that the filter left out.
  /// Mistakes in the test or the detector.
  std::vector<Diagnostic> Problems;
  /// All files that the results depend on.
  std::vector<std::string> Files;

  /// Whether a case hangs in a thread that was left behind, which goes on with
  /// the detector: exit without destructors.
  bool abandoned() const;
};

/// Runs the cases of \p Target whose names fit the glob \p Filter, all when
/// that is empty. May be called from several threads.
TestRun runTarget(const TestTarget &Target, llvm::StringRef Filter,
                  KnownDetectors &Known);

struct TestStyle {
  unsigned Width = 100;
  bool Verbose = false;
  bool Color = false;
};

/// Prints \p Runs for people, mistakes to stderr. Returns the exit status:
/// 0 where all passed, 1 where one did not, 2 where something is broken.
int printRuns(llvm::ArrayRef<TestRun> Runs, const TestStyle &Style);
/// The same for programs.
int printRunsAsJson(llvm::ArrayRef<TestRun> Runs);

} // namespace culprit

#endif // CULPRIT_TOOL_TESTRUNS_H
