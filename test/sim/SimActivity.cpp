//===- SimActivity.cpp - The activity half of CUPTI -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Capture/Decode.h"
#include "SimCupti.h"
#include <chrono>
#include <iterator>
#include <thread>

using namespace simcupti;
using namespace culprit::cupti;
namespace activity = culprit::capture::activity;

SIM cuptiActivityRegisterCallbacks(Requested R, Completed C) {
  if (!R || !C)
    return told(InvalidParameter);
  // The real one gives no error here without a driver.
  if (!attach())
    return Success;
  forbid(!Switched.Current,
         "cuptiActivityRegisterCallbacks without a subscriber takes the "
         "buffers of another tool");
  setBufferCallbacks(R, C);
  return Success;
}

/// The real one gives zero times on the device up to CUDA 13.0.
SIM cuptiActivityRegisterTimestampCallback(uint64_t (*Function)()) {
  forbid(true, "cuptiActivityRegisterTimestampCallback gives zero times up to "
               "CUDA 13.0");
  if (!Function)
    return told(InvalidParameter);
  return attach() ? Success : Unknown;
}

/// What switching a kind on or off has to say before it does.
static Result mayEnable(int Kind, bool On) {
  if (!attach())
    return Unknown;
  if (Kind < 0 || Kind >= int(MaxKind) || !stride(uint32_t(Kind)))
    return InvalidKind;
  if (Kind == settings().Refuse)
    return NotSupported;
  forbid(On && Kind == int(activity::UnifiedMemory) && !Switched.HasPaging,
         "the kind of paging without a choice of counters has no records");
  forbid(On && !hasBufferCallbacks(),
         "cuptiActivityEnable before cuptiActivityRegisterCallbacks");
  if (On && settings().SlowMs)
    std::this_thread::sleep_for(std::chrono::milliseconds(settings().SlowMs));
  return Success;
}

static Result enable(int Kind, bool On) {
  Result R = mayEnable(Kind, On);
  if (R == Success)
    Switched.Kinds[Kind] = On;
  return told(R);
}
SIM cuptiActivityEnable(int Kind) { return enable(Kind, true); }
SIM cuptiActivityDisable(int Kind) {
  forbid(Kind == int(activity::ConcurrentKernel) &&
             settings().Version == BadVersion,
         "cuptiActivityDisable of kernels can hang in CUDA 13.0 before its "
         "update");
  return enable(Kind, false);
}

SIM cuptiActivityEnableAndDump(int Kind) {
  Result R = enable(Kind, true);
  if (R == Success)
    dump(uint32_t(Kind));
  return R;
}

static bool isContext(const void *C) { return C && C == simContext(); }

static Result enableContext(const Context *C, int Kind, bool On) {
  Result R = mayEnable(Kind, On);
  if (R == Success && !isContext(C))
    R = InvalidContext;
  if (R == Success)
    Switched.OfContext[Kind] = On ? 1 : -1;
  return told(R);
}
SIM cuptiActivityEnableContext(Context *C, int Kind) {
  return enableContext(C, Kind, true);
}
SIM cuptiActivityDisableContext(Context *C, int Kind) {
  return enableContext(C, Kind, false);
}

SIM cuptiGetContextId(Context *C, uint32_t *Id) {
  if (!attach())
    return Unknown;
  if (!isContext(C))
    return told(InvalidContext);
  if (!Id)
    return told(InvalidParameter);
  *Id = 1;
  return Success;
}
SIM cuptiGetDeviceId(Context *C, uint32_t *Id) {
  if (!attach())
    return Unknown;
  if (C && !isContext(C))
    return told(InvalidDevice);
  if (!Id)
    return told(InvalidParameter);
  *Id = 0;
  return Success;
}
/// The simulated device knows a stream by its number alone.
SIM cuptiGetStreamIdEx(Context *C, void *Stream, uint8_t, uint32_t *Id) {
  if (!attach())
    return Unknown;
  if (C && !isContext(C))
    return told(InvalidStream);
  if (!Id)
    return told(InvalidParameter);
  *Id = uint32_t(reinterpret_cast<uintptr_t>(Stream));
  return Success;
}

SIM_SINCE(23, cuptiActivityEnableDriverApi, uint32_t Id, uint8_t On) {
  if (!attach())
    return Unknown;
  if (Id >= MaxCallback)
    return told(InvalidParameter);
  Switched.DriverCalls[Id] = On != 0;
  return Success;
}
SIM_SINCE(23, cuptiActivityEnableRuntimeApi, uint32_t Id, uint8_t On) {
  if (!attach())
    return Unknown;
  if (Id >= MaxCallback)
    return told(InvalidParameter);
  Switched.RuntimeOff[Id] = !On;
  return Success;
}
/// The simulated device asks no stream or event whether it is done.
SIM_SINCE(26, cuptiActivityEnableAllSyncRecords, uint8_t) {
  return attach() ? Success : Unknown;
}

SIM cuptiActivityEnableLatencyTimestamps(uint8_t On) {
  if (!attach())
    return Unknown;
  forbid(hasEnabled(),
         "cuptiActivityEnableLatencyTimestamps during a session");
  Switched.HasLatency = On != 0;
  return Success;
}

SIM cuptiActivityConfigureUnifiedMemoryCounter(PagingConfig *Config,
                                               uint32_t Count) {
  if (!Config || !Count)
    return told(InvalidParameter);
  if (!attach())
    return Unknown;
  for (uint32_t I = 0; I < Count; ++I)
    if (!Config[I].Scope || Config[I].Scope > PagingOfAllDevices ||
        !Config[I].Kind)
      return told(InvalidParameter);
  Switched.HasPaging = true;
  return Success;
}

static bool isExternal(int Kind) { return Kind >= 1 && Kind <= 5; }

SIM cuptiActivityPushExternalCorrelationId(int Kind, uint64_t Id) {
  if (!isExternal(Kind))
    return told(InvalidParameter);
  if (!attach())
    return Unknown;
  pushExternal(Id);
  return Success;
}
SIM cuptiActivityPopExternalCorrelationId(int Kind, uint64_t *Last) {
  if (!isExternal(Kind))
    return told(InvalidParameter);
  if (!attach())
    return Unknown;
  uint64_t Id = 0;
  if (!popExternal(Id))
    return told(QueueEmpty);
  if (Last)
    *Last = Id;
  return Success;
}

static std::atomic<int> ThreadIds;
SIM cuptiSetThreadIdType(int Type) {
  if (!attach())
    return Unknown;
  if (Type < 0 || Type > ThreadIdSystem)
    return told(NotSupported);
  forbid(hasEnabled(), "cuptiSetThreadIdType after a kind is enabled");
  ThreadIds = Type;
  return Success;
}
SIM cuptiGetThreadIdType(int *Type) {
  if (!attach())
    return Unknown;
  if (!Type)
    return told(InvalidParameter);
  *Type = ThreadIds;
  return Success;
}

/// Of an attribute, by number: its bytes, and what it is from the start.
struct Attribute {
  size_t Bytes;
  uint64_t Value;
};
static Attribute Attributes[] = {{8, 3200000}, {8, 0}, {8, 250}, {8, 25000},
                                 {8, 250},     {1, 0}, {8, 3},   {8, 3},
                                 {1, 0},       {1, 1}};

static Result findAttribute(int Number, const size_t *Size, const void *Value,
                            Attribute *&Found) {
  if (!Size || !Value)
    return InvalidParameter;
  if (!attach())
    return Unknown;
  if (Number < 0 || size_t(Number) >= std::size(Attributes))
    return InvalidParameter;
  Found = &Attributes[Number];
  return *Size < Found->Bytes ? ParameterTooSmall : Result(Success);
}

SIM cuptiActivityGetAttribute(int Number, size_t *Size, void *Value) {
  Attribute *A = nullptr;
  if (Result R = findAttribute(Number, Size, Value, A))
    return told(R);
  *Size = A->Bytes;
  std::memcpy(Value, &A->Value, A->Bytes);
  return Success;
}

SIM cuptiActivitySetAttribute(int Number, size_t *Size, void *Value) {
  Attribute *A = nullptr;
  if (Result R = findAttribute(Number, Size, Value, A))
    return told(R);
  uint64_t New = 0;
  std::memcpy(&New, Value, A->Bytes);
  if (Number == AttributeZeroedOut)
    setZeroed(New);
  if (Number == AttributePerThread) {
    forbid(hasEnabled(), "per-thread buffers are switched during a session");
    setPerThread(New);
  }
  A->Value = New;
  return Success;
}

SIM cuptiActivityFlushPeriod(uint32_t) { return attach() ? Success : Unknown; }

SIM cuptiActivityFlushAll(uint32_t Flag) {
  forbid(insideBufferCallback(), "cuptiActivityFlushAll in a buffer callback");
  if (!attach())
    return Unknown;
  if (!hasBufferCallbacks())
    return told(InvalidOperation);
  addOverhead(1u << 16, now() - 1000); // CUPTI_BUFFER_FLUSH
  if (settings().Replay)
    replay();
  flush(Flag & FlushForced);
  return Success;
}

SIM cuptiActivityGetNumDroppedRecords(Context *, uint32_t, size_t *Count) {
  forbid(insideBufferCallback(),
         "cuptiActivityGetNumDroppedRecords in a buffer callback");
  if (!Count)
    return told(InvalidParameter);
  *Count = takeDropped();
  return Success;
}

SIM cuptiActivityGetNextRecord(uint8_t *Buffer, size_t Valid, void **Record) {
  if (!Buffer || !Record)
    return told(InvalidParameter);
  uint8_t *At = static_cast<uint8_t *>(*Record);
  uint32_t Kind = 0;
  if (At) {
    std::memcpy(&Kind, At, sizeof(Kind));
    size_t Size = stride(Kind);
    if (!Size)
      return told(InvalidKind);
    At += Size;
  } else {
    At = Buffer;
  }
  if (!Valid || At >= Buffer + Valid)
    return MaxLimitReached;
  std::memcpy(&Kind, At, sizeof(Kind));
  if (!stride(Kind))
    return told(InvalidKind);
  *Record = At;
  return Success;
}
