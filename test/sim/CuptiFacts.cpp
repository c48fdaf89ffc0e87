//===- CuptiFacts.cpp - What a libcupti says without a device ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// usage: cupti-facts LIBCUPTI
///
/// Prints facts that need no device, a line each: the functions that there are,
/// how far cuptiActivityGetNextRecord steps over a record of each kind, the
/// names of all results and calls, and the results of functions without a
/// device. The simulated library must say what the real one does.
///
//===----------------------------------------------------------------------===//

#include "Agent/Calls.h"
#include "Agent/Cupti.h"
#include "Capture/Decode.h"
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <initializer_list>
#include <string>

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

/// Of the simulated functions, those that the agent does not use.
static const char *const Unused[] = {"GetErrorMessage",
                                     "GetLastError",
                                     "SupportedDomains",
                                     "EnableAllDomains",
                                     "GetCallbackState",
                                     "ActivityEnableContext",
                                     "ActivityDisableContext",
                                     "ActivityGetAttribute",
                                     "ActivityEnableLatencyTimestamps",
                                     "ActivityFlushPeriod",
                                     "ActivityPushExternalCorrelationId",
                                     "ActivityPopExternalCorrelationId",
                                     "ActivityRegisterTimestampCallback",
                                     "GetContextId",
                                     "GetDeviceId",
                                     "GetStreamIdEx",
                                     "NvtxInitialize2"};

static void *Library;

/// Prints the result of cupti\p Name, whose parameters have the types of the
/// arguments.
template <typename... T>
static void result(const char *Name, const char *How, T... Arguments) {
  std::string Symbol = std::string("cupti") + Name;
  auto Function = reinterpret_cast<cupti::Result (*)(T...)>(
      dlsym(Library, Symbol.c_str()));
  std::printf("%s%s %d\n", Symbol.c_str(), How,
              Function ? Function(Arguments...) : -1);
}

static bool isRecorded(uint32_t Kind) {
  return capture::recordKind(Kind) != capture::RecordKind(0);
}

static void printNames(const cupti::Api &A) {
  const char *Name = nullptr;
  for (int Domain : {0, 1, 2, 3, 4, 5, 6, 7})
    for (uint32_t Id = 0; Id < agent::MaxCallback; ++Id)
      std::printf("name %d %u %s\n", Domain, Id,
                  A.GetCallbackName(Domain, Id, &Name) == 0 ? Name : "none");
  constexpr agent::CallSet Kept = agent::keptDriverCalls();
  for (uint32_t Id = 0; Id < agent::MaxCallback; ++Id)
    if (Kept.has(Id))
      std::printf("driver %u %s\n", Id,
                  A.GetCallbackName(1, Id, &Name) == 0 ? Name : "none");
  for (uint32_t Id : agent::ChattyCalls)
    std::printf("chatty %u %s\n", Id,
                A.GetCallbackName(2, Id, &Name) == 0 ? Name : "none");

  auto Message = reinterpret_cast<cupti::Result (*)(cupti::Result,
                                                    const char **)>(
      dlsym(Library, "cuptiGetErrorMessage"));
  for (int Code = -1; Code <= 1100; ++Code) {
    const char *Text = "";
    cupti::Result R = A.GetResultString(Code, &Name);
    std::printf("result %d %d-%s\n", Code, R, Name);
    // A sentence may be said in other words.
    R = Message ? Message(Code, &Text) : -1;
    std::printf("message %d %d-%s\n", Code, R,
                !std::strcmp(Text, Name) ? "name" : "sentence");
  }
}

/// Each with nothing where something is needed, and with all that it needs.
static void printUnused() {
  uint32_t Word = 0;
  uint64_t Long = 0;
  size_t Size = 8, Count = 0;
  int *Domains = nullptr;
  void *None = nullptr;
  result("GetLastError", "");
  result("SupportedDomains", "", &Count, &Domains);
  result("EnableCallback", "", 1u, None, 2, 17u);
  result("EnableAllDomains", "", 1u, None);
  result("GetCallbackState", "", &Word, None, 2, 17u);
  result("Unsubscribe", "", None);
  result("ActivityEnableContext", "", None, 5);
  result("ActivityDisableContext", "", None, 5);
  result("ActivityGetAttribute", "", 5, &Size, &Long);
  result("ActivityGetAttribute", " of nothing", 5, None, &Long);
  result("ActivityEnableLatencyTimestamps", "", 1);
  result("ActivityFlushPeriod", "", 100u);
  result("ActivityPushExternalCorrelationId", "", 3, Long);
  result("ActivityPushExternalCorrelationId", " of no kind", 99, Long);
  result("ActivityPopExternalCorrelationId", "", 3, &Long);
  result("ActivityRegisterTimestampCallback", "", None);
  result("GetContextId", "", None, &Word);
  result("GetDeviceId", "", None, &Word);
  result("GetStreamIdEx", "", None, None, 0, &Word);
  result("NvtxInitialize2", "", None);
  result("ActivityEnableDriverApi", "", 307u, 1);
  result("ActivityEnableRuntimeApi", "", 17u, 0);
  result("ActivityEnableAllSyncRecords", "", 1);
  result("ActivityEnableAndDump", "", 8);
  result("ActivityEnable", " of kind 0", 0);
  result("ActivityEnable", " of kind 63", 63);
  result("ActivityDisable", " of kind 63", 63);
  result("GetThreadIdType", "", &Word);
  result("ActivityConfigureUnifiedMemoryCounter", " of nothing", None, 0u);
  result("ActivityRegisterCallbacks", " of none", None, None);
  result("ActivityGetNumDroppedRecords", " to nowhere", None, 0u, None);
  result("GetTimestamp", " to nowhere", None);
  result("GetVersion", " to nowhere", None);
  result("GetResultString", " to nowhere", 0, None);
  result("GetErrorMessage", " to nowhere", 0, None);
  result("GetCallbackName", " to nowhere", 2, 17u, None);
  result("GetLastError", " after that");
}

static void onRequest(uint8_t **Buffer, size_t *Size, size_t *Most) {
  *Buffer = nullptr;
  *Size = *Most = 0;
}
static void onComplete(cupti::Context *, uint32_t, uint8_t *, size_t, size_t) {}
static void onCall(void *, int, uint32_t, const cupti::CallbackData *) {}

int main(int Count, char **Arguments) {
  Library = Count > 1 ? dlopen(Arguments[1], RTLD_NOW) : nullptr;
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

  for (const char *Name : Unused)
    std::printf("function cupti%s %s\n", Name,
                dlsym(Library, (std::string("cupti") + Name).c_str())
                    ? "there"
                    : "missing");
  for (uint32_t Kind = 0; Kind < 70; ++Kind)
    std::printf("stride %u%s %zu\n", Kind, isRecorded(Kind) ? "" : " unused",
                strideOf(A, Kind));
  alignas(8) uint8_t Bad[64];
  std::memset(Bad, 0xee, sizeof(Bad));
  void *At = nullptr;
  std::printf("record of no kind %d\n",
              A.ActivityGetNextRecord(Bad, sizeof(Bad), &At));
  At = nullptr;
  std::printf("record of no bytes %d\n", A.ActivityGetNextRecord(Bad, 0, &At));

  printNames(A);
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
  printUnused();
  if (A.Finalize) {
    std::printf("cuptiFinalize %d\n", A.Finalize());
    std::printf("cuptiFinalize again %d\n", A.Finalize());
  }
  return 0;
}
