//===- StrategyTests.h - Tests that preventions speak of --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Whether what a prevention asks for exists: the names of tests, assertions
/// and functions it mentions, looked up in the sources of a repository.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_KB_STRATEGYTESTS_H
#define CULPRIT_KB_STRATEGYTESTS_H

#include "KB/Entry.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <set>
#include <string>
#include <vector>

namespace culprit {

/// The names in \p Item that a test, an assertion or a function may have:
/// `test_weights`, `expected_weights()`, test_cache.py.
std::vector<std::string> testNames(llvm::StringRef Item);

/// A prevention and what was found of it.
struct TestedPrevention {
  std::string Text;
  std::vector<std::string> Names; ///< That it mentions.
  std::string Found;              ///< The name that was found, or empty.
  SourcePlace Where;              ///< Of Found, or of Candidate.
  /// A test whose name says much the same, when none that is named was found.
  std::string Candidate;
};

/// The names in the sources below a folder. Immutable after reading.
class TestIndex {
public:
  /// Reads the sources below \p Folder, a folder or a file. Only \p Wanted
  /// names and the tests themselves are kept. Files above 2 MB, hidden folders
  /// and those of packages and builds are left out.
  static llvm::Expected<TestIndex> read(llvm::StringRef Folder,
                                        llvm::ArrayRef<std::string> Wanted);

  /// What there is of \p Item, a prevention.
  TestedPrevention look(llvm::StringRef Item) const;
  unsigned files() const { return Files; }

private:
  struct Test {
    std::string Name;
    std::set<std::string> Stems;
    SourcePlace Where;
  };
  void readFile(llvm::StringRef Path, llvm::StringRef Text);
  void addTest(llvm::StringRef Line, llvm::StringRef Path, unsigned Number);

  llvm::StringMap<SourcePlace> Names; ///< Line 0: wanted, not found.
  std::vector<Test> Tests;
  unsigned Files = 0;
};

} // namespace culprit

#endif // CULPRIT_KB_STRATEGYTESTS_H
