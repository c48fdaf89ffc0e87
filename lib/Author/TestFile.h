//===- TestFile.h - The test cases of a detector ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Reads `NAME.test`, the cases of the detector `NAME.lua`: YAML documents with
/// a name, a case and what the detector must say about it. docs/case-format.md
/// has the form. Comments may hold lit's RUN lines.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_AUTHOR_TESTFILE_H
#define CULPRIT_AUTHOR_TESTFILE_H

#include "Support/Error.h"
#include <optional>
#include <string>
#include <vector>

namespace culprit {

/// A part of a report that a test names: its key and what was written.
struct ExpectedField {
  std::string Key; ///< "symptom", "at.device", "message", "score", ...
  std::string Text;
  unsigned Line = 0;
};

/// A report that a test expects. Parts it does not name may be anything.
struct ExpectedReport {
  unsigned Line = 0;
  std::vector<ExpectedField> Fields; ///< In the order of the file.

  /// What was written for \p Key, or null.
  const ExpectedField *find(llvm::StringRef Key) const;
  llvm::StringRef symptom() const;
};

/// What a detector must say about a case.
struct Expectation {
  enum class Kind {
    Any,     ///< `unjudged` alone was given.
    Reports, ///< These, in any order, and no others.
    Clear,
    Skipped,
    Failed,
  };
  Kind What = Kind::Any;
  unsigned Line = 0;
  std::vector<ExpectedReport> Reports;
  /// Globs: all that is missing, or all of the one message. Empty: anything.
  std::vector<std::string> Texts;
  /// Symptoms that cannot be judged, each with a glob of what is needed.
  std::vector<ExpectedField> Unjudged;
};

/// The value that a case gives an option.
struct TestOption {
  std::string Name, Value;
  unsigned Line = 0;
};

struct TestCase {
  std::string Name;
  unsigned Line = 0; ///< Of the name.
  /// The tables, as the text of a culprit case whose lines are those of the
  /// file; for readCaseTables().
  std::string Tables;
  /// Recorded files in place of tables, relative to the test.
  std::vector<std::string> Paths;
  unsigned PathsLine = 0;
  std::vector<TestOption> Options;
  Expectation Expected;
};

struct TestFile {
  std::string Path;
  std::string Detector; ///< Empty: the one beside the test.
  unsigned DetectorLine = 0;
  std::vector<TestCase> Cases;
  /// What is wrong with it, each with its line. The cases are those without.
  std::vector<Diagnostic> Mistakes;
  /// It has commands of lit, none of which is `culprit test`: nothing here is
  /// ours to read.
  bool IsLitTest = false;
};

/// Reads the test \p Path. Fails only where it cannot be opened.
llvm::Expected<TestFile> readTestFile(llvm::StringRef Path);
/// The same from a text.
TestFile parseTestFile(llvm::StringRef Path, llvm::StringRef Text);

/// The keys that a report of a test may have.
llvm::ArrayRef<std::string> expectedReportKeys();

/// A number as a test writes it. With decimals it stands for all that round to
/// them: 0.8 for 0.75 to 0.85, 1.56e6 for 1,555,000 to 1,565,000. Without it is
/// that number alone.
struct WrittenNumber {
  double Value = 0, Tolerance = 0;

  /// None where \p Text is no number.
  static std::optional<WrittenNumber> parse(llvm::StringRef Text);
  bool matches(double Other) const;
};

} // namespace culprit

#endif // CULPRIT_AUTHOR_TESTFILE_H
