//===- PostingsTest.cpp -------------------------------------------*- C++
//-*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/Postings.h"
#include "KB/Analyzer.h"
#include "KB/IndexData.h"
#include "KB/MarkdownReader.h"
#include "KB/TextIndex.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "gtest/gtest.h"
#include <map>
#include <random>
#include <set>

using namespace llvm;
using namespace culprit;

namespace {

Entry entry(std::string Title, std::string Symptom) {
  Entry E;
  E.Id = Title;
  E.Title = std::move(Title);
  E.Symptom = std::move(Symptom);
  return E;
}

std::vector<const Entry *> pointers(const std::vector<Entry> &Entries) {
  std::vector<const Entry *> Out;
  for (const Entry &E : Entries)
    Out.push_back(&E);
  return Out;
}

Vocabulary vocabulary(StringRef Aliases = "") {
  return cantFail(Vocabulary::parse("", "", Aliases));
}

/// The places of \p Term in \p I; empty when it has none.
std::string places(const TextIndex &I, StringRef Term) {
  const IndexTerm *T = cantFail(I.find(Term));
  return T ? T->Places : std::string();
}

std::vector<Posting> pairs(const TextIndex &I, StringRef A, StringRef B) {
  std::vector<Posting> Out;
  std::string First = places(I, A), Second = places(I, B);
  PairFinder().find(First, Second, I.table().Entries, 0, Out);
  return Out;
}

TEST(PostingsTest, VarintsAtTheirEdges) {
  for (uint64_t Value :
       {0ull, 1ull, 127ull, 128ull, 16383ull, 16384ull, (1ull << 32) - 1,
        1ull << 40, (1ull << 62) + 5}) {
    std::string Bytes;
    appendVarint(Bytes, Value);
    ByteReader R(Bytes);
    EXPECT_EQ(R.varint(), Value);
    EXPECT_TRUE(R.atEnd());
    // Cut anywhere, it reads something and ends.
    for (size_t I = 0; I < Bytes.size(); ++I)
      ByteReader(StringRef(Bytes).take_front(I)).varint();
  }
}

TEST(PostingsTest, CountsAndNeighbours) {
  std::string Long;
  for (int I = 0; I < 300; ++I)
    Long += "alpha ";
  std::vector<Entry> Entries = {
      entry("alpha beta", "beta alpha the beta"), // `the` is left out.
      entry("alpha\nbeta", "gamma"),              // On two lines: no pair.
      entry("gamma", Long), entry("beta alpha", "alpha beta alpha beta")};
  TextIndex I(buildIndex(pointers(Entries), vocabulary()));
  std::map<unsigned, std::map<unsigned, unsigned>> Counts;
  readCounts(
      places(I, "alpha"), 4,
      [&](unsigned Entry, unsigned Field, uint32_t Count) {
        Counts[Entry][Field] = Count;
      },
      [](unsigned) {});
  using Of = std::map<unsigned, unsigned>;
  EXPECT_EQ(Counts[0], (Of{{0, 1}, {1, 1}}));
  EXPECT_EQ(Counts[1], (Of{{0, 1}}));
  EXPECT_EQ(Counts[2], (Of{{1, 300}}));
  EXPECT_EQ(Counts[3], (Of{{0, 1}, {1, 2}}));
  EXPECT_EQ(cantFail(I.find("alpha"))->Entries, 4u);

  std::vector<Posting> Found = pairs(I, "alpha", "beta");
  ASSERT_EQ(Found.size(), 2u);
  EXPECT_EQ(Found[0].Entry, 0u);
  EXPECT_EQ(Found[0].Counts[0], 1u);
  EXPECT_EQ(Found[0].Counts[1], 1u); // alpha (the) beta
  EXPECT_EQ(Found[1].Entry, 3u);
  EXPECT_EQ(Found[1].Counts[0], 0u);
  EXPECT_EQ(Found[1].Counts[1], 2u);
  // A word behind itself.
  Found = pairs(I, "alpha", "alpha");
  ASSERT_EQ(Found.size(), 1u);
  EXPECT_EQ(Found[0].Counts[1], 299u);

  // 300 words and the 299 pairs of them: too long for a byte.
  EXPECT_EQ(I.length(2, 1), 599u);
  EXPECT_EQ(I.length(0, 0), 3u);
  EXPECT_EQ(I.length(1, 0), 2u);
  EXPECT_EQ(I.table().Sum[0], 3u + 2 + 1 + 3);
  EXPECT_EQ(I.table().Having[1], 4u);
}

TEST(PostingsTest, AFinderIsUsedForManyPairs) {
  std::vector<Entry> Entries = {entry("t", "red lamp dark red lamp"),
                                entry("t", "lamp red lamp")};
  TextIndex I(buildIndex(pointers(Entries), vocabulary()));
  std::string Red = places(I, "red"), Lamp = places(I, "lamp");
  PairFinder F;
  for (int Round = 0; Round < 2; ++Round) {
    std::vector<Posting> A, B, C;
    F.find(Red, Lamp, 2, 10, A);
    F.find(Lamp, Red, 2, 10, B);
    F.find(Lamp, Lamp, 2, 10, C);
    ASSERT_EQ(A.size(), 2u);
    EXPECT_EQ(A[0].Counts[1], 2u);
    EXPECT_EQ(A[1].Entry, 11u);
    ASSERT_EQ(B.size(), 1u);
    EXPECT_EQ(B[0].Entry, 11u);
    EXPECT_TRUE(C.empty());
  }
}

TEST(PostingsTest, DamagedBytesAreReadWithinTheirEnd) {
  std::vector<Entry> Entries;
  for (int I = 0; I < 40; ++I)
    Entries.push_back(entry("alpha beta " + std::to_string(1000 + I),
                            "alpha gamma alpha beta"));
  TextIndex I(buildIndex(pointers(Entries), vocabulary()));
  std::string Good = places(I, "alpha"), Other = places(I, "beta");
  std::mt19937 Random(1);
  for (int Round = 0; Round < 2000; ++Round) {
    std::string Bad = Good.substr(0, Random() % (Good.size() + 1));
    for (int K = Random() % 4; K && !Bad.empty(); --K)
      Bad[Random() % Bad.size()] = static_cast<char>(Random());
    readCounts(
        Bad, 40,
        [&](unsigned Entry, unsigned Field, uint32_t) {
          ASSERT_LT(Entry, 40u);
          ASSERT_LT(Field, NumFields);
        },
        [](unsigned) {});
    std::vector<Posting> Out;
    PairFinder F;
    F.find(Bad, Other, 40, 0, Out);
    F.find(Other, Bad, 40, 0, Out);
    for (const Posting &P : Out)
      ASSERT_LT(P.Entry, 40u);
  }
}

TEST(PostingsTest, TermsOfOneHashAreFound) {
  // No two words of one hash are known, so the keys are made equal by hand, as
  // join() does it: the next one that is free.
  IndexData D;
  int64_t Key = firstKey("b");
  for (StringRef Text : {"a", "b"}) {
    IndexTerm &T = D.Terms.emplace_back();
    T.Text = Text.str();
    T.Entries = 1;
    T.Key = Key + (Text == "b");
  }
  TextIndex I(std::move(D));
  ASSERT_TRUE(cantFail(I.find("b")));
  EXPECT_EQ(cantFail(I.find("b"))->Text, "b");
  EXPECT_FALSE(cantFail(I.find("c")));
}

/// The entries of the shipped knowledge base.
std::vector<Entry> shipped() {
  std::vector<Entry> Out;
  std::error_code Code;
  std::set<std::string> Paths;
  for (sys::fs::directory_iterator It(CULPRIT_SOURCE_DIR "/kb", Code), End;
       It != End && !Code; It.increment(Code))
    if (StringRef(It->path()).ends_with(".md"))
      Paths.insert(It->path());
  for (const std::string &Path : Paths) {
    auto Buffer = MemoryBuffer::getFile(Path);
    MarkdownLog Log = readMarkdown((*Buffer)->getBuffer(), Path);
    for (Entry &E : Log.Entries)
      Out.push_back(std::move(E));
  }
  return Out;
}

TEST(PostingsTest, HoldsExactlyTheTermsOfTheAnalyzer) {
  Vocabulary V = cantFail(Vocabulary::load(CULPRIT_SOURCE_DIR "/kb"));
  Analyzer A(V);
  std::vector<Entry> Entries = shipped();
  ASSERT_GT(Entries.size(), 300u);
  TextIndex I(buildIndex(pointers(Entries), V));

  using Place = std::pair<unsigned, unsigned>; // Entry and field.
  std::map<std::string, std::map<Place, unsigned>> Words, Pairs;
  for (unsigned E = 0; E < Entries.size(); ++E) {
    std::array<std::string, NumFields> Texts = fieldTexts(Entries[E], V);
    for (unsigned F = 0; F < NumFields; ++F) {
      std::vector<Term> Terms = A.terms(lex(Texts[F]));
      ASSERT_EQ(I.length(E, F), Terms.size()) << Entries[E].Id << " " << F;
      for (const Term &T : Terms)
        ++(T.K == Term::Kind::Pair ? Pairs : Words)[T.Text][{E, F}];
    }
  }
  for (auto &[Text, Expected] : Words) {
    std::map<Place, unsigned> Found;
    unsigned Having = 0;
    readCounts(
        places(I, Text), Entries.size(),
        [&](unsigned Entry, unsigned Field, uint32_t Count) {
          Found[{Entry, Field}] = Count;
        },
        [&](unsigned) { ++Having; });
    EXPECT_EQ(Found, Expected) << Text;
    EXPECT_EQ(cantFail(I.find(Text))->Entries, Having);
  }
  size_t Number = 0;
  for (auto &[Text, Expected] : Pairs) {
    if (Number++ % 7) // All of them take seconds.
      continue;
    auto [First, Second] = StringRef(Text).split('+');
    std::map<Place, unsigned> Found;
    for (const Posting &P : pairs(I, First, Second))
      for (unsigned F = 0; F < NumFields; ++F)
        if (P.Counts[F])
          Found[{P.Entry, F}] = P.Counts[F];
    EXPECT_EQ(Found, Expected) << Text;
  }
}

TEST(PostingsTest, ThreadsDoNotShow) {
  std::vector<Entry> Entries = shipped();
  // Enough for several chunks.
  size_t Some = Entries.size();
  while (Entries.size() < 3000)
    Entries.push_back(Entries[Entries.size() - Some]);
  Vocabulary V = cantFail(Vocabulary::load(CULPRIT_SOURCE_DIR "/kb"));
  IndexData One = IndexBuilder(pointers(Entries), V, 0).finish();
  IndexData Three = IndexBuilder(pointers(Entries), V, 3).finish();
  EXPECT_EQ(packSummary(One.Table), packSummary(Three.Table));
  EXPECT_EQ(One.Table.Lengths, Three.Table.Lengths);
  EXPECT_EQ(One.Table.ClassOf, Three.Table.ClassOf);
  EXPECT_EQ(One.Order, Three.Order);
  EXPECT_EQ(One.Anchors, Three.Anchors);
  EXPECT_EQ(One.Words, Three.Words);
  ASSERT_EQ(One.Terms.size(), Three.Terms.size());
  for (size_t I = 0; I < One.Terms.size(); ++I) {
    ASSERT_EQ(One.Terms[I].Key, Three.Terms[I].Key);
    ASSERT_EQ(One.Terms[I].Text, Three.Terms[I].Text);
    ASSERT_EQ(One.Terms[I].Entries, Three.Terms[I].Entries);
    ASSERT_EQ(One.Terms[I].Places, Three.Terms[I].Places);
  }
}

} // namespace
