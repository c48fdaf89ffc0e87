//===- NsightSystemsIds.h - Packed ids and small helpers --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// What both halves of the Nsight Systems reader need: the process and thread
/// in a serialised GlobalId, and guards against figures that a damaged file
/// may hold.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_NSIGHTSYSTEMSIDS_H
#define CULPRIT_READERS_NSIGHTSYSTEMSIDS_H

#include "Case/Source.h"
#include "llvm/ADT/StringExtras.h"
#include <cstdint>
#include <optional>
#include <string>

namespace culprit::nsys {

/// A GlobalId is hardware, virtual machine, process and thread in 8, 8, 24
/// and 24 bits.
inline int64_t pidOf(int64_t GlobalId) {
  return static_cast<int64_t>(static_cast<uint64_t>(GlobalId) >> 24 & 0xffffff);
}
inline int64_t tidOf(int64_t GlobalTid) { return GlobalTid & 0xffffff; }

/// Times beyond 126 years are damage, and sums of them would overflow.
inline bool inRange(int64_t Time) {
  constexpr int64_t Limit = 4000000000000000000;
  return Time > -Limit && Time < Limit;
}

inline int64_t sum(int64_t A, int64_t B) {
  int64_t Out;
  return __builtin_add_overflow(A, B, &Out) ? INT64_MAX : Out;
}

inline void set(TableBuilder &Row, unsigned Column,
                std::optional<int64_t> Value) {
  if (Value)
    Row.set(Column, *Value);
}

inline std::string capitalised(llvm::StringRef Text) {
  std::string Out = Text.str();
  if (!Out.empty())
    Out[0] = llvm::toUpper(Out[0]);
  return Out;
}

} // namespace culprit::nsys

#endif // CULPRIT_READERS_NSIGHTSYSTEMSIDS_H
