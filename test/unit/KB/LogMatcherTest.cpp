//===- LogMatcherTest.cpp -----------------------------------------*- C++
//-*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/LogMatcher.h"
#include "gtest/gtest.h"

using namespace llvm;
using namespace culprit;

namespace {

std::vector<Entry> entriesWith(std::vector<std::vector<std::string>> Lists) {
  std::vector<Entry> Out;
  for (std::vector<std::string> &List : Lists)
    Out.emplace_back().LogFragments = std::move(List);
  return Out;
}

TEST(LogMatcherTest, ManyFragmentsInOnePass) {
  LogMatcher M(entriesWith({{"Address already in use"},
                            {"bus error", "out of shared memory"},
                            {"already in"}}));
  std::vector<LogMatch> R = M.match("ok\n"
                                    "RuntimeError: ADDRESS ALREADY IN USE\n"
                                    "\n"
                                    "It is out of shared memory. Bus error.\n"
                                    "address already in use\n");
  ASSERT_EQ(R.size(), 4u);
  EXPECT_EQ(R[0].Entry, 0u);
  EXPECT_EQ(R[0].Lines, (std::vector<unsigned>{1, 4}));
  EXPECT_EQ(R[1].Entry, 1u);
  EXPECT_EQ(R[1].Fragment, 0u);
  EXPECT_EQ(R[2].Fragment, 1u);
  EXPECT_EQ(R[3].Entry, 2u);
}

TEST(LogMatcherTest, NumbersAreAnyNumber) {
  LogMatcher M(entriesWith({{"reducing loss scale to 8192.0"}, {"Xid 79"}}));
  EXPECT_EQ(M.match("reducing loss scale to 4096").size(), 1u);
  EXPECT_EQ(M.match("NVRM: xid 79").size(), 1u);
  EXPECT_TRUE(M.match("NVRM: Xid 13").empty());
}

TEST(LogMatcherTest, DotsAreAnyText) {
  LogMatcher M(entriesWith({{"worker ... killed ... Bus"}}));
  EXPECT_EQ(M.match("worker (pid 4) is killed by signal: Bus error").size(),
            1u);
  EXPECT_TRUE(M.match("killed worker Bus").empty());
  EXPECT_TRUE(M.match("worker killed\nBus").empty());
}

TEST(LogMatcherTest, ALineCountsOnce) {
  LogMatcher M(entriesWith({{"overflow"}}));
  std::string Log;
  for (int I = 0; I < 300; ++I)
    Log += "overflow overflow\n";
  std::vector<LogMatch> R = M.match(Log);
  ASSERT_EQ(R.size(), 1u);
  EXPECT_EQ(R[0].Count, 300u);
  EXPECT_EQ(R[0].Lines.size(), LogMatcher::MaxLines);
}

TEST(LogMatcherTest, ShortAndEmptyFragmentsAreIgnored) {
  LogMatcher M(entriesWith({{"", "...", "nan"}, {}}));
  EXPECT_TRUE(M.match("nan ... ").empty());
  EXPECT_TRUE(M.match("").empty());
}

TEST(LogMatcherTest, SuffixesAreFound) {
  // `she` holds `he`: the automaton must follow its links.
  LogMatcher M(entriesWith({{"ushers"}, {"hers"}, {"shell"}}));
  EXPECT_EQ(M.match("ushers").size(), 2u);
  EXPECT_EQ(M.match("ushell").size(), 1u);
}

} // namespace
