//===- Kinds.h - In which way two tensors differ ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Finds the kind of a difference by search. Each kind is a function that
/// proposes what turns the reference into ours ("multiply by 8", "swap the
/// last two axes"). A proposal is judged by what is left of the difference
/// when it is undone, against the tolerance of the tensor: first on 64
/// elements, then on 10^5, then on all. Kinds are tried from the simplest to
/// the most elaborate, and the simplest that explains the difference wins. A
/// later one replaces it only where the simple one leaves more than the
/// tolerance and the later one a fifth of that or less.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_COMPARE_KINDS_H
#define CULPRIT_COMPARE_KINDS_H

#include "Tensor/Difference.h"
#include "llvm/Support/JSON.h"

namespace culprit {

/// How far a correct run may be from the reference.
struct TensorTolerance {
  double Unit = 0; ///< Unit roundoff of the coarser format, 2^-8 of bfloat16.
  double Relative = 0; ///< Of an element: this times its own magnitude,
  double OfRms = 0;    ///< this times the root mean square of the tensor,
  double Floor = 0;    ///< and this: subnormals, and what runs vary by.
  double RelL2 = 0;    ///< Of the whole tensor.
  std::string Basis;   ///< "bfloat16, sums over 768 terms, depth 3".

  ElementTolerance elements(double Rms) const {
    return {OfRms * Rms + Floor, Relative};
  }
};

/// Another tensor of the reference, of the same step, rank and token.
struct NamedTensor {
  std::string Name;
  TensorView View;
};

struct KindQuery {
  TensorView Ref, Ours; ///< Of the same number of elements, not empty.
  std::string Name, Role;
  TensorTolerance Tolerance;
  DifferenceSums Sums; ///< Over all elements.
  std::vector<NamedTensor> Others;
  std::optional<TensorView> Input; ///< Of the layer, if it was dumped.
  /// Weights of two dimensions whose rows are as long as the last axis of Ref:
  /// embeddings of positions are among them.
  std::vector<NamedTensor> Tables;
  /// Sizes that the tensor or those of its layer have, the tensor's first.
  std::vector<int64_t> Dims;
  int64_t WorldSize = 0;       ///< 0: not known.
  std::optional<double> Sigma; ///< Noise level, where it was dumped.
  unsigned Threads = 1;
};

struct DifferenceKind {
  std::string Kind;  ///< "scale", "transpose", ...; "unexplained".
  std::string Class; ///< Of kb/classes.tsv; empty where none fits.
  std::string Says;  ///< "ours = 8 x ref, 8 = sqrt(64)".
  llvm::json::Object Parameters;
  double Explained = 0; ///< Share of the squared difference that is undone.
  double Residual = 0;  ///< What is left, relative to ours (L2).
  double Confidence = 0; ///< 0 to 1.
  /// A correct run in a narrower format does the same.
  bool Benign = false;
};

/// The kind of the difference of \p Q, "unexplained" where no kind is right.
DifferenceKind findKind(const KindQuery &Q);

} // namespace culprit

#endif // CULPRIT_COMPARE_KINDS_H
