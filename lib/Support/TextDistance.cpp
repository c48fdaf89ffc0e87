//===- TextDistance.cpp -----------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Support/TextDistance.h"
#include "Support/Deadline.h"
#include "llvm/ADT/ArrayRef.h"
#include <algorithm>
#include <numeric>
#include <vector>

using namespace llvm;

namespace culprit {

using Characters = ArrayRef<uint32_t>;

/// The first \p Most characters of \p Text.
static std::vector<uint32_t> charactersOf(StringRef Text, size_t Most) {
  std::vector<uint32_t> Out;
  Out.reserve(std::min(Text.size(), Most));
  for (size_t I = 0; I < Text.size() && Out.size() != Most;) {
    auto byte = [&](size_t At) {
      return static_cast<uint32_t>(static_cast<unsigned char>(Text[At]));
    };
    uint32_t First = byte(I);
    size_t Length = First >= 0xf0   ? 4
                    : First >= 0xe0 ? 3
                    : First >= 0xc0 ? 2
                                    : 1;
    uint32_t Value = First;
    size_t K = 1;
    for (; K < Length && I + K < Text.size() && (byte(I + K) & 0xc0) == 0x80;
         ++K)
      Value = Value << 8 | byte(I + K);
    // A broken one is its first byte.
    Out.push_back(K == Length ? Value : First);
    I += K == Length ? Length : 1;
  }
  return Out;
}

/// Ukkonen's band: a cell further than Limit from the diagonal holds more
/// than Limit.
static std::optional<size_t> distance(Characters A, Characters B,
                                      size_t Limit) {
  while (!A.empty() && !B.empty() && A.front() == B.front()) {
    A = A.drop_front();
    B = B.drop_front();
  }
  while (!A.empty() && !B.empty() && A.back() == B.back()) {
    A = A.drop_back();
    B = B.drop_back();
  }
  if (A.size() > B.size())
    std::swap(A, B); // a row for each character of the longer
  if (B.size() - A.size() > Limit)
    return std::nullopt;
  Limit = std::min(Limit, B.size());
  const size_t Far = Limit + 1;
  // Row[J] is the distance of the first characters of B and J of A.
  std::vector<size_t> Row(A.size() + 1);
  for (size_t J = 0; J <= A.size(); ++J)
    Row[J] = std::min(J, Far);
  TimeCheck Late;
  for (size_t I = 1; I <= B.size(); ++I) {
    size_t Low = I > Limit ? I - Limit : 0;
    size_t High = std::min(A.size(), I + Limit);
    if (Low > A.size())
      return std::nullopt;
    size_t Diagonal = Low == 0 ? I - 1 : Row[Low - 1];
    size_t Left = Low == 0 ? std::min(I, Far) : Far;
    size_t Least = Left;
    if (Low == 0)
      Row[0] = Left;
    else
      Row[Low - 1] = Far;
    for (size_t J = std::max<size_t>(Low, 1); J <= High; ++J) {
      // Above the band the row before has nothing.
      size_t Above = J == I + Limit ? Far : Row[J];
      size_t Here = std::min({Diagonal + (A[J - 1] != B[I - 1]), Above + 1,
                              Left + 1, Far});
      Diagonal = Above;
      Row[J] = Left = Here;
      Least = std::min(Least, Here);
    }
    if (Least > Limit || Late(High - Low + 1))
      return std::nullopt;
  }
  return Row[A.size()] <= Limit ? std::optional(Row[A.size()]) : std::nullopt;
}

std::optional<size_t> textDistance(StringRef A, StringRef B, size_t Limit) {
  return distance(charactersOf(A, A.size()), charactersOf(B, B.size()), Limit);
}

double textSimilarity(StringRef A, StringRef B, size_t Most) {
  std::vector<uint32_t> X = charactersOf(A, Most), Y = charactersOf(B, Most);
  size_t Longest = std::max(X.size(), Y.size());
  if (Longest == 0)
    return 1;
  return 1 - static_cast<double>(distance(X, Y, Longest).value_or(Longest)) /
                 static_cast<double>(Longest);
}

} // namespace culprit
