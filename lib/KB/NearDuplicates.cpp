//===- NearDuplicates.cpp ---------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/NearDuplicates.h"
#include "KB/WordKeys.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include <algorithm>

using namespace llvm;

namespace culprit {

static constexpr size_t Smallest = 5;

bool nearlyEqual(ArrayRef<uint32_t> A, ArrayRef<uint32_t> B) {
  size_t Smaller = std::min(A.size(), B.size());
  size_t Larger = std::max(A.size(), B.size());
  if (Smaller < Smallest || 4 * Smaller < 3 * Larger)
    return false;
  size_t Both = sharedKeys(A, B);
  return 4 * Both >= 3 * (Smaller + Larger - Both);
}

/// How many of the rarest keys two sets must share to be compared.
static constexpr size_t Witnesses = 3;

/// The rarest keys of \p Set. Of sets that share N keys, each without its N -
/// W most common ones has at least W keys of the other that is cut so too; here
/// N is three quarters of the set and W is Witnesses.
static SmallVector<uint32_t, 16> rarest(ArrayRef<uint32_t> Set,
                                        ArrayRef<uint32_t> Rank) {
  SmallVector<uint32_t, 16> Out(Set.begin(), Set.end());
  llvm::sort(Out,
             [&](uint32_t L, uint32_t R) { return Rank[L] < Rank[R]; });
  size_t Needed = (3 * Set.size() + 3) / 4;
  Out.resize(Set.size() - Needed + Witnesses);
  return Out;
}

/// The place of each key when the rarest comes first.
static std::vector<uint32_t> ranks(ArrayRef<std::vector<uint32_t>> Sets,
                                   size_t Keys) {
  std::vector<uint32_t> Counts(Keys), Order(Keys), Rank(Keys);
  for (const std::vector<uint32_t> &Set : Sets)
    for (uint32_t Key : Set)
      ++Counts[Key];
  for (size_t I = 0; I < Keys; ++I)
    Order[I] = static_cast<uint32_t>(I);
  llvm::stable_sort(
      Order, [&](uint32_t L, uint32_t R) { return Counts[L] < Counts[R]; });
  for (size_t I = 0; I < Keys; ++I)
    Rank[Order[I]] = static_cast<uint32_t>(I);
  return Rank;
}

std::vector<size_t> firstNearlyEqual(ArrayRef<std::vector<uint32_t>> Sets,
                                     size_t Keys) {
  std::vector<uint32_t> Rank = ranks(Sets, Keys);
  std::vector<std::vector<uint32_t>> Where(Keys); // Sets by a rare key.
  std::vector<size_t> Out(Sets.size());
  // What is left of a list; the one with the earliest set on top.
  using Left = ArrayRef<uint32_t>;
  auto Later = [](Left L, Left R) { return L.front() > R.front(); };
  std::vector<Left> Heap;
  for (size_t I = 0; I < Sets.size(); ++I) {
    Out[I] = I;
    if (Sets[I].size() < Smallest)
      continue;
    SmallVector<uint32_t, 16> Rare = rarest(Sets[I], Rank);
    Heap.clear();
    for (uint32_t Key : Rare)
      if (!Where[Key].empty())
        Heap.push_back(Where[Key]);
    std::make_heap(Heap.begin(), Heap.end(), Later);
    size_t Seen = 0;
    for (size_t Last = I; !Heap.empty();) {
      std::pop_heap(Heap.begin(), Heap.end(), Later);
      size_t K = Heap.back().front();
      Seen = K == Last ? Seen + 1 : 1;
      if (Seen == Witnesses && nearlyEqual(Sets[I], Sets[K])) {
        Out[I] = K;
        break;
      }
      Last = K;
      Heap.back() = Heap.back().drop_front();
      if (Heap.back().empty())
        Heap.pop_back();
      else
        std::push_heap(Heap.begin(), Heap.end(), Later);
    }
    for (uint32_t Key : Rare)
      Where[Key].push_back(static_cast<uint32_t>(I));
  }
  return Out;
}

} // namespace culprit
