//===- TensorsConclude.cpp - What several tensors tell ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// One tensor does not always tell what went wrong. A query that is the
// reference's key is a mix-up once the key is its query; the last row of a
// cache is zero in many ways until the next tokens are appended.
//
//===----------------------------------------------------------------------===//

#include "Compare/Tensors.h"
#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace culprit {

/// The tensor of the reference that the ours of \p D is, if it is another's.
static StringRef takenFor(const TensorDifference &D) {
  if (!D.Kind || D.Kind->Kind != "other-tensor")
    return "";
  return D.Kind->Parameters.getString("tensor").value_or("");
}

/// Each of two tensors is the other of the reference.
static void findSwap(TensorComparison &C, TensorDifference &D) {
  const StringRef Other = takenFor(D);
  if (Other.empty())
    return;
  for (TensorDifference &E : C.Differences)
    if (E.Pair.Ref.Name == Other && samePlace(E.Pair.Ref, D.Pair.Ref) &&
        takenFor(E) == D.Pair.Ref.Name) {
      for (TensorDifference *Each : {&D, &E}) {
        Each->Kind->Class = "axis-permutation";
        Each->Kind->Says += ", and the other way round: the two have changed "
                            "places";
      }
      return;
    }
}

/// Later tokens of a tensor tell more than the first that differs: a slot
/// that stays empty, positions that stand still.
static void askLaterTokens(TensorComparison &C, TensorDifference &D) {
  if (!D.Kind || !D.Pair.Ref.Token)
    return;
  const TensorEntry &E = D.Pair.Ref;
  TensorDifference *Last = nullptr;
  std::vector<int64_t> Turns;
  for (TensorDifference &Other : C.Differences) {
    const TensorEntry &O = Other.Pair.Ref;
    if (O.Name != E.Name || O.Step != E.Step || O.Rank != E.Rank ||
        O.Variant != E.Variant || !O.Token || *O.Token < *E.Token ||
        !Other.Kind)
      continue;
    Last = &Other;
    if (Other.Kind->Kind == D.Kind->Kind)
      if (auto By = Other.Kind->Parameters.getInteger("positions"))
        Turns.push_back(*By);
  }
  if (!Last || Last == &D)
    return;
  const StringRef Later = Last->Kind->Class;
  if (Later == "kv-cache-append-index" && D.Kind->Class != Later) {
    DifferenceKind Kind = *Last->Kind;
    Kind.Says += " (as of token " + std::to_string(*Last->Pair.Ref.Token) + ")";
    D.Kind = std::move(Kind);
    return;
  }
  // The one offset of an encoding stays; a cache's grows with every token, or
  // is there for all that is decoded while the prompt is right.
  if (Turns.size() < 2 || D.Kind->Class != "off-by-one-position")
    return;
  bool Grows = true;
  for (size_t I = 1; I != Turns.size(); ++I)
    Grows &= Turns[I] == Turns[I - 1] - 1;
  if (!Grows)
    return;
  D.Kind->Class = "kv-cache-stale-position";
  D.Kind->Says += "; by one more with every token: positions do not advance";
}

/// A small tensor does not tell noise from a fault; those behind it do.
static void askPrecision(TensorComparison &C, TensorDifference &D) {
  if (!D.Kind || (D.Kind->Kind != "unexplained" && D.Kind->Kind != "partial"))
    return;
  size_t Others = 0, Noisy = 0;
  const DifferenceKind *Noise = nullptr;
  for (const TensorDifference &E : C.Differences) {
    if (&E == &D || !E.Kind || E.Sums.Finite < 64)
      continue; // too small to tell
    ++Others;
    if (E.Kind->Kind != "precision")
      continue;
    ++Noisy;
    if (!Noise)
      Noise = &*E.Kind;
  }
  if (Noisy < 3 || 2 * Noisy < Others || !(D.Sums.relL2() <= 0x1p-6))
    return;
  DifferenceKind Kind = *Noise;
  Kind.Says += ", as in most tensors behind it";
  Kind.Confidence *= 0.8;
  D.Kind = std::move(Kind);
}

/// Whether \p Kind says where values differ rather than why.
static bool onlySaysWhere(StringRef Kind) {
  return is_contained({"unexplained", "partial", "from-position",
                       "few-elements", "zero-block", "all-zero", "nonfinite",
                       "other-tensor", "reorder", "row-factor"},
                      Kind);
}

void concludeDivergence(TensorComparison &C) {
  if (!C.First)
    return;
  TensorDifference &D = C.Differences[C.First->Difference];
  findSwap(C, D);
  askLaterTokens(C, D);
  askPrecision(C, D);
  if (D.Kind)
    C.First->Class = D.Kind->Class;
  if (!C.Steps || C.Steps->Class.empty())
    return;
  // A process that is right up to a step has a history; what its state looks
  // like there is the consequence.
  const bool Tokens = D.Pair.Ref.Token.has_value();
  const bool Restless = C.Steps->Kind == "every-run";
  const bool Develops = !Tokens && (C.Steps->Kind == "sudden" ||
                                    C.Steps->Kind == "order-two");
  // That decoding is wrong from a token on does not tell why.
  if (Restless || (C.First->Class.empty() && !Tokens) ||
      (Develops && (!D.Kind || onlySaysWhere(D.Kind->Kind))))
    C.First->Class = C.Steps->Class;
}

} // namespace culprit
