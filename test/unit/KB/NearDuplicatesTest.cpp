//===- NearDuplicatesTest.cpp ---------------------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/NearDuplicates.h"
#include "llvm/ADT/STLExtras.h"
#include "gtest/gtest.h"
#include <random>

using namespace llvm;
using namespace culprit;

namespace {

TEST(NearDuplicates, ThreeQuartersOfEither) {
  using Set = std::vector<uint32_t>;
  EXPECT_TRUE(nearlyEqual(Set{1, 2, 3, 4, 5}, Set{1, 2, 3, 4, 5}));
  // 6 of 8 together; 6 of 9.
  EXPECT_TRUE(nearlyEqual(Set{1, 2, 3, 4, 5, 6, 7}, Set{1, 2, 3, 4, 5, 6, 8}));
  EXPECT_FALSE(
      nearlyEqual(Set{1, 2, 3, 4, 5, 6, 7, 9}, Set{1, 2, 3, 4, 5, 6, 8}));
  EXPECT_FALSE(nearlyEqual(Set{1, 2, 3, 4}, Set{1, 2, 3, 4}));
  EXPECT_FALSE(nearlyEqual(Set{}, Set{}));
}

TEST(NearDuplicates, FindsWhatComparingAllFinds) {
  std::mt19937_64 Random(3);
  for (unsigned Round = 0; Round < 60; ++Round) {
    // Few keys, so that many sets come close to the bound from both sides.
    uint32_t Keys = 8 + Random() % 40;
    std::vector<std::vector<uint32_t>> Sets;
    for (unsigned I = 0; I < 150; ++I) {
      std::vector<uint32_t> Set;
      if (!Sets.empty() && Random() % 2)
        Set = Sets[Random() % Sets.size()];
      for (size_t Changes = Random() % 8; Changes; --Changes) {
        uint32_t Key = Random() % Keys * (Random() % Keys) / Keys;
        auto At = llvm::find(Set, Key);
        if (At != Set.end())
          Set.erase(At);
        else
          Set.push_back(Key);
      }
      llvm::sort(Set);
      Sets.push_back(Set);
    }
    std::vector<size_t> First = firstNearlyEqual(Sets, Keys);
    for (size_t I = 0; I < Sets.size(); ++I) {
      size_t K = 0;
      while (K < I && !nearlyEqual(Sets[I], Sets[K]))
        ++K;
      ASSERT_EQ(First[I], K) << "set " << I << " of round " << Round;
    }
  }
}

} // namespace
