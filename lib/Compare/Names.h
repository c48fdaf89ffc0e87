//===- Names.h - Which tensor of one side is which of the other -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Matches the tensors of two checkpoints or dumps by name. In this order:
///
///   exact     the same name
///   prefix    the same without what wrappers add (module., _orig_mod., ...),
///             or without a prefix that several names lack on one side
///   fused     q, k and v on one side, one tensor of them on the other; or
///             gate and up
///   near      the same shape and numbers, and a name that is alike
///
/// Each name is used once. Names are matched once for all steps and ranks.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_COMPARE_NAMES_H
#define CULPRIT_COMPARE_NAMES_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <string>
#include <vector>

namespace culprit {

struct NamedShape {
  std::string Name;
  llvm::SmallVector<int64_t, 4> Shape;
};

enum class NameRule { Exact, Prefix, Fused, Near };
/// "exact", "prefix", "fused", "near".
llvm::StringRef toString(NameRule R);

/// Indices into the two lists. Fused has several on one side, in the order in
/// which the fused tensor holds them, and one on the other.
struct NameMatch {
  std::vector<size_t> Ref, Ours;
  NameRule Rule = NameRule::Exact;
  std::string Detail; ///< Prefix: "ours has 'module.'".
};

struct NameMatching {
  std::vector<NameMatch> Matches; ///< In the order of the reference.
  std::vector<size_t> Missing;    ///< Only in the reference.
  std::vector<size_t> Unexpected; ///< Only in ours.
};

NameMatching matchNames(llvm::ArrayRef<NamedShape> Ref,
                        llvm::ArrayRef<NamedShape> Ours);

/// \p Name without the parts and prefixes of wrappers.
std::string withoutWrappers(llvm::StringRef Name);

/// True for buffers that a program computes anew, so that their absence means
/// nothing: inv_freq, position_ids, num_batches_tracked, attention masks.
bool isDerivedBuffer(llvm::StringRef Name);

} // namespace culprit

#endif // CULPRIT_COMPARE_NAMES_H
