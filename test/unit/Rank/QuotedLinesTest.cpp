//===- QuotedLinesTest.cpp ------------------------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Rank/QuotedLines.h"
#include "gtest/gtest.h"
#include <string>
#include <vector>

using namespace culprit;

namespace {

using Quotes = std::vector<std::string>;

TEST(QuotedLines, takesMessagesBetweenMarks) {
  EXPECT_EQ(quotesOf("dies with `lease pool exhausted` at once"),
              (Quotes{"lease pool exhausted"}));
  EXPECT_EQ(quotesOf("it says \"no route to host\", twice"),
              (Quotes{"no route to host"}));
  EXPECT_EQ(quotesOf("``the `lock` is held``"),
              (Quotes{"the `lock` is held"}));
}

TEST(QuotedLines, takesFencesLineByLine) {
  EXPECT_EQ(quotesOf("first:\n```text\nthe pool is empty\nok\nthe pool is "
                       "closed\n```\nthen nothing"),
              (Quotes{"the pool is empty", "the pool is closed"}));
}

TEST(QuotedLines, namesOfExceptionsAreMessagesAndOtherNamesAreNot) {
  EXPECT_EQ(quotesOf("`ZeroDivisionError` from `train.py`, `optimizer.step()`"),
              (Quotes{"ZeroDivisionError"}));
}

TEST(QuotedLines, theMessageAlsoCountsWithoutItsType) {
  EXPECT_EQ(quotesOf("`store.LeaseError: the lease pool is exhausted`"),
              (Quotes{"store.LeaseError: the lease pool is exhausted",
                          "the lease pool is exhausted"}));
}

TEST(QuotedLines, leavesOutWhatIsShortOrOpen) {
  EXPECT_EQ(quotesOf("`a b`, \"nan nan\", `not closed at all"), Quotes{});
  EXPECT_EQ(quotesOf("a 5\" disk, then a 7\" one"), Quotes{});
  EXPECT_EQ(quotesOf("```"), Quotes{});
  EXPECT_EQ(quotesOf(""), Quotes{});
}

} // namespace
