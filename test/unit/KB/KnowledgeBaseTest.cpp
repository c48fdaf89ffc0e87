//===- KnowledgeBaseTest.cpp --------------------------------------*- C++
//-*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/KnowledgeBase.h"
#include "KB/Store.h"
#include "KB/Weights.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include "gtest/gtest.h"

using namespace llvm;
using namespace culprit;

namespace {

constexpr const char *Aliases = "cuda-700\tCUDA error 700 | "
                                "cudaErrorIllegalAddress | "
                                "illegal memory access\n"
                                "hang\thang | stuck | freezes | 卡住\n";

constexpr const char *Classes =
    "layer\tclass\tdefinition\n"
    "numerics\tfp16-overflow\tactivation exceeds the fp16 maximum\n"
    "runtime\tillegal-memory-access\ta kernel reads outside\n"
    "distributed\tnccl-mismatch\tranks disagree\n";

constexpr const char *LogMarkdown =
    "### [FIXED] Scores overflow in half precision\n"
    "**Symptom**: loss becomes NaN after hundreds of steps\n\n"
    "**Class**: fp16-overflow\n\n"
    "**Fails when**: fp16; long sequences\n\n"
    "**Works when**: bf16\n\n"
    "**Root Cause**: the product passes 65504\n\n"
    "**Confirm**: Replay in fp32. Confirmed if finite. Refuted if NaN.\n\n"
    "### [FIXED] Another overflow in fp16 of the residual stream\n"
    "**Symptom**: NaN loss in fp16 at the first batch\n\n"
    "**Class**: fp16-overflow\n\n"
    "**Root Cause**: the residual stream is large\n\n"
    "### [FIXED] A kernel reads past its buffer\n"
    "**Symptom**: an illegal memory access was encountered, at random\n\n"
    "**Class**: illegal-memory-access\n\n"
    "**Log**: `CUDA error: an illegal memory access`\n\n"
    "**Root Cause**: 32-bit offsets, NaN in rare cases\n\n"
    "### [FIXED] Ranks wait for each other\n"
    "**Symptom**: the job hangs\n\n"
    "**Class**: nccl-mismatch\n\n"
    "**Root Cause**: one rank skips a collective\n\n";

Vocabulary smallVocabulary(StringRef AliasText = Aliases) {
  return cantFail(
      Vocabulary::parse("- `loss-nan`: loss is NaN\n", Classes, AliasText));
}

class KnowledgeBaseTest : public testing::Test {
protected:
  void SetUp() override {
    ASSERT_FALSE(sys::fs::createUniqueDirectory("culprit-kb", Dir));
  }
  void TearDown() override { sys::fs::remove_directories(Dir); }

  std::string path(StringRef Name) {
    SmallString<128> P(Dir);
    sys::path::append(P, Name);
    return P.str().str();
  }
  std::string write(StringRef Name, StringRef Text) {
    std::error_code Code;
    raw_fd_ostream OS(path(Name), Code);
    OS << Text;
    return path(Name);
  }
  std::string bytes(StringRef Path) {
    return (*MemoryBuffer::getFile(Path))->getBuffer().str();
  }
  std::string first(const KnowledgeBase &K, StringRef Query) {
    Expected<SearchResult> R = K.search(Query);
    if (!R)
      return toString(R.takeError());
    return R->Hits.empty() ? "" : R->Hits.front().Found->Class;
  }
  KnowledgeBase small() {
    return cantFail(
        KnowledgeBase::fromMarkdown(LogMarkdown, "log.md", smallVocabulary()));
  }

  SmallString<128> Dir;
};

TEST_F(KnowledgeBaseTest, FindsWhatPeopleAsk) {
  KnowledgeBase K = small();
  EXPECT_EQ(first(K, "CUDA error 700"), "illegal-memory-access");
  EXPECT_EQ(first(K, "cudaErrorIllegalAddress"), "illegal-memory-access");
  EXPECT_EQ(first(K, "training is stuck"), "nccl-mismatch");
  EXPECT_EQ(first(K, "训练卡住了"), "nccl-mismatch");
  EXPECT_EQ(first(K, "number 65504"), "fp16-overflow");
  EXPECT_EQ(first(K, "NaN in fp16, bf16 is fine"), "fp16-overflow");
  EXPECT_EQ(first(K, "zzz qqq"), "");
  EXPECT_EQ(first(K, ""), "");
}

TEST_F(KnowledgeBaseTest, SlipsAreRead) {
  KnowledgeBase K = small();
  SearchResult R = cantFail(K.search("illegla memmory access"));
  ASSERT_EQ(R.Corrections.size(), 2u);
  EXPECT_EQ(R.Corrections[0].second, "illegal");
  EXPECT_EQ(R.Corrections[1].second, "memory");
  ASSERT_FALSE(R.Hits.empty());
  EXPECT_EQ(R.Hits[0].Found->Class, "illegal-memory-access");
}

TEST_F(KnowledgeBaseTest, SeveralCausesComeBeforeVariants) {
  KnowledgeBase K = small();
  SearchResult R = cantFail(K.search("loss NaN"));
  ASSERT_GE(R.Hits.size(), 2u);
  EXPECT_EQ(R.Hits[0].Found->Class, "fp16-overflow");
  EXPECT_EQ(R.Hits[0].Rank, 1u);
  for (size_t I = 1; I < R.Hits.size(); ++I)
    EXPECT_GE(R.Hits[I - 1].Score, R.Hits[I].Score);
}

TEST_F(KnowledgeBaseTest, TellsWhatSeparates) {
  KnowledgeBase K = small();
  SearchResult R = cantFail(K.search("scores overflow"));
  ASSERT_FALSE(R.Hits.empty());
  EXPECT_EQ(R.Hits[0].Separates,
            "Does it fail when: fp16, or long sequences; and work when: bf16? "
            "Replay in fp32. Confirmed if finite.");
}

TEST_F(KnowledgeBaseTest, SharesAddUpToTheScore) {
  KnowledgeBase K = small();
  SearchOptions Options;
  Options.Explain = true;
  SearchResult R = cantFail(K.search(
      "CUDA error: an illegal memory access, half precision", Options));
  ASSERT_GE(R.Hits.size(), 2u);
  for (const SearchHit &H : R.Hits) {
    double Sum = 0;
    for (const TermShare &S : H.Shares) {
      double Parts = 0;
      for (auto [Field, Score] : S.Fields)
        Parts += Score;
      EXPECT_NEAR(Parts, S.Score, 1e-9) << S.Term;
      Sum += S.Score;
    }
    // Each of these classes has one entry among the hits.
    EXPECT_NEAR(Sum, H.Score, 1e-9) << H.Found->Id;
  }
  const std::vector<TermShare> &First = R.Hits[0].Shares;
  auto Alias = find_if(
      First, [](const TermShare &S) { return S.Term == "#cuda-700"; });
  ASSERT_NE(Alias, First.end());
  EXPECT_EQ(Alias->Said, "illegal memory access");
  EXPECT_EQ(Alias->Kind, "alias");
  EXPECT_TRUE(any_of(
      First, [](const TermShare &S) { return S.Kind == "fragment"; }));
  EXPECT_TRUE(cantFail(K.search("stuck")).Hits[0].Shares.empty());
}

TEST_F(KnowledgeBaseTest, WeightsCanBeTried) {
  SearchWeights W;
  EXPECT_FALSE(W.set("title=0, alias=2.5"));
  EXPECT_EQ(W.Field[0], 0);
  EXPECT_EQ(W.Rank.alias, 2.5);
  EXPECT_EQ(toString(W.set("alis=1")), "there is no weight 'alis'");
  for (StringRef Bad : {"alias", "alias=", "alias=x", "alias=-1", "alias=nan",
                        "alias=1e9"})
    EXPECT_TRUE(errorToBool(W.set(Bad))) << Bad.str();
  // Without any field nothing is found.
  std::string None;
  for (const Field &F : Fields)
    None += F.Name.str() + "=0,";
  EXPECT_FALSE(W.set(None));
  SearchOptions Options;
  Options.Weights = &W;
  EXPECT_TRUE(cantFail(small().search("stuck", Options)).Hits.empty());
}

TEST_F(KnowledgeBaseTest, APastedLogIsAQuery) {
  std::string Log;
  for (int I = 0; I < 200; ++I)
    Log += "[rank" + std::to_string(I % 8) + "] step " + std::to_string(I) +
           " loss 2.31 scores logged\n";
  Log += "RuntimeError: CUDA error: an illegal memory access was encountered\n";
  EXPECT_EQ(first(small(), Log), "illegal-memory-access");
}

TEST_F(KnowledgeBaseTest, ClassesWithoutEntryAreFoundByDefinition) {
  Vocabulary V = cantFail(Vocabulary::parse(
      "",
      std::string(Classes) +
          "training\tovershooting-cranes\tcranes swing too far\n",
      Aliases));
  KnowledgeBase K =
      cantFail(KnowledgeBase::fromMarkdown(LogMarkdown, "log.md", V));
  EXPECT_EQ(K.entries().size(), 4u);
  SearchResult R = cantFail(K.search("my crane swings"));
  ASSERT_EQ(R.Hits.size(), 1u);
  EXPECT_EQ(R.Hits[0].Found->Id, "classes/overshooting-cranes");
  EXPECT_EQ(R.Hits[0].Found->Source.Line, 5u);
  EXPECT_EQ(K.find("overshooting-cranes").size(), 1u);
}

TEST_F(KnowledgeBaseTest, JsonContract) {
  KnowledgeBase K = small();
  SearchResult R = cantFail(K.search("hangs"));
  json::Value V = searchJson(R);
  const json::Object &O = *V.getAsObject();
  EXPECT_EQ(O.getInteger("schema"), 1);
  EXPECT_EQ(O.getString("query"), "hangs");
  const json::Object &H = *(*O.getArray("results"))[0].getAsObject();
  for (StringRef Key : {"rank", "entry", "class", "title", "score", "symptom",
                        "cause", "fix", "separates", "source"})
    EXPECT_TRUE(H.get(Key)) << Key.str();
  EXPECT_EQ(H.getObject("source")->getString("file"), "log.md");
}

TEST_F(KnowledgeBaseTest, FindsByIdAndClass) {
  KnowledgeBase K = small();
  EXPECT_EQ(K.find("log/ranks-wait-for-each-other").size(), 1u);
  EXPECT_EQ(K.find("ranks-wait-for-each-other").size(), 1u);
  EXPECT_EQ(K.find("fp16-overflow").size(), 2u);
  EXPECT_TRUE(K.find("").empty());
  EXPECT_EQ(K.closest("fp16-overfow"), "fp16-overflow");
}

TEST_F(KnowledgeBaseTest, StoreHoldsAllOfAnEntry) {
  std::string Text =
      std::string(LogMarkdown) +
      "### 2026-01-02 [OPEN] Full\n**Symptom**: a\n\n**Fix**: b\n\n"
      "**Files**: c\n\n**Prevention**:\n- d\n- e\n\n**Signals**: loss-nan "
      "(often)\n\n**Workarounds**: f\n\n**References**: https://g.h/i\n\n"
      "**Notes**: kept\n";
  std::string Md = write("log.md", Text), Out = path("kb.sqlite");
  Vocabulary V = smallVocabulary();
  Expected<BuildResult> B = buildStore(Md, Out, V, Dir);
  ASSERT_TRUE(static_cast<bool>(B)) << toString(B.takeError());
  EXPECT_TRUE(B->Written);
  EXPECT_EQ(B->Entries, 5u);

  KnowledgeBase Stored = cantFail(KnowledgeBase::open(Out, V));
  KnowledgeBase Read = cantFail(KnowledgeBase::fromMarkdown(Text, "log.md", V));
  ASSERT_EQ(Stored.entries().size(), Read.entries().size());
  for (size_t I = 0; I < Read.entries().size(); ++I)
    EXPECT_EQ(entryJson(Stored.entries()[I]), entryJson(Read.entries()[I]));
  for (StringRef Query : {"loss NaN", "CUDA error 700", "stuck in fp16"})
    EXPECT_EQ(searchJson(cantFail(Stored.search(Query))),
              searchJson(cantFail(Read.search(Query))));
}

TEST_F(KnowledgeBaseTest, BuildsAreIncrementalAndReproducible) {
  std::string A = write("a.md", LogMarkdown);
  std::string B = write("b.md", "### Two\n**Symptom**: second\n");
  std::string Out = path("kb.sqlite"), Fresh = path("fresh.sqlite");
  Vocabulary V = smallVocabulary();
  std::vector<std::string> Files = {A, B};
  EXPECT_TRUE(cantFail(buildStore(Files, Out, V)).Written);
  EXPECT_FALSE(cantFail(buildStore(Files, Out, V)).Written);

  write("b.md", "### Two\n**Symptom**: changed\n");
  BuildResult R = cantFail(buildStore(Files, Out, V));
  EXPECT_TRUE(R.Written);
  EXPECT_EQ(R.Parsed, 1u);
  cantFail(buildStore(Files, Fresh, V));
  EXPECT_EQ(bytes(Out), bytes(Fresh));

  // Another order, a file less, other aliases: all are changes.
  std::swap(Files[0], Files[1]);
  EXPECT_TRUE(cantFail(buildStore(Files, Out, V)).Written);
  Files.pop_back();
  EXPECT_TRUE(cantFail(buildStore(Files, Out, V)).Written);
  Vocabulary Other = smallVocabulary("x\ty\n");
  R = cantFail(buildStore(Files, Out, Other));
  EXPECT_TRUE(R.Written);
  EXPECT_EQ(R.Parsed, 0u);
}

TEST_F(KnowledgeBaseTest, SeveralLogsAreSearchedAsOne) {
  std::string A = write("kb.md", LogMarkdown);
  std::string Team = write("ISSUES.md", "### Team trouble with widgets\n"
                                        "**Symptom**: widgets jam\n");
  std::string Same = path("sub");
  ASSERT_FALSE(sys::fs::create_directory(Same));
  write("sub/ISSUES.md", "### Team trouble with widgets\n"
                         "**Symptom**: widgets melt\n");
  Vocabulary V = smallVocabulary();
  cantFail(buildStore(A, path("kb.sqlite"), V));
  KnowledgeBase K =
      cantFail(KnowledgeBase::open({path("kb.sqlite"), Team, Same}, V));
  EXPECT_EQ(K.entries().size(), 6u);
  SearchResult R = cantFail(K.search("widgets melt"));
  ASSERT_EQ(R.Hits.size(), 2u);
  EXPECT_EQ(R.Hits[0].Found->Id, "issues/team-trouble-with-widgets-2");
  EXPECT_EQ(K.find("issues/team-trouble-with-widgets").size(), 1u);
  EXPECT_EQ(first(K, "training is stuck"), "nccl-mismatch");
}

TEST_F(KnowledgeBaseTest, AStoreOfOtherAliasesIsIndexedAgain) {
  std::string A = write("kb.md", LogMarkdown), Out = path("kb.sqlite");
  cantFail(buildStore(A, Out, smallVocabulary("none\tnothing\n")));
  KnowledgeBase K = cantFail(KnowledgeBase::open(Out, smallVocabulary()));
  EXPECT_EQ(first(K, "stuck"), "nccl-mismatch");
}

TEST_F(KnowledgeBaseTest, WhatIsNoKnowledgeBaseIsTold) {
  Expected<KnowledgeBase> K =
      KnowledgeBase::open(path("none.md"), smallVocabulary());
  EXPECT_NE(toString(K.takeError()).find("no such file"), std::string::npos);
  std::string Garbage = write("x.sqlite", std::string(5000, '\x42'));
  K = KnowledgeBase::open(Garbage, smallVocabulary());
  EXPECT_NE(toString(K.takeError()).find("not a knowledge base"),
            std::string::npos);
  std::string Empty = write("empty.sqlite", "");
  K = KnowledgeBase::open(Empty, smallVocabulary());
  EXPECT_NE(toString(K.takeError()).find("not a knowledge base"),
            std::string::npos);
  // A damaged store is rebuilt over; a file of somebody else is not.
  std::string Md = write("log.md", LogMarkdown);
  Expected<BuildResult> R = buildStore(Md, Garbage, smallVocabulary());
  EXPECT_NE(toString(R.takeError()).find("left as it is"), std::string::npos);
  std::string Damaged = write(
      "damaged.sqlite",
      std::string("SQLite format 3\0", 16) + std::string(5000, '\x42'));
  EXPECT_TRUE(cantFail(buildStore(Md, Damaged, smallVocabulary())).Written);
  EXPECT_TRUE(
      static_cast<bool>(KnowledgeBase::open(Damaged, smallVocabulary())));
}

TEST_F(KnowledgeBaseTest, EmptyLogsGiveNoHits) {
  KnowledgeBase K =
      cantFail(KnowledgeBase::fromMarkdown("", "e.md", smallVocabulary()));
  EXPECT_TRUE(cantFail(K.search("anything at all")).Hits.empty());
  std::string Text;
  raw_string_ostream OS(Text);
  printSearchText(OS, cantFail(K.search("anything")));
  EXPECT_EQ(Text, "no entry fits\n");
}

TEST_F(KnowledgeBaseTest, TextIsAtMostHundredColumns) {
  KnowledgeBase K = cantFail(KnowledgeBase::open(
      std::string(CULPRIT_SOURCE_DIR "/kb"),
      cantFail(Vocabulary::load(CULPRIT_SOURCE_DIR "/kb"))));
  std::string Text;
  raw_string_ostream OS(Text);
  for (const Entry &E : K.entries())
    printEntryText(OS, E);
  printSearchText(OS, cantFail(K.search("loss is NaN after fp16, bf16 works")));
  StringRef Rest = Text;
  while (!Rest.empty()) {
    StringRef Line;
    std::tie(Line, Rest) = Rest.split('\n');
    // Addresses and ids are not broken.
    if (!Line.trim()
             .drop_while([](char C) { return C == '-' || C == ' '; })
             .contains(' '))
      continue;
    EXPECT_LE(Line.size(), 100u + 4u * Line.count("\xE2")) << Line.str();
  }
}

} // namespace
