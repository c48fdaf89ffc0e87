//===- ProcessGroups.h - What names a process group -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// PyTorch names process groups by a count ("35") or a hash of their ranks.
/// With split_group the groups that one call makes have one name on all ranks,
/// so a name with its members is what tells groups apart:
///
///   group "7" of ranks 0 and 4   ->  7 [0,4]
///   group "0" of all 16 ranks    ->  0 [0-15]
///   group "9" of each 8th rank   ->  9 [0-56:8]
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_PROCESSGROUPS_H
#define CULPRIT_READERS_PROCESSGROUPS_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <string>

namespace culprit {

/// Ascending ranks in short: "0-3,8-11", "0-56:8" for a stride of 8.
std::string rankRanges(llvm::ArrayRef<int64_t> Ranks);

/// The text of collectives.group for a group of \p Name; \p Members may be in
/// any order, or empty when they are not known: then it is the name alone.
std::string groupIdentity(llvm::StringRef Name,
                          llvm::ArrayRef<int64_t> Members);

/// collectives.op of what c10d calls \p Name: "_all_gather_base", "ALLREDUCE",
/// "all_reduce_barrier", "coalesced". One that is not known stays as it is, in
/// lower case.
std::string collectiveName(llvm::StringRef Name);

} // namespace culprit

#endif // CULPRIT_READERS_PROCESSGROUPS_H
