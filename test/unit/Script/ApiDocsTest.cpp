//===- ApiDocsTest.cpp - Generated files are up to date ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// UPDATE=1 rewrites them. Look at the difference of api-v1.txt: a line that
// vanished or changed breaks detectors that people have.
//
//===----------------------------------------------------------------------===//

#include "Script/ApiDocs.h"
#include "Script/ApiEntries.h"
#include "gtest/gtest.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"
#include <cstdlib>
#include <set>

using namespace culprit;

namespace {

void expectFile(llvm::StringRef Path, const std::string &Wanted) {
  std::string File = (CULPRIT_SOURCE_DIR "/" + Path).str();
  if (std::getenv("UPDATE")) {
    std::error_code EC;
    llvm::raw_fd_ostream OS(File, EC);
    OS << Wanted;
    return;
  }
  auto Text = llvm::MemoryBuffer::getFile(File);
  ASSERT_TRUE(bool(Text)) << File << ": run this test with UPDATE=1";
  EXPECT_TRUE((*Text)->getBuffer() == Wanted)
      << File << " is out of date: run this test with UPDATE=1";
}

TEST(ApiDocsTest, StubIsUpToDate) {
  expectFile("plugins/meta/culprit.lua", apiStub());
}

TEST(ApiDocsTest, ManualIsUpToDate) { expectFile("docs/api.md", apiManual()); }

TEST(ApiDocsTest, EveryNameStandsInOneTopic) {
  std::multiset<std::string> Indexed;
  for (const ApiTopic &T : apiTopics())
    for (llvm::StringRef Name : T.names())
      Indexed.insert(Name.str());
  for (const ApiEntry &E : apiEntries()) {
    if (E.Kind == ApiKind::Standard)
      continue;
    EXPECT_EQ(Indexed.erase((E.Receiver + ":" + E.Name).str()), 1u)
        << E.Receiver.str() << ':' << E.Name.str() << " in ApiTopics.def";
  }
  EXPECT_EQ(Indexed, std::multiset<std::string>()) << "not in Api.def";
}

TEST(ApiDocsTest, TopicsOfOperatorsKeepTheirBlanks) {
  ApiTopic T{"", "table:col column:+ - * / column:abs"};
  EXPECT_EQ(T.names(), (llvm::SmallVector<llvm::StringRef, 16>{
                           "table:col", "column:+ - * /", "column:abs"}));
}

// As GitHub makes them: https://github.com/gjtorikian/html-pipeline.
TEST(ApiDocsTest, LinksLeadToHeadings) {
  std::string Manual = apiManual();
  EXPECT_NE(Manual.find("[`top`](#tabletopn-column---culprittable)"),
            std::string::npos);
  EXPECT_NE(Manual.find("\n### `table:top(n, column)` -> `culprit.Table`\n"),
            std::string::npos);
  EXPECT_NE(Manual.find("[`row.column`](#rows)"), std::string::npos);
}

TEST(ApiDocsTest, NothingWasTakenFromVersion1) {
  expectFile("test/lit/script/Inputs/api-v1.txt", apiList());
}

} // namespace
