//===- CaptureParts.h - The parts of a capture ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// A capture is read in parts, each of which fills tables of its own from the
/// records of its kinds. Nothing is copied but into columns: records are read
/// where the file is mapped.
///
/// `place` of a row is the number of its record among those of its kind, from
/// 0 in the order of the file.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_CAPTUREPARTS_H
#define CULPRIT_READERS_CAPTUREPARTS_H

#include "Capture/CaptureFile.h"
#include "Case/Source.h"
#include "Readers/CaptureLosses.h"
#include <optional>
#include <unordered_map>

namespace culprit::cprt {

struct Span {
  int64_t Start, Stop;
};

/// What one part is given, and what it says.
struct Part {
  const capture::CaptureFile &File;
  Source &Into;
  int64_t Base; ///< Unix time of time 0, ns.
  int64_t Rank;
  std::map<uint32_t, uint32_t> DeviceOfContext;
  /// What a framework had on its stack at a call, by correlation.
  std::unordered_map<uint32_t, uint64_t> External;
  int64_t Skipped = 0;    ///< Records without a usable time.
  int64_t LoneEnds = 0;   ///< Ends of ranges that began before the capture.

  /// The time \p Cupti of a record on the clock of the case; nothing when it
  /// is none.
  std::optional<int64_t> time(uint64_t Cupti) const;
  /// Nothing, and one more skipped, when there is no time or the end is before
  /// the start.
  std::optional<Span> span(uint64_t Start, uint64_t End);
  int64_t externalOf(uint32_t Correlation) const {
    auto It = External.find(Correlation);
    return It == External.end() ? NullInt : static_cast<int64_t>(It->second);
  }
};

/// CUPTI's numbers of devices, streams and events: 2^32 - 1 is none.
inline int64_t idOrNull(uint32_t Id) { return Id == ~0u ? NullInt : Id; }
/// The same for ids that are counted from 1.
inline int64_t countedOrNull(uint32_t Id) {
  return Id == 0 ? NullInt : idOrNull(Id);
}

/// \p Text with what is no UTF-8 replaced.
std::string cleanText(std::string_view Text);

/// What texts of the capture mean, found out once for each of their ids:
/// `Make(T &, std::string)` fills it in from the text as UTF-8.
template <typename T> class TextCache {
public:
  explicit TextCache(const Part &P) : P(P) {}

  template <typename Maker>
  const T &operator()(uint32_t Epoch, uint32_t Id, Maker Make) {
    auto [It, New] = Known.try_emplace(uint64_t(Epoch) << 32 | Id);
    if (New)
      Make(It->second, cleanText(P.File.text(Epoch, Id)));
    return It->second;
  }

private:
  const Part &P;
  std::unordered_map<uint64_t, T> Known;
};

/// pageable, pinned, device, array or managed by CUPTI's number; NullString
/// when it is none.
StringId memoryKindOf(StringPool &Pool, uint32_t Kind);
/// Whether that memory is the host's.
inline bool isHostMemory(uint32_t Kind) { return Kind == 1 || Kind == 2; }

void readDeviceWork(Part &P); ///< gpu_work, collectives.
void readCalls(Part &P);      ///< host_calls.
void readSyncs(Part &P);      ///< syncs.
void readRanges(Part &P);     ///< ranges, host_ops.
void readMemory(Part &P);     ///< memory_events.
void readPools(Part &P);      ///< counters: pools of memory.
void readPaging(Part &P);     ///< gpu_work, counters: unified memory.
void readProcess(Part &P);    ///< ranks, devices.
void readOverheads(Part &P);  ///< profiler_events.

/// What the agent and the file say of the record: rows of profiler_events and
/// remarks. Last, since it tells what the parts skipped.
void remark(Part &P, llvm::StringRef Path);

/// Why a capture ended, as a sentence's part: "the process exited".
llvm::StringRef endText(capture::EndReason Reason);

/// "1 record", "2,690 records".
std::string counted(uint64_t Count, llvm::StringRef What);

/// Whether \p File has no end and stops within its last frame, all before it
/// being whole, as when the process was killed or a copy was cut short.
bool isTorn(const capture::CaptureFile &File);

/// What of a file was harmed, less what a ring overwrote and a torn end.
struct Damage {
  std::vector<capture::Gap> Places; ///< By place.
  uint64_t Bytes = 0;               ///< In them.
  uint64_t Missing = 0;             ///< Frames between those that are there.
  uint64_t Overwritten = 0;         ///< Older frames, by a ring.
  /// The last frame is as a killed process leaves it: the bytes at TornAt.
  bool IsTorn = false;
  uint64_t TornBytes = 0, TornAt = 0;
};
Damage damageOf(const capture::CaptureFile &File);

} // namespace culprit::cprt

#endif // CULPRIT_READERS_CAPTUREPARTS_H
