//===- SimCupti.h - The inside of the simulated libcupti --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// State shared by the parts of the simulated `libcupti.so`. What can be asked
/// of it by the environment:
///
///   SIMCUPTI_VERSION=N      18, 24, 27, 28, 130001, 130300: strides of the
///                           records and which functions there are
///   SIMCUPTI_STRICT=1       a use that CUPTI forbids ends the process, code 77
///   SIMCUPTI_LATE_US=N      records are complete N us after their work
///   SIMCUPTI_OUT_OF_ORDER=1 buffers are delivered last first
///   SIMCUPTI_ZERO_TIMES=N   every Nth kernel has no times
///   SIMCUPTI_SLOW_MS=N      each kind takes N ms to enable
///   SIMCUPTI_BUSY=NAME      another subscriber is there already
///   SIMCUPTI_REFUSE=KIND    that kind cannot be enabled
///   SIMCUPTI_NO_DEVICE=1    as with a driver that does not work: all is 999
///   SIMCUPTI_EXTERNAL=N     every Nth call is inside a pushed external id
///
/// Compiled with SIMCUPTI_OLD it is a libcupti of 11.8, without the functions
/// that are newer.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_TEST_SIM_SIMCUPTI_H
#define CULPRIT_TEST_SIM_SIMCUPTI_H

#include "SimDevice.h"
#include <cstddef>
#include <cstdint>

namespace simcupti {

using Requested = void (*)(uint8_t **, size_t *, size_t *);
using Completed = void (*)(void *, uint32_t, uint8_t *, size_t, size_t);

struct Settings {
#ifdef SIMCUPTI_OLD
  uint32_t Version = 18;
#else
  uint32_t Version = 130001;
#endif
  bool Strict = false, OutOfOrder = false;
  uint64_t LateNs = 0, ZeroTimes = 0, SlowMs = 0;
  const char *Busy = nullptr;
  int Refuse = -1;
  bool NoDevice = false;
  uint64_t External = 0;
};
const Settings &settings();

/// Bytes of a record of the activity \p Kind in this version; 0 for none.
size_t stride(uint32_t Kind);

/// Ends the process in strict mode, as \p What is forbidden.
void forbid(bool Is, const char *What);

/// CLOCK_REALTIME, ns.
uint64_t now();

// Buffers (SimBuffers.cpp).

void setBufferCallbacks(Requested R, Completed C);
bool hasBufferCallbacks();
/// The client says that its buffers are zeros, and whether each thread is to
/// have its own.
void setZeroed(bool Are);
void setPerThread(bool Is);
/// Room for a record of \p Kind, zeroed, which becomes complete at \p At; null
/// when there is no buffer, and the record is counted as dropped. Must be
/// followed by endRecord().
uint8_t *beginRecord(uint32_t Kind, uint64_t At);
void endRecord();
/// Delivers buffers whose records are all complete, or with \p Forced all.
void flush(bool Forced);
size_t takeDropped();
bool insideBufferCallback();
/// Stops the thread that delivers, when CUPTI is finalized.
void stopDelivery();

} // namespace simcupti

#endif // CULPRIT_TEST_SIM_SIMCUPTI_H
