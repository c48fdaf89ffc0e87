//===- LockTest.cpp ---------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Golden/LockFile.h"
#include "Golden/Schema.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/YAMLParser.h"
#include "gtest/gtest.h"
#include <random>

using namespace culprit;
using namespace llvm;

namespace {

GoldenItem answer(StringRef Id, StringRef Text) {
  GoldenItem I;
  I.Id = Id.str();
  I.set("hash", goldenHash(Text));
  I.set("bytes", int64_t(Text.size()));
  I.set("text", Text);
  I.Why = "greedy: the same \"each\" time";
  return I;
}

/// Texts that YAML readers stumble over.
const StringRef Odd[] = {
    "",          "yes",          "null",       "~",         "- a",
    "a: b",      "a #b",         "#",          "[1, 2]",    "{a: b}",
    "'",         "\"",           "\\",         "\n",        " lead",
    "trail ",    "a\r\nb\tc",    "\x01\x7f",   "\xC2\x85x", "\xE2\x80\xA8",
    "\xEF\xBB\xBFm", "caf\xC3\xA9", "*a",      "&a",        "!a",
    "%a",        "@a",           "`a",         "|",         ">",
    "? a",       "---",          "...",        "0x1F",      "1_000"};

TEST(GoldenLockTest, RoundTrip) {
  std::vector<GoldenItem> Items;
  for (auto [I, Text] : enumerate(Odd)) {
    Items.push_back(answer(("a/" + Twine(I) + " " + Text).str(), Text));
    Items.back().set("m", {{Text.str() + "k", Text.str()}});
  }
  const std::string Written = lockText(Items);
  Expected<std::vector<GoldenItem>> Back = readLock(Written, "lock");
  ASSERT_TRUE(bool(Back)) << toString(Back.takeError());
  ASSERT_EQ(Back->size(), Items.size());
  for (auto [A, B] : zip(Items, *Back)) {
    EXPECT_EQ(A.Id, B.Id);
    EXPECT_EQ(A.text("text"), B.text("text"));
    EXPECT_EQ(A.find("m")->Map, B.find("m")->Map);
    EXPECT_EQ(A.Why, B.Why);
  }
  EXPECT_EQ(lockText(*Back), Written);
}

// Another reader of YAML finds the same texts.
TEST(GoldenLockTest, IsYaml) {
  std::vector<GoldenItem> Items;
  for (auto [I, Text] : enumerate(Odd))
    Items.push_back(answer(("a/" + Twine(I)).str(), Text));
  const std::string Written = lockText(Items);
  SourceMgr SM;
  yaml::Stream Stream(Written, SM);
  size_t Found = 0;
  auto *Root = cast<yaml::MappingNode>(Stream.begin()->getRoot());
  for (yaml::KeyValueNode &Pair : *Root) {
    auto *List = dyn_cast<yaml::SequenceNode>(Pair.getValue());
    if (!List)
      continue;
    for (yaml::Node &Item : *List)
      for (yaml::KeyValueNode &Part : cast<yaml::MappingNode>(Item)) {
        SmallString<64> Key, Value;
        if (cast<yaml::ScalarNode>(Part.getKey())->getValue(Key) != "text")
          continue;
        auto *Word = dyn_cast<yaml::ScalarNode>(Part.getValue());
        ASSERT_TRUE(Word) << Odd[Found].str();
        EXPECT_EQ(Word->getValue(Value), Odd[Found]);
        ++Found;
      }
  }
  EXPECT_FALSE(Stream.failed());
  EXPECT_EQ(Found, std::size(Odd));
}

// As another program writes it: sorted keys, block lists, long texts over
// several lines, an indented list, comments.
TEST(GoldenLockTest, OtherForms) {
  const StringRef Text = "---\n# mine\nculprit_golden: 1  # version\n\nitems:\n"
                         "  - of: ids   # of a batch\n"
                         "    id: 'it''s'\n"
                         "    count: 3\n"
                         "    hash: \"ab\\\n"
                         "      cd\"\n"
                         "    ids:\n"
                         "    - 1\n"
                         "    - 2\n"
                         "    - -100\n"
                         "    kind: exact\n"
                         "    tolerance: none\n"
                         "    why: over\n"
                         "      two lines\n"
                         "  # the next\n"
                         "  - id: b\n"
                         "    kind: statistical\n"
                         "    of: sample\n"
                         "    count: 2\n    mean: 1.5\n    sd: .5\n"
                         "    points: [\n      1,\n      2,\n    ]\n"
                         "    tolerance:\n      k: 3\n      p: 1e-3\n";
  Expected<std::vector<GoldenItem>> Items = readLock(Text, "lock");
  ASSERT_TRUE(bool(Items)) << toString(Items.takeError());
  ASSERT_EQ(Items->size(), 2u);
  const GoldenItem &A = (*Items)[0], &B = (*Items)[1];
  EXPECT_EQ(A.Id, "it's");
  EXPECT_EQ(A.text("hash"), "abcd");
  EXPECT_EQ(A.integers("ids"), (std::vector<int64_t>{1, 2, -100}));
  EXPECT_EQ(A.Why, "over two lines");
  EXPECT_EQ(A.FirstLine, 6u);
  EXPECT_EQ(A.EndLine, 19u); // behind line 18, "two lines"
  EXPECT_EQ(B.numbers("points"), (std::vector<double>{1, 2}));
  EXPECT_EQ(B.tolerance("k"), 3);
  EXPECT_EQ(B.tolerance("p"), 1e-3);
}

TEST(GoldenLockTest, Splice) {
  const std::string Text = "culprit_golden: 1\nitems:\n# about a\n" +
                           itemText(answer("a", "1")) + "# about c\n" +
                           itemText(answer("c", "3")) +
                           itemText(answer("e", "5")) + "# end\n";
  std::vector<GoldenItem> Old = cantFail(readLock(Text, "lock"));
  const std::string New = splicedLock(
      Text, Old, {answer("b", "2"), answer("c", "4"), answer("f", "6")}, {"e"});
  EXPECT_EQ(New, "culprit_golden: 1\nitems:\n# about a\n" +
                     itemText(answer("a", "1")) + "# about c\n" +
                     itemText(answer("b", "2")) + itemText(answer("c", "4")) +
                     "# end\n" + itemText(answer("f", "6")));
}

// Any bytes give an error or items, never a crash: cut and changed locks.
TEST(GoldenLockTest, AnyBytes) {
  GoldenItem Map = answer("m", "x");
  Map.set("fields", {{"a b", "1"}, {"c", "- d"}});
  Map.set("list", ArrayRef<int64_t>{1, 2, 3});
  const std::string Text = lockText({answer("a", "caf\xC3\xA9 \"b\"\n"), Map});
  const auto Try = [](StringRef Bytes) {
    Expected<std::vector<GoldenItem>> Items = readLock(Bytes, "lock");
    if (!Items) {
      EXPECT_NE(toString(Items.takeError()), "");
    }
  };
  for (size_t I = 0; I <= Text.size(); ++I)
    Try(StringRef(Text).take_front(I));
  std::mt19937 Random(7);
  const StringRef Bytes = "\n \t\"'[]{}:,#-\\|>&*!\xff\x01x0";
  for (int I = 0; I != 20000; ++I) {
    std::string Changed = Text;
    for (int K = 0; K != 3; ++K)
      Changed[Random() % Changed.size()] = Bytes[Random() % Bytes.size()];
    Try(Changed);
  }
  Try(std::string(100000, '['));
  Try("culprit_golden: 1\nitems:\n" + std::string(100000, '-'));
  std::string Deep = "culprit_golden: 1\nitems:\n";
  for (int I = 0; I != 100000; ++I)
    Deep += "- ";
  Try(Deep);
}

std::map<std::string, SchemaField> fieldsOf(StringRef Text) {
  Schema S;
  addRecords(Text, S);
  return S.fields();
}

TEST(GoldenSchemaTest, Merges) {
  const auto F = fieldsOf("{\"a\": 1, \"b\": [{\"c\": \"x\"}, {\"c\": null}]}\n"
                          "broken {\n"
                          "{\"a\": 1.5, \"b\": [], \"d\": true}\n");
  EXPECT_EQ(F.at("a").Types, "number");
  EXPECT_EQ(F.at("b").Types, "array");
  EXPECT_EQ(F.at("b[]").Types, "object");
  EXPECT_EQ(F.at("b[].c").Types, "null|string");
  EXPECT_FALSE(F.at("b[].c").Optional);
  EXPECT_TRUE(F.at("d").Optional);
  EXPECT_EQ(F.at("d").Missing, 1);
  EXPECT_EQ(F.at("d").FirstOfType.at("boolean"), 3);
  EXPECT_EQ(F.size(), 5u);
}

// Tokens as keys: ten objects of two keys each, all different.
TEST(GoldenSchemaTest, KeysThatAreData) {
  std::string Text;
  for (int I = 0; I != 10; ++I)
    Text += "{\"top\": {\"t" + std::to_string(2 * I) + "\": -1.5, \"t" +
            std::to_string(2 * I + 1) + "\": -2.5}}\n";
  const auto F = fieldsOf(Text);
  EXPECT_EQ(F.size(), 2u);
  EXPECT_EQ(F.at("top.*").Types, "number");
  EXPECT_TRUE(F.at("top.*").Optional);
}

} // namespace
