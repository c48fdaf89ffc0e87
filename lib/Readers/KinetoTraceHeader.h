//===- KinetoTraceHeader.h - What stands around the events ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// The text around the event list: devices, ranks, process groups, and what
/// the profiler logged while it recorded.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_KINETOTRACEHEADER_H
#define CULPRIT_READERS_KINETOTRACEHEADER_H

#include "Readers/KinetoTraceCollectives.h"
#include <optional>

namespace culprit::kineto {

struct HeaderFacts {
  std::optional<int64_t> Rank, WorldSize, BaseTimeNs;
  std::string Backend, Host, NcclVersion;
  struct Device {
    std::optional<int64_t> Id, Memory, Major, Minor, Multiprocessors;
    std::optional<int64_t> ClockKHz, MemoryClockKHz, MemoryBusBits;
    std::string Model, Uuid;
  };
  std::vector<Device> Devices;
  std::vector<ProcessGroup> Groups;
  std::vector<std::string> Errors, Warnings; ///< As libkineto logged them.
};

/// Reads the header as far as it goes; a trace that was cut off has lost the
/// part behind the events.
HeaderFacts headerFacts(llvm::StringRef Header);

/// One row for each device that did something. A host lists all its devices
/// in the trace of every process, and the others are not this process's. A
/// trace without any work keeps them all: that none was used is a finding.
void addDevices(const HeaderFacts &Facts, int64_t Rank, Source &Into);

/// Rows of `profiler_events` for what was logged.
void addProfilerLog(const HeaderFacts &Facts, Source &Into);

} // namespace culprit::kineto

#endif // CULPRIT_READERS_KINETOTRACEHEADER_H
