//===- TestReader.h - One document of a test --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Turns the tree of a document into a case, and says what is wrong with it.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_AUTHOR_TESTREADER_H
#define CULPRIT_AUTHOR_TESTREADER_H

#include "Author/TestFile.h"
#include "Author/Yaml.h"

namespace culprit {

class TestReader {
public:
  explicit TestReader(TestFile &Into) : Into(Into), Path(Into.Path) {}

  /// Adds the case of \p Document, whose first line is \p FirstLine of the
  /// file, or the first mistake in it.
  void read(llvm::StringRef Document, unsigned FirstLine);

private:
  llvm::Error wrong(unsigned Line, const llvm::Twine &What,
                    const llvm::Twine &Hint = "");
  llvm::Error document(llvm::StringRef Text, unsigned FirstLine);
  llvm::Error caseOf(const YamlValue &Map, llvm::StringRef Text,
                     TestCase &Out);
  llvm::Error options(const YamlValue &Map, TestCase &Out);
  llvm::Error expectation(const YamlValue &Value, Expectation &Out);
  llvm::Error outcome(const YamlEntry &Entry, Expectation &Out);
  llvm::Error reports(const YamlValue &List, Expectation &Out);
  llvm::Error report(const YamlValue &Map, ExpectedReport &Out);
  llvm::Error field(const YamlEntry &Entry, ExpectedReport &Out);
  llvm::Error unjudged(const YamlValue &Map, Expectation &Out);

  TestFile &Into;
  const std::string &Path;
};

} // namespace culprit

#endif // CULPRIT_AUTHOR_TESTREADER_H
