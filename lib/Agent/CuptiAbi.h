//===- CuptiAbi.h - What the agent needs of CUPTI's interface ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// The numbers and signatures of CUPTI that the agent uses, in our own words:
/// the toolkit is not needed to build, and any libcupti from 11.8 on can be in
/// the process. Numbers are facts of CUPTI's headers, which a test compares
/// where a toolkit is.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_AGENT_CUPTIABI_H
#define CULPRIT_AGENT_CUPTIABI_H

#include <stddef.h>
#include <stdint.h>

namespace culprit::cupti {

using Result = int;
enum : Result {
  Success = 0,
  MaxLimitReached = 12,
  NotInitialized = 15,
  InvalidKind = 21,
  NotSupported = 27,
  InsufficientPrivileges = 35,
  MultipleSubscribers = 39,
  Unknown = 999,
};

enum Domain : int { DriverApi = 1, RuntimeApi = 2 };
enum : int { ApiEnter = 0, ApiExit = 1 };
enum : int { ThreadIdSystem = 1 };
enum : uint32_t { FlushForced = 1 };
enum : int { AttributeZeroedOut = 5, AttributePerThread = 9 };

/// The start of CUpti_CallbackData; more follows.
struct CallbackData {
  int Site; ///< ApiEnter or ApiExit.
  const char *Name;
  const void *Parameters; ///< A struct of those of the call.
  const void *Result;     ///< At the exit, of its type, which is an int's size.
};

struct SubscriberParams {
  size_t StructSize;
  const char *Name;
  char *OldName;
  size_t OldSize;
};

/// CUpti_ActivityUnifiedMemoryCounterConfig. Scope and device mean nothing
/// since CUDA 7, but have to be valid.
struct PagingConfig {
  uint32_t Scope, Kind, Device, Enable;
};
enum : uint32_t {
  PagingOfAllDevices = 2,
  PagingToDevice = 1,
  PagingToHost = 2,
  PagingDeviceFaults = 4,
};

struct Subscriber; ///< Opaque.
struct Context;    ///< CUcontext.

using Callback = void (*)(void *User, int Domain, uint32_t Id,
                          const CallbackData *Data);
using BufferRequested = void (*)(uint8_t **Buffer, size_t *Size,
                                 size_t *MaxRecords);
using BufferCompleted = void (*)(Context *C, uint32_t Stream, uint8_t *Buffer,
                                 size_t Size, size_t Valid);

} // namespace culprit::cupti

#endif // CULPRIT_AGENT_CUPTIABI_H
