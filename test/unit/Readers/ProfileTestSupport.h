//===- ProfileTestSupport.h - Profiles as tests write them ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// A file in a folder of its own, read by one reader, and its cells as text.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_TEST_UNIT_READERS_PROFILETESTSUPPORT_H
#define CULPRIT_TEST_UNIT_READERS_PROFILETESTSUPPORT_H

#include "Readers/Reader.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"
#include "gtest/gtest.h"

namespace culprit {

class ProfileTest : public testing::Test {
protected:
  void SetUp() override {
    ASSERT_FALSE(llvm::sys::fs::createUniqueDirectory("culprit", Folder));
  }
  void TearDown() override { llvm::sys::fs::remove_directories(Folder); }

  std::string path() const { return (Folder + "/profile").str(); }

  void write(llvm::StringRef Bytes) {
    std::error_code EC;
    llvm::raw_fd_ostream OS(path(), EC);
    OS << Bytes;
  }

  Match match(const Reader &R) {
    llvm::Expected<std::unique_ptr<InputFile>> File = InputFile::open(path());
    return File ? R.matches(**File)
                : (consumeError(File.takeError()), Match::No);
  }

  /// Reads the file into S. \returns the error's text, empty for success.
  std::string read(const Reader &R) {
    llvm::Expected<std::unique_ptr<InputFile>> File = InputFile::open(path());
    if (!File)
      return toString(File.takeError());
    S = std::make_unique<Source>("profile", Pool);
    llvm::Error E = R.read(**File, *S);
    return E ? toString(std::move(E)) : "";
  }

  size_t rows(TableId Id) {
    TableBuilder *T = S->existing(Id);
    return T ? T->rows() : 0;
  }

  /// The cell of row \p Row in the column named \p Column, "-" when null.
  std::string cell(TableId Id, size_t Row, llvm::StringRef Column) {
    TableBuilder *T = S->existing(Id);
    std::optional<unsigned> C = schema(Id).find(Column);
    if (!T || !C || Row >= T->rows())
      return "no such cell";
    return T->finished(*C).cell(Row, Pool).text();
  }

  /// Several cells of a row, separated by a space.
  std::string cells(TableId Id, size_t Row,
                    std::initializer_list<llvm::StringRef> Columns) {
    std::string Out;
    for (llvm::StringRef Column : Columns)
      Out += (Out.empty() ? "" : " ") + cell(Id, Row, Column);
    return Out;
  }

  /// All remarks, without the path before them.
  std::string remarks() {
    std::string Out;
    for (const Diagnostic &D : S->Remarks) {
      llvm::StringRef Text = D.Message;
      Text.consume_front(path() + ": ");
      Out += (Out.empty() ? "" : "\n") + Text.str();
    }
    return Out;
  }

  llvm::SmallString<128> Folder;
  StringPool Pool;
  std::unique_ptr<Source> S;
};

} // namespace culprit

#endif // CULPRIT_TEST_UNIT_READERS_PROFILETESTSUPPORT_H
