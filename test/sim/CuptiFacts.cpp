//===- CuptiFacts.cpp - What a libcupti says without a device ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// usage: cupti-facts LIBCUPTI [DRIVER-IDS]
///
/// Prints facts that need no device, a line each: the functions of CuptiApi.def
/// that there are, how far cuptiActivityGetNextRecord steps over a record of
/// each kind that the agent records, names of calls, and the results of calls
/// without a device. The simulated library must say what the real one does.
/// With `DRIVER-IDS` it prints the names of all ids of DriverCalls.def.
///
//===----------------------------------------------------------------------===//

#include "Agent/Calls.h"
#include "Agent/Cupti.h"
#include "Capture/Decode.h"
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <initializer_list>

using namespace culprit;
namespace activity = capture::activity;

/// Bytes from a record of \p Kind to the next; 0 when it cannot be stepped
/// over.
static size_t strideOf(const cupti::Api &A, uint32_t Kind) {
  alignas(8) uint8_t Buffer[2048];
  size_t Found = 0;
  for (size_t Stride = 8; Stride <= 1024 && !Found; Stride += 8) {
    // Another record of the kind where the stride would have it, and an
    // impossible kind elsewhere.
    std::memset(Buffer, 0xee, sizeof(Buffer));
    std::memset(Buffer, 0, 8);
    std::memcpy(Buffer, &Kind, sizeof(Kind));
    std::memcpy(Buffer + Stride, &Kind, sizeof(Kind));
    void *At = nullptr;
    if (A.ActivityGetNextRecord(Buffer, sizeof(Buffer), &At) != cupti::Success)
      return 0;
    if (A.ActivityGetNextRecord(Buffer, sizeof(Buffer), &At) == cupti::Success)
      Found = size_t(static_cast<uint8_t *>(At) - Buffer);
  }
  return Found;
}

static void onRequest(uint8_t **Buffer, size_t *Size, size_t *Most) {
  *Buffer = nullptr;
  *Size = *Most = 0;
}
static void onComplete(cupti::Context *, uint32_t, uint8_t *, size_t, size_t) {}
static void onCall(void *, int, uint32_t, const cupti::CallbackData *) {}

int main(int Count, char **Arguments) {
  void *Library = Count > 1 ? dlopen(Arguments[1], RTLD_NOW) : nullptr;
  if (!Library) {
    std::fprintf(stderr, "cupti-facts: %s\n",
                 Count > 1 ? dlerror() : "usage: cupti-facts LIBCUPTI");
    return 2;
  }
  cupti::Api A;
#define CUPTI_FUNCTION(Name, Needed, Parameters)                               \
  A.Name = reinterpret_cast<decltype(A.Name)>(dlsym(Library, "cupti" #Name));  \
  std::printf("function cupti%s %s\n", #Name, A.Name ? "there" : "missing");
#include "Agent/CuptiApi.def"
  if (!A.GetVersion || !A.ActivityGetNextRecord || !A.GetCallbackName)
    return 1;
  A.GetVersion(&A.Version);
  std::printf("version %u\n", A.Version);

  for (uint32_t Kind :
       {activity::Memcpy, activity::Memset, activity::Kernel, activity::Driver,
        activity::Runtime, activity::Device, activity::Context,
        activity::ConcurrentKernel, activity::Name, activity::Marker,
        activity::Overhead, activity::MemcpyPeer, activity::UnifiedMemory,
        activity::CudaEvent, activity::Stream, activity::Synchronization,
        activity::ExternalCorrelation, activity::Memory, activity::GraphTrace})
    std::printf("stride %u %zu\n", Kind, strideOf(A, Kind));
  alignas(8) uint8_t Bad[64];
  std::memset(Bad, 0xee, sizeof(Bad));
  void *At = nullptr;
  std::printf("record of no kind %d\n",
              A.ActivityGetNextRecord(Bad, sizeof(Bad), &At));
  At = nullptr;
  std::printf("record of no bytes %d\n", A.ActivityGetNextRecord(Bad, 0, &At));

  const char *Name = nullptr;
  for (uint32_t Id : {17, 20, 22, 31, 41, 51, 131, 165, 211, 311})
    std::printf("runtime %u %s\n", Id,
                A.GetCallbackName(2, Id, &Name) == 0 ? Name : "none");
  const char *Driver = nullptr;
  std::printf("driver 307 %s\n",
              A.GetCallbackName(1, 307, &Driver) == 0 ? Driver : "none");
  if (Count > 2) {
    constexpr agent::CallSet Kept = agent::keptDriverCalls();
    for (uint32_t Id = 0; Id < agent::MaxCallback; ++Id)
      if (Kept.has(Id))
        std::printf("driver %u %s\n", Id,
                    A.GetCallbackName(1, Id, &Name) == 0 ? Name : "none");
    for (uint32_t Id : agent::ChattyCalls)
      std::printf("chatty %u %s\n", Id,
                  A.GetCallbackName(2, Id, &Name) == 0 ? Name : "none");
  }
  for (int Code : {0, 21, 27, 39, 999})
    std::printf("result %d %s\n", Code, A.text(Code));

  uint64_t Now = 0;
  size_t Dropped = 0;
  cupti::Subscriber *S = nullptr;
  uint8_t One = 1;
  size_t Size = 1;
  std::printf("cuptiGetTimestamp %d\n", A.GetTimestamp(&Now));
  std::printf("cuptiSubscribe %d\n", A.Subscribe(&S, onCall, nullptr));
  std::printf("cuptiEnableDomain %d\n", A.EnableDomain(1, nullptr, 2));
  std::printf("cuptiActivityRegisterCallbacks %d\n",
              A.ActivityRegisterCallbacks(onRequest, onComplete));
  std::printf("cuptiActivityEnable %d\n",
              A.ActivityEnable(int(activity::Runtime)));
  if (A.ActivitySetAttribute)
    std::printf("cuptiActivitySetAttribute %d\n",
                A.ActivitySetAttribute(cupti::AttributeZeroedOut, &Size, &One));
  if (A.SetThreadIdType)
    std::printf("cuptiSetThreadIdType %d\n",
                A.SetThreadIdType(cupti::ThreadIdSystem));
  std::printf("cuptiActivityFlushAll %d\n", A.ActivityFlushAll(0));
  std::printf("cuptiActivityGetNumDroppedRecords %d\n",
              A.ActivityGetNumDroppedRecords(nullptr, 0, &Dropped));
  if (A.Finalize) {
    std::printf("cuptiFinalize %d\n", A.Finalize());
    std::printf("cuptiFinalize again %d\n", A.Finalize());
  }
  return 0;
}
