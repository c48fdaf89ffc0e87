//===- NsightSystemsIds.h - Packed ids and small helpers --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// What all parts of the Nsight Systems reader need: the process and thread in
/// a serialised GlobalId, what stands for "none", and guards against figures
/// that a damaged file may hold.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_NSIGHTSYSTEMSIDS_H
#define CULPRIT_READERS_NSIGHTSYSTEMSIDS_H

#include "Case/Source.h"
#include "Readers/ColumnOut.h"
#include "Readers/NsightSystemsDatabase.h"
#include "llvm/ADT/StringExtras.h"
#include <cstdint>
#include <optional>
#include <string>

namespace culprit::nsys {

/// A GlobalId is hardware, virtual machine, process and thread in 8, 8, 24
/// and 24 bits. NullInt for none: null, or the 0 or -1 with which exports
/// before 2022 filled what was not known.
inline int64_t pidOf(std::optional<int64_t> GlobalId) {
  if (!GlobalId || *GlobalId == 0 || *GlobalId == -1)
    return NullInt;
  return static_cast<int64_t>(static_cast<uint64_t>(*GlobalId) >> 24 &
                              0xffffff);
}
inline int64_t tidOf(std::optional<int64_t> GlobalTid) {
  if (!GlobalTid || *GlobalTid == 0 || *GlobalTid == -1)
    return NullInt;
  return *GlobalTid & 0xffffff;
}

/// \p Id, or NullInt where it stands for none: -1, or CUPTI's 2^32 - 1.
inline int64_t idOrNull(std::optional<int64_t> Id) {
  return Id && *Id >= 0 && *Id < UINT32_MAX ? *Id : NullInt;
}
/// The same for ids that are counted from 1.
inline int64_t countedOrNull(std::optional<int64_t> Id) {
  return Id.value_or(0) == 0 ? NullInt : idOrNull(Id);
}

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
  if (Value && *Value != NullInt)
    Row.set(Column, *Value);
}

struct Span {
  int64_t Start, Stop;
};

/// The times in the first two columns of \p R; nothing when there are none or
/// the end is before the start.
inline std::optional<Span> spanOf(const Row &R) {
  std::optional<int64_t> Start = R.integer(0), Stop = R.integer(1);
  if (Start && Stop && inRange(*Start) && inRange(*Stop) && *Stop >= *Start)
    return Span{*Start, *Stop};
  return std::nullopt;
}

} // namespace culprit::nsys

#endif // CULPRIT_READERS_NSIGHTSYSTEMSIDS_H
