//===- TextFileTest.h - A fixture for readers of text -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_UNIT_READERS_TEXTFILETEST_H
#define CULPRIT_UNIT_READERS_TEXTFILETEST_H

#include "Readers/Reader.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"
#include "gtest/gtest.h"

namespace culprit {

/// One file read by one reader. Messages name it "F".
class TextFileTest : public testing::Test {
protected:
  void SetUp() override {
    ASSERT_FALSE(llvm::sys::fs::createUniqueDirectory("culprit-text", Folder));
  }
  void TearDown() override { llvm::sys::fs::remove_directories(Folder); }

  std::unique_ptr<InputFile> write(llvm::StringRef Text, llvm::StringRef Name) {
    Path = (Folder + "/" + Name).str();
    std::error_code EC;
    {
      llvm::raw_fd_ostream OS(Path, EC);
      OS << Text;
    }
    llvm::Expected<std::unique_ptr<InputFile>> File = InputFile::open(Path);
    EXPECT_TRUE(bool(File));
    return File ? std::move(*File) : nullptr;
  }

  Match match(const Reader &R, llvm::StringRef Text,
              llvm::StringRef Name = "file") {
    return R.matches(*write(Text, Name));
  }

  /// Reads \p Text; remarks and the error, if any, go to Said.
  void read(const Reader &R, llvm::StringRef Text,
            llvm::StringRef Name = "file") {
    std::unique_ptr<InputFile> File = write(Text, Name);
    S = std::make_unique<Source>(Path, Pool);
    Said.clear();
    Failed = false;
    if (llvm::Error E = R.read(*File, *S)) {
      Failed = true;
      for (const Diagnostic &D : toDiagnostics(std::move(E)))
        Said.push_back(shortened(D.Message));
    }
    for (const Diagnostic &D : S->Remarks)
      Said.push_back(shortened(D.Message));
  }

  /// Row \p Row of \p Id as "value|value" of \p Columns.
  std::string row(TableId Id, size_t Row,
                  std::initializer_list<unsigned> Columns) {
    TableBuilder *T = S->existing(Id);
    if (!T || Row >= T->rows())
      return "no such row";
    std::string Out;
    for (unsigned C : Columns) {
      bool Known = T->touched(C) && !T->finished(C).isNull(Row);
      Out += (Out.empty() ? "" : "|") +
             (Known ? T->finished(C).cell(Row, Pool).text() : "-");
    }
    return Out;
  }
  size_t rows(TableId Id) {
    TableBuilder *T = S->existing(Id);
    return T ? T->rows() : 0;
  }
  /// step|name|value|place of a scalar.
  std::string scalar(size_t Row) {
    return row(TableId::scalars, Row,
               {scalars::step, scalars::name, scalars::value, scalars::place});
  }

  llvm::SmallString<128> Folder;
  std::string Path;
  StringPool Pool;
  std::unique_ptr<Source> S;
  std::vector<std::string> Said;
  bool Failed = false;

private:
  std::string shortened(llvm::StringRef Message) {
    Message.consume_front(Path);
    return ("F" + Message).str();
  }
};

} // namespace culprit

#endif // CULPRIT_UNIT_READERS_TEXTFILETEST_H
