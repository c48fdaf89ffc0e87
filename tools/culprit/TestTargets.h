//===- TestTargets.h - Which tests of which detectors -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Finds what `culprit test` is asked for: a test lies beside its detector,
/// or, in a checkout of culprit, in test/lit/detectors.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_TOOL_TESTTARGETS_H
#define CULPRIT_TOOL_TESTTARGETS_H

#include "Author/TestFile.h"
#include "Detectors.h"
#include <mutex>

namespace culprit {

/// A detector and its test; one of them may be missing.
struct TestTarget {
  std::string Lua;
  std::string Test;
  /// It was asked for by its name, not found in a folder.
  bool Named = false;
};

/// The detectors that there are, opened when they are first asked for.
class KnownDetectors {
public:
  KnownDetectors(std::vector<std::string> Folders, const Vocabulary &Words)
      : Folders(std::move(Folders)), Words(Words) {}

  /// Those that --plugins named.
  llvm::ArrayRef<std::string> folders() const { return Folders; }
  /// May be called from several threads.
  llvm::Expected<const DetectorSet *> all();
  /// Loads the one file \p File into \p Into.
  llvm::Error load(llvm::StringRef File, DetectorSet &Into) const;

private:
  std::vector<std::string> Folders;
  const Vocabulary &Words;
  std::once_flag Opened;
  DetectorSet Set;
  std::vector<Diagnostic> Problems;
};

/// What \p Arguments name: ids and globs of ids, .lua and .test files, folders;
/// what the project or the checkout has when there are none.
llvm::Expected<std::vector<TestTarget>>
testTargets(llvm::ArrayRef<std::string> Arguments, KnownDetectors &Known);

/// Where the test of the detector \p Lua belongs.
std::string testPlace(llvm::StringRef Lua);

/// The detector of \p Target, whose test is \p Test if there is one. One that
/// was loaded for this alone is kept in \p Own. Null when it does not load;
/// \p Own has it among the broken then. Fails when there is none.
llvm::Expected<const Detector *> detectorOf(const TestTarget &Target,
                                            const TestFile *Test,
                                            KnownDetectors &Known,
                                            DetectorSet &Own);

} // namespace culprit

#endif // CULPRIT_TOOL_TESTTARGETS_H
