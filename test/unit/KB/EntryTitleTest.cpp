//===- EntryTitleTest.cpp --------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/EntryTitle.h"
#include "gtest/gtest.h"

using namespace llvm;
using namespace culprit;

namespace {

TEST(EntryTitleTest, DatesAsPeopleWriteThem) {
  for (StringRef Text :
       {"2025-03-04", "2025/03/04", "2025.3.4", "2025年3月4日", "4 March 2025",
        "4th of nothing, then 4 Mar 2025", "March 4, 2025", "Mar 4th, 2025",
        "04-Mar-2025", "4.3.2025", "on 2025-03-04T10:00:00Z"})
    EXPECT_EQ(findDate(Text).Iso, "2025-03-04") << Text.str();
  EXPECT_EQ(findDate("13/04/2025").Iso, "2025-04-13");
  EXPECT_EQ(findDate("04/13/2025").Iso, "2025-04-13");
  EXPECT_TRUE(findDate("03/04/2025").Ambiguous);
  EXPECT_FALSE(findDate("04/04/2025").Ambiguous);
  for (StringRef Text : {"", "2025-13-01", "2025-00-10", "1.2.3", "v2.10.2025x",
                         "12 layers 2025", "port 29500", "2025-03-045"})
    EXPECT_EQ(findDate(Text).Where, "") << Text.str();
}

TEST(EntryTitleTest, Statuses) {
  auto Take = [](StringRef Text) {
    std::string Title = Text.str();
    std::string Status = takeStatus(Title);
    return Status + "|" + Title;
  };
  EXPECT_EQ(Take("[FIXED] a b"), "FIXED|a b");
  EXPECT_EQ(Take("a b [Fixed]"), "FIXED|a b");
  EXPECT_EQ(Take("WONTFIX: a b"), "WONTFIX|a b");
  EXPECT_EQ(Take("a b (resolved)"), "RESOLVED|a b");
  EXPECT_EQ(Take("[P1][FIXED] a"), "FIXED|[P1] a");
  EXPECT_EQ(Take("[x] a"), "FIXED|a");
  EXPECT_EQ(Take("[ ] a"), "OPEN|a");
  // A colon or parentheses alone make no status.
  EXPECT_EQ(Take("Loss: a b"), "|Loss: a b");
  EXPECT_EQ(Take("a b (twice)"), "|a b (twice)");
  EXPECT_EQ(Take("[FIXED]"), "|[FIXED]");
  EXPECT_TRUE(isSetAside("WONTFIX"));
  EXPECT_FALSE(isSetAside("FIXED"));
  EXPECT_TRUE(isOpen("OPEN"));
}

} // namespace
