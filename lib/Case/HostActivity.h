//===- HostActivity.h - What launching threads were doing -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Tells for any time what the threads that launch a device's work were doing,
/// one answer an instant: the more specific wins, so a device allocation in
/// the data loader is an allocation. Threads that never launch (loader
/// workers, loggers) do not count; their work is nobody's wait.
///
/// Where the ids of threads in one table are of another kind than those of the
/// launch calls (old traces mix system and pthread ids), all threads count.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_CASE_HOSTACTIVITY_H
#define CULPRIT_CASE_HOSTACTIVITY_H

#include "Case/ProfileIndex.h"
#include <set>

namespace culprit {

class HostActivity {
public:
  /// In order of precedence, the weakest first.
  enum Kind : uint8_t { Code, Preempted, Input, Allocate, Load, Profiler };
  static constexpr unsigned NumKinds = 6;

  /// The word of gaps.host.
  static llvm::StringRef name(Kind K);

  HostActivity(const Case &C, const ProfileIndex &Index);

  /// Calls \p Emit(start, stop, kind) for the pieces of [\p From, \p To), in
  /// order and without holes. Preemption is that of thread \p Tid.
  void pieces(const DeviceKey &Of, int64_t Tid, int64_t From, int64_t To,
              llvm::function_ref<void(int64_t, int64_t, Kind)> Emit) const;

  /// Whether at \p Time, when the device ended row \p WorkRow of gpu_work and
  /// ran dry, a launching thread was waiting for it: in a synchronisation, or
  /// in a copy call that returns when the copy is done.
  bool waitedFor(const DeviceKey &Of, int64_t Time, uint32_t WorkRow) const;

  /// How much of [\p From, \p To) launching threads spent in calls that may
  /// wait for the device: synchronisations and long copy calls. ns.
  int64_t waitedDuring(const DeviceKey &Of, int64_t From, int64_t To) const;

private:
  struct Piece {
    int64_t Start, Stop;
    Kind What;
  };
  struct DeviceActivity {
    std::vector<Piece> Pieces; ///< Disjoint, by start; what is not Code.
    std::vector<Span> Waits;   ///< Disjoint, by start.
    std::vector<Span> Blocked; ///< The same, with long copy calls.
  };

  const Case &C;
  const ProfileIndex &Index;
  std::map<DeviceKey, DeviceActivity> ByDevice;
  /// Times a thread wanted a CPU and had none, by rank and thread.
  std::map<std::pair<int64_t, int64_t>, std::vector<Span>> Runnable;
};

} // namespace culprit

#endif // CULPRIT_CASE_HOSTACTIVITY_H
