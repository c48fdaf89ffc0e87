//===- ProcessGroups.cpp ----------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/ProcessGroups.h"
#include "Readers/KernelRoles.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/Twine.h"

using namespace llvm;

namespace culprit {

std::string rankRanges(ArrayRef<int64_t> Ranks) {
  std::string Out;
  while (!Ranks.empty()) {
    // The longest run of one stride; two ranks are no run unless adjacent.
    size_t Run = 1;
    int64_t Stride = Ranks.size() > 1 ? Ranks[1] - Ranks[0] : 0;
    while (Run < Ranks.size() && Ranks[Run] - Ranks[Run - 1] == Stride)
      ++Run;
    if (Run < 3)
      Run = 1;
    Out += (Out.empty() ? "" : ",") + std::to_string(Ranks[0]);
    if (Run > 1)
      Out += "-" + std::to_string(Ranks[Run - 1]);
    if (Run > 1 && Stride > 1)
      Out += ":" + std::to_string(Stride);
    Ranks = Ranks.drop_front(Run);
  }
  return Out;
}

std::string groupIdentity(StringRef Name, ArrayRef<int64_t> Members) {
  if (Members.empty())
    return Name.str();
  SmallVector<int64_t, 16> Sorted(Members);
  llvm::sort(Sorted);
  return (Name + " [" + rankRanges(Sorted) + "]").str();
}

std::string collectiveName(StringRef Name) {
  // NCCL has no barrier: c10d's is an all-reduce of one element.
  if (Name.contains_insensitive("barrier"))
    return "barrier";
  StringRef Op = collectiveOp(Name);
  return Op.empty() ? Name.lower() : Op.str();
}

} // namespace culprit
