//===- DeadlineTest.cpp - Long searches end in time -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Support/Deadline.h"
#include "Support/NearDuplicates.h"
#include "Support/TextOverlap.h"
#include "gtest/gtest.h"
#include <string>

using namespace culprit;

namespace {

/// Text \p Row of a set without end, 60 words long, unlike all others.
struct EndlessTexts {
  std::string Text;

  llvm::StringRef operator()(size_t Row) {
    Text.clear();
    uint64_t State = Row;
    for (int I = 0; I != 60; ++I) {
      State = State * 6364136223846793005 + 1442695040888963407;
      Text += "w" + std::to_string(State >> 44) + " ";
    }
    return Text;
  }
};

template <typename Fn> void expectEndsInTime(Fn Search) {
  auto Begin = Deadline::Clock::now();
  Deadline Limit(Begin + std::chrono::milliseconds(50));
  Search();
  EXPECT_TRUE(timeIsUp());
  EXPECT_LT(Deadline::Clock::now() - Begin, std::chrono::seconds(5));
}

// Ten million texts are gigabytes, and take a minute at least.
constexpr size_t Many = 10'000'000;

TEST(DeadlineTest, NearDuplicates) {
  EndlessTexts Texts;
  expectEndsInTime([&] {
    findNearDuplicates(Many, [&](size_t Row) { return Texts(Row); });
  });
}

TEST(DeadlineTest, TextOverlap) {
  EndlessTexts Texts;
  auto of = [&](size_t Row) { return Texts(Row); };
  expectEndsInTime([&] { findOverlaps(Many, of, 1, of); });
  expectEndsInTime([&] { findOverlaps(1, of, Many, of); });
}

} // namespace
