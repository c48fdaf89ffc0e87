//===- Align.cpp - The shortest edit script of two sequences ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// E. W. Myers, An O(ND) Difference Algorithm and Its Variations, 1986.
//
//===----------------------------------------------------------------------===//

#include "Compare/OperatorLog.h"
#include "llvm/ADT/DenseMap.h"
#include <algorithm>
#include <cstdint>

using namespace llvm;

namespace culprit {

using Places = std::vector<std::pair<size_t, size_t>>;

using Occurrences = DenseMap<uint32_t, std::vector<size_t>>;

/// Where each number of \p B is, the first place last.
static Occurrences placesOf(ArrayRef<uint32_t> B) {
  Occurrences Out;
  for (size_t J = B.size(); J-- != 0;)
    Out[B[J]].push_back(J);
  return Out;
}

/// Pairs each with the next of its kind. One pair that leads far ahead loses
/// all that it jumps over.
static Places byNext(ArrayRef<uint32_t> A, Occurrences InB) {
  Places Out;
  for (size_t I = 0; I != A.size(); ++I) {
    auto It = InB.find(A[I]);
    if (It == InB.end())
      continue;
    std::vector<size_t> &Left = It->second;
    while (!Left.empty() && !Out.empty() && Left.back() <= Out.back().second)
      Left.pop_back();
    if (Left.empty())
      continue;
    Out.push_back({I, Left.back()});
    Left.pop_back();
  }
  return Out;
}

/// Pairs k-th occurrences, and keeps the longest row of them that do not
/// cross, by patience sorting. What one side has in addition shifts all that
/// repeats after it.
static Places byOccurrence(ArrayRef<uint32_t> A, Occurrences InB) {
  Places All;
  for (size_t I = 0; I != A.size(); ++I)
    if (auto It = InB.find(A[I]); It != InB.end() && !It->second.empty()) {
      All.push_back({I, It->second.back()});
      It->second.pop_back();
    }
  constexpr size_t None = SIZE_MAX;
  // Ends[N]: the pair that ends the best row of N + 1.
  std::vector<size_t> Ends, Before(All.size(), None);
  for (size_t K = 0; K != All.size(); ++K) {
    auto It = std::lower_bound(Ends.begin(), Ends.end(), All[K].second,
                               [&](size_t End, size_t J) {
                                 return All[End].second < J;
                               });
    if (It != Ends.begin())
      Before[K] = *std::prev(It);
    if (It == Ends.end())
      Ends.push_back(K);
    else
      *It = K;
  }
  Places Out;
  for (size_t K = Ends.empty() ? None : Ends.back(); K != None; K = Before[K])
    Out.push_back(All[K]);
  std::reverse(Out.begin(), Out.end());
  return Out;
}

static Places guessed(ArrayRef<uint32_t> A, ArrayRef<uint32_t> B) {
  const Occurrences InB = placesOf(B);
  Places Next = byNext(A, InB), Kth = byOccurrence(A, InB);
  return Kth.size() > Next.size() ? Kth : Next;
}

namespace {
/// The paths of the greedy search, kept to walk back along the best.
class Paths {
public:
  Paths(ArrayRef<uint32_t> A, ArrayRef<uint32_t> B)
      : A(A), B(B), N(int64_t(A.size())), M(int64_t(B.size())) {}

  /// Adds the paths of one more edit; true when one of them is at the end.
  bool extend();
  /// The equal elements along the path that ended.
  Places pairs() const;

private:
  /// Where the next edit leads on a diagonal K = I - J: how far into A, and
  /// whether it inserted an element of B. Negative when no edit leads there.
  struct Edit {
    int64_t I = -1;
    bool Inserts = false;
  };
  Edit edit(size_t Edits, int64_t K) const;

  ArrayRef<uint32_t> A, B;
  int64_t N, M;
  /// Furthest[D][K + D]: how far into A a path of D edits gets; -1 for none.
  std::vector<std::vector<int32_t>> Furthest;
};
} // namespace

Paths::Edit Paths::edit(size_t Edits, int64_t K) const {
  if (Edits == 0)
    return {0, false};
  const std::vector<int32_t> &Last = Furthest[Edits - 1];
  const auto At = [&](int64_t Diagonal) -> int64_t {
    const int64_t Place = Diagonal + int64_t(Edits) - 1;
    return Place < 0 || Place >= int64_t(Last.size()) ? -1
                                                      : Last[size_t(Place)];
  };
  Edit Best;
  if (int64_t I = At(K + 1); I >= 0 && I - K <= M)
    Best = {I, true};
  if (int64_t I = At(K - 1); I >= 0 && I < N && I + 1 > Best.I)
    Best = {I + 1, false};
  return Best;
}

bool Paths::extend() {
  const int64_t D = int64_t(Furthest.size());
  std::vector<int32_t> Next(size_t(2 * D + 1), -1);
  bool Ended = false;
  for (int64_t K = -D; K <= D && !Ended; K += 2) {
    int64_t I = edit(size_t(D), K).I, J = I - K;
    if (I < 0)
      continue;
    while (I < N && J < M && A[size_t(I)] == B[size_t(J)])
      ++I, ++J;
    Next[size_t(K + D)] = int32_t(I);
    Ended = I == N && J == M;
  }
  Furthest.push_back(std::move(Next));
  return Ended;
}

Places Paths::pairs() const {
  Places Out;
  int64_t I = N, J = M;
  for (size_t D = Furthest.size(); D-- != 0;) {
    const Edit Came = edit(D, I - J);
    while (I > Came.I)
      Out.push_back({size_t(--I), size_t(--J)});
    if (D != 0)
      --(Came.Inserts ? J : I);
  }
  std::reverse(Out.begin(), Out.end());
  return Out;
}

static std::optional<Places> byEdits(ArrayRef<uint32_t> A,
                                     ArrayRef<uint32_t> B, size_t MaxEdits) {
  Paths Search(A, B);
  for (size_t D = 0; D <= MaxEdits; ++D)
    if (Search.extend())
      return Search.pairs();
  return std::nullopt;
}

Places align(ArrayRef<uint32_t> A, ArrayRef<uint32_t> B, size_t MaxEdits) {
  size_t Front = 0;
  while (Front < A.size() && Front < B.size() && A[Front] == B[Front])
    ++Front;
  size_t Back = 0;
  while (Back < A.size() - Front && Back < B.size() - Front &&
         A[A.size() - 1 - Back] == B[B.size() - 1 - Back])
    ++Back;
  ArrayRef<uint32_t> MidA = A.slice(Front, A.size() - Front - Back);
  ArrayRef<uint32_t> MidB = B.slice(Front, B.size() - Front - Back);

  Places Out;
  for (size_t I = 0; I != Front; ++I)
    Out.push_back({I, I});
  std::optional<Places> Middle = byEdits(MidA, MidB, MaxEdits);
  for (auto [I, J] : Middle ? *Middle : guessed(MidA, MidB))
    Out.push_back({Front + I, Front + J});
  for (size_t I = Back; I != 0; --I)
    Out.push_back({A.size() - I, B.size() - I});
  return Out;
}

} // namespace culprit
