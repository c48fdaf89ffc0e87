//===- ProfileIndex.h - A profile by device and launch ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// What the derived tables of a profile share, made once a case: the work of
/// each device in order of start, and the host call that launched each piece.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_CASE_PROFILEINDEX_H
#define CULPRIT_CASE_PROFILEINDEX_H

#include "Case/Case.h"
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>
#include <vector>

namespace culprit {

/// A row with a begin and an end.
struct Span {
  int64_t Start, Stop;
  uint32_t Row;
  bool operator<(const Span &O) const {
    return std::tie(Start, Stop, Row) < std::tie(O.Start, O.Stop, O.Row);
  }
};

class HostActivity;

/// From the return of a launch call to the work's begin on an idle device: 2
/// to 10 us on current devices, more through a loaded PCIe switch. ns.
inline constexpr int64_t LaunchLatency = 50'000;

using DeviceKey = std::pair<int64_t, int64_t>; // rank, device

/// The value of an Int column by position.
inline int64_t intAt(const Table &T, unsigned Column, size_t Row) {
  return T.columns()[Column].getInt(Row);
}

/// The spans of the rows of \p T for which \p Keep holds, those without a
/// begin or an end left out; in row order.
std::vector<Span> spansOf(const Table &T, unsigned Start, unsigned Stop,
                          llvm::function_ref<bool(size_t)> Keep);

/// Time covered by \p Spans, sorted by start, inside [Start, Stop).
int64_t coveredInside(llvm::ArrayRef<Span> Spans, int64_t Start, int64_t Stop);

/// Refers to the case, which must outlive it.
class ProfileIndex {
public:
  explicit ProfileIndex(const Case &C);
  ~ProfileIndex();

  /// What launching threads were doing; made when first asked for, once.
  const HostActivity &activity() const;

  /// The work of each device, sorted by start; by rank and device.
  const std::map<DeviceKey, std::vector<Span>> &work() const { return Work; }

  /// The row of host_calls that launched row \p WorkRow of gpu_work, or none.
  std::optional<uint32_t> launchOf(uint32_t WorkRow) const {
    uint32_t Call = LaunchOf[WorkRow];
    return Call == None ? std::nullopt : std::optional(Call);
  }
  /// When that call began, or NullInt.
  int64_t launchTime(uint32_t WorkRow) const {
    uint32_t Call = LaunchOf[WorkRow];
    return Call == None ? NullInt : intAt(Calls, host_calls::start, Call);
  }

  /// Where the device of \p Key stands when its host is at \p Time: the end of
  /// the last work launched before, if that is later. A host that runs ahead
  /// of the device finishes its steps long before the device does.
  int64_t onDevice(const DeviceKey &Key, int64_t Time) const;

private:
  static constexpr uint32_t None = UINT32_MAX;

  void findLaunches();
  void projectLaunches();

  const Case &C;
  const Table &Rows;
  const Table &Calls;
  std::map<DeviceKey, std::vector<Span>> Work;
  std::vector<uint32_t> LaunchOf; ///< By row of gpu_work.
  /// Per device, by time of launch: (launch, latest end of all up to it).
  std::map<DeviceKey, std::vector<std::pair<int64_t, int64_t>>> Reach;
  mutable std::once_flag ActivityOnce;
  mutable std::unique_ptr<HostActivity> Activity;
};

} // namespace culprit

#endif // CULPRIT_CASE_PROFILEINDEX_H
