//===- DamagedStoreTest.cpp -------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/KnowledgeBase.h"
#include "KB/Store.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"
#include "gtest/gtest.h"
#include <random>

using namespace llvm;
using namespace culprit;

namespace {

class DamagedStoreTest : public testing::Test {
protected:
  void SetUp() override {
    ASSERT_FALSE(sys::fs::createUniqueDirectory("kbdamage", Folder));
    std::string Log;
    for (int I = 0; I < 60; ++I)
      Log += "### [FIXED] Zebra " + std::to_string(I) +
             "\n\n**Symptom**: the loss of zebra " + std::to_string(I) +
             " is nan, memory is full\n\n**Class**: fp16-overflow\n\n"
             "**Root Cause**: an overflow\n\n**Log**: `zebra stumbled at " +
             std::to_string(I) + "`\n\n";
    write("log.md", Log);
    cantFail(buildStore(path("log.md"), path("good.sqlite"), vocabulary())
                 .takeError());
    Good = (*MemoryBuffer::getFile(path("good.sqlite")))->getBuffer().str();
  }
  void TearDown() override { sys::fs::remove_directories(Folder); }

  static Vocabulary vocabulary() {
    return cantFail(Vocabulary::parse(
        "", "layer\tclass\tdefinition\n"
            "numerics\tfp16-overflow\tactivation exceeds the maximum\n"));
  }
  std::string path(const std::string &Name) const {
    return Folder.str().str() + "/" + Name;
  }
  void write(const std::string &Name, StringRef Text) const {
    std::error_code Code;
    raw_fd_ostream OS(path(Name), Code);
    OS << Text;
  }

  /// Opens, searches and reads all of the store \p Bytes, beside a good one.
  /// What goes wrong must name the file.
  void use(const std::string &Bytes) {
    write("bad.sqlite", Bytes);
    Expected<KnowledgeBase> K = KnowledgeBase::open(
        {path("bad.sqlite"), path("log.md")}, vocabulary());
    if (!K)
      return told(K.takeError());
    SearchOptions Options;
    Options.Limit = 200;
    Options.Explain = true;
    Expected<SearchResult> R =
        K->search("zebra loss nan\nzebra stumbled at 7", Options);
    if (!R)
      told(R.takeError());
    else
      for (const SearchHit &H : R->Hits)
        EXPECT_NE(H.Found, nullptr);
    if (Error E = K->load())
      return told(std::move(E));
    ++Read;
  }

  void told(Error E) {
    std::string Text = toString(std::move(E));
    EXPECT_NE(Text.find("bad.sqlite"), std::string::npos) << Text;
    ++Refused;
  }

  SmallString<128> Folder;
  std::string Good;
  unsigned Read = 0, Refused = 0;
};

TEST_F(DamagedStoreTest, AnyBytesAreReadOrRefused) {
  use(Good);
  ASSERT_EQ(Read, 1u);
  std::mt19937_64 Random(5);
  for (unsigned Round = 0; Round < 300; ++Round) {
    std::string Bytes = Good;
    static constexpr unsigned Numbers[] = {1, 4, 40, 400};
    for (unsigned Left = Numbers[Round % 4]; Left; --Left)
      Bytes[Random() % Bytes.size()] =
          static_cast<char>(Random() % 2 ? Random() : 255);
    use(Bytes);
  }
  EXPECT_GT(Read, 1u);
  EXPECT_GT(Refused, 1u);
}

TEST_F(DamagedStoreTest, WhatIsCutOffIsRefused) {
  // Of the last page SQLite takes any part; it has the index of ids alone.
  static constexpr size_t PageSize = 16384;
  ASSERT_GT(Good.size(), 4 * PageSize);
  std::mt19937_64 Random(6);
  for (unsigned Round = 0; Round < 60; ++Round)
    use(Good.substr(0, Random() % (Good.size() - PageSize)));
  EXPECT_EQ(Read, 0u);
}

} // namespace
