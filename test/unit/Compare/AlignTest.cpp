//===- AlignTest.cpp --------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Compare/OperatorLog.h"
#include "gtest/gtest.h"
#include <algorithm>
#include <random>

using namespace culprit;

using Numbers = std::vector<uint32_t>;
using Places = std::vector<std::pair<size_t, size_t>>;

/// Length of the longest common subsequence, by the textbook table.
static size_t longest(const Numbers &A, const Numbers &B) {
  std::vector<std::vector<size_t>> L(A.size() + 1,
                                     std::vector<size_t>(B.size() + 1, 0));
  for (size_t I = 1; I <= A.size(); ++I)
    for (size_t J = 1; J <= B.size(); ++J)
      L[I][J] = A[I - 1] == B[J - 1] ? L[I - 1][J - 1] + 1
                                     : std::max(L[I - 1][J], L[I][J - 1]);
  return L[A.size()][B.size()];
}

/// Pairs of equal numbers, in order on both sides.
static void expectSound(const Numbers &A, const Numbers &B, const Places &P) {
  for (size_t I = 0; I != P.size(); ++I) {
    ASSERT_LT(P[I].first, A.size());
    ASSERT_LT(P[I].second, B.size());
    EXPECT_EQ(A[P[I].first], B[P[I].second]);
    if (I != 0) {
      EXPECT_LT(P[I - 1].first, P[I].first);
      EXPECT_LT(P[I - 1].second, P[I].second);
    }
  }
}

TEST(Align, InsertionShiftsNothing) {
  EXPECT_EQ(align({1, 2, 3}, {1, 9, 2, 3}),
            (Places{{0, 0}, {1, 2}, {2, 3}}));
  EXPECT_EQ(align({1, 9, 2, 3}, {1, 2, 3}),
            (Places{{0, 0}, {2, 1}, {3, 2}}));
  EXPECT_EQ(align({}, {1, 2}), Places());
  EXPECT_EQ(align({5}, {5}), (Places{{0, 0}}));
  EXPECT_EQ(align({5}, {6}), Places());
}

TEST(Align, AsLongAsCanBe) {
  std::mt19937 Random(7);
  for (int Round = 0; Round != 400; ++Round) {
    Numbers A(Random() % 24), B(Random() % 24);
    for (uint32_t &N : A)
      N = Random() % 4;
    for (uint32_t &N : B)
      N = Random() % 4;
    Places P = align(A, B);
    expectSound(A, B, P);
    EXPECT_EQ(P.size(), longest(A, B));
  }
}

TEST(Align, BeyondTheLimitOrderIsKept) {
  Numbers A, B;
  for (uint32_t I = 0; I != 300; ++I) {
    A.push_back(I);
    B.push_back(I % 3 == 0 ? 1000 + I : I);
  }
  A.front() = 7777; // nothing equal at either end
  A.back() = 8888;
  Places P = align(A, B, /*MaxEdits=*/8);
  expectSound(A, B, P);
  EXPECT_EQ(P.size(), 199u); // 200 are equal, and the last one is not
}

// Beyond the limit: one number that comes back far ahead does not lose what
// lies between, and one in addition does not shift what repeats.
TEST(Align, BeyondTheLimitMuchIsKept) {
  Numbers A = {9999}, B = {7777};
  for (uint32_t I = 0; I != 300; ++I) {
    A.push_back(I);
    B.push_back(I);
    B.push_back(5000 + I);
  }
  A.push_back(8888);
  B.push_back(9999);
  B.push_back(6666);
  Places Ahead = align(A, B, /*MaxEdits=*/8);
  expectSound(A, B, Ahead);
  EXPECT_EQ(Ahead.size(), 300u);

  Numbers X = {0, 1}, Y = {1};
  for (uint32_t I = 0; I != 100; ++I) {
    X.insert(X.end(), {0, 1, 100 + I});
    Y.insert(Y.end(), {200 + I, 0, 1});
  }
  Places Repeats = align(X, Y, /*MaxEdits=*/8);
  expectSound(X, Y, Repeats);
  EXPECT_GE(Repeats.size(), 200u);
}
