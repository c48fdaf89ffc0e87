//===- EntryListTest.cpp ----------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/EntryList.h"
#include "KB/FragmentIndex.h"
#include "KB/LogMatcher.h"
#include "gtest/gtest.h"
#include <set>

using namespace llvm;
using namespace culprit;

namespace {

LogFile logOf(std::vector<std::string> Ids) {
  LogFile F;
  F.Path = "log.md";
  for (std::string &Id : Ids) {
    Entry &E = F.Entries.emplace_back();
    E.Title = Id;
    E.Id = std::move(Id);
  }
  return F;
}

EntryList listOf(const std::vector<std::vector<std::string>> &Sources) {
  Vocabulary V = cantFail(Vocabulary::parse("", ""));
  EntryList L;
  for (const std::vector<std::string> &Ids : Sources) {
    std::vector<LogFile> Files;
    Files.push_back(logOf(Ids));
    L.add(EntrySource::inMemory(std::move(Files), V));
  }
  return L;
}

/// The ids one by one, from the last to the first, and all at once.
void expectIds(const std::vector<std::vector<std::string>> &Sources,
               const std::vector<std::string> &Expected) {
  EntryList One = listOf(Sources), All = listOf(Sources);
  ASSERT_EQ(One.size(), Expected.size());
  for (unsigned I = One.size(); I--;)
    EXPECT_EQ(cantFail(One.entry(I))->Id, Expected[I]);
  ArrayRef<Entry> Entries = cantFail(All.all());
  for (unsigned I = 0; I < Entries.size(); ++I) {
    EXPECT_EQ(Entries[I].Id, Expected[I]);
    EXPECT_EQ(cantFail(All.entry(I)), &Entries[I]);
  }
}

TEST(EntryListTest, IdsAreUniqueWhicheverIsReadFirst) {
  expectIds({{"a", "b"}, {"b", "a", "c"}}, {"a", "b", "b-2", "a-2", "c"});
  expectIds({{"a", "a"}, {"a"}}, {"a", "a-2", "a-3"});
  // The name that would be given is another entry's own, before or behind.
  expectIds({{"a-2", "a", "a"}}, {"a-2", "a", "a-3"});
  expectIds({{"a", "a", "a-2"}}, {"a", "a-2", "a-2-2"});
  expectIds({{"a", "a"}, {"a-2", "a-2"}, {"a-2"}},
            {"a", "a-2", "a-2-2", "a-2-3", "a-2-4"});
  expectIds({{"a", "a-1", "a-02"}, {"a"}}, {"a", "a-1", "a-02", "a-2"});
}

// Naming each anew from all before it would take 2^40 steps.
TEST(EntryListTest, OneIdInManyLogs) {
  std::vector<std::string> Expected = {"a"};
  for (int I = 2; I <= 40; ++I)
    Expected.push_back("a-" + std::to_string(I));
  expectIds(std::vector<std::vector<std::string>>(40, {"a"}), Expected);
}

TEST(EntryListTest, ManyOfOneId) {
  std::vector<std::string> Ids(300, "a"), Expected = {"a"};
  for (int I = 2; I <= 300; ++I)
    Expected.push_back("a-" + std::to_string(I));
  expectIds({Ids}, Expected);
}

TEST(FragmentIndexTest, LeavesOutNothingThatMatches) {
  std::vector<std::vector<std::string>> Lists = {
      {"illegal memory access was encountered", "Xid 79"},
      {"worker ... killed ... Bus", "a ... b ... c d", "loss scale to 8192.0"},
      {"", "nan", "...", "2147483648", "FP16 overflow", "signal 9"},
      {"illegal memory access was encountered", "killed"},
      {"émulé naïve", "rank 3 … left", "size 1,024 of 2,048", "of 2"}};
  std::vector<Entry> Entries;
  for (auto &List : Lists)
    Entries.emplace_back().LogFragments = List;
  std::vector<const Entry *> Pointers;
  for (const Entry &E : Entries)
    Pointers.push_back(&E);
  std::string Anchors = fragmentAnchors(Pointers);
  LogMatcher M(Entries);
  for (StringRef Text :
       {"CUDA error: an ILLEGAL MEMORY ACCESS was encountered", "xid 79",
        "Xid 13", "worker (pid 4) is killed by signal: Bus error\nkilled",
        "reducing loss scale to 4096", "value 2147483648 and 2147483647",
        "xa  xbx  c d", "fp16 overflow\nfp8 overflow", "signal 9", "signal 11",
        "rank 17 has left", "size 512 of 77", "émulé naïve", "nothing", "",
        "\n\n", "size 1,024 of 2,048"}) {
    std::set<FragmentPlace> Possible;
    for (FragmentPlace P : possibleFragments(Anchors, Text))
      Possible.insert(P);
    for (const LogMatch &Match : M.match(Text))
      EXPECT_TRUE(Possible.count({Match.Entry, Match.Fragment}))
          << Text.str() << " " << Lists[Match.Entry][Match.Fragment];
  }
  // Of `a ... b ... c d` no four bytes are known, so it is always possible.
  EXPECT_EQ(possibleFragments(Anchors, "nothing of it").size(), 1u);
  EXPECT_TRUE(possibleFragments("", "Xid 79").empty());
}

} // namespace
