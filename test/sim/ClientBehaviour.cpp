//===- ClientBehaviour.cpp - What CUPTI's headers promise -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Client.h"
#include <thread>
#include <unistd.h>

using namespace client;

static void launch(unsigned N) {
  for (unsigned I = 0; I < N; ++I)
    simLaunch("k", 7, 1000);
}
static long kernels() {
  flush();
  return long(records(activity::ConcurrentKernel).size());
}
static Result kindOfContext(const char *Name, void *C = simContext()) {
  return call(Name, C, int(activity::ConcurrentKernel));
}
static bool is(const char *A, const char *B) { return !std::strcmp(A, B); }

static void texts() {
  const char *Text = nullptr;
  want("string of 21", call("cuptiGetResultString", 21, &Text), 0);
  want("its text", is(Text, "CUPTI_ERROR_INVALID_KIND"), true);
  want("string of 36", call("cuptiGetResultString", 36, &Text), 1);
  want("message of 21", call("cuptiGetErrorMessage", 21, &Text), 0);
  want("its text", is(Text, "CUPTI_ERROR_INVALID_KIND"), true);
  want("message of 35", call("cuptiGetErrorMessage", 35, &Text), 0);
  want("which is a sentence", std::strchr(Text, ' ') != nullptr, true);
  want("nowhere to put it",
       call("cuptiGetErrorMessage", 0, (const char **)nullptr), 1);
}

static void lastError() {
  begin();
  want("none yet", call("cuptiGetLastError"), 0);
  want("an impossible kind", enable(63), 21);
  std::thread([] {
    want("of another thread", call("cuptiGetLastError"), 0);
  }).join();
  want("the last", call("cuptiGetLastError"), 21);
  want("which it forgets", call("cuptiGetLastError"), 0);
}

static void callbacks() {
  Subscriber *S = begin();
  uint32_t On = 9;
  want("state", call("cuptiGetCallbackState", &On, S, 2, 211u), 0);
  want("off", On, 0);
  want("enable", call("cuptiEnableCallback", 1u, S, 2, 211u), 0);
  want("state", call("cuptiGetCallbackState", &On, S, 2, 211u), 0);
  want("on", On, 1);
  launch(3); // cudaLaunchKernel is 211, entry and exit.
  simDeviceSynchronize();
  want("calls", Calls, 6);
  want("disable", call("cuptiEnableCallback", 0u, S, 2, 211u), 0);
  launch(3);
  want("calls still", Calls, 6);
  want("all of the domain", call("cuptiEnableDomain", 1u, S, 2), 0);
  launch(1);
  simDeviceSynchronize();
  want("calls of both", Calls, 10);
  want("all domains off", call("cuptiEnableAllDomains", 0u, S), 0);
  simDriverLaunch("k", 7, 1000);
  launch(1);
  want("calls in the end", Calls, 10);
  want("no such domain", call("cuptiEnableCallback", 1u, S, 9, 211u), 1);
  want("no such call", call("cuptiEnableCallback", 1u, S, 2, 100000u), 1);
  want("no subscriber",
       call("cuptiEnableCallback", 1u, (Subscriber *)nullptr, 2, 211u), 1);
  want("nowhere to put it",
       call("cuptiGetCallbackState", (uint32_t *)nullptr, S, 2, 211u), 1);
}

static void contexts() {
  begin();
  launch(3);
  want("no context",
       kindOfContext("cuptiActivityDisableContext", nullptr), 3);
  want("off there", kindOfContext("cuptiActivityDisableContext"), 0);
  launch(5);
  want("kernels", kernels(), 3);
  want("off", call("cuptiActivityDisable", int(activity::ConcurrentKernel)), 0);
  want("on there", kindOfContext("cuptiActivityEnableContext"), 0);
  launch(7);
  want("kernels with those of the context", kernels(), 10);
}

static void identities() {
  subscribe();
  uint32_t Id = 9;
  want("context", call("cuptiGetContextId", simContext(), &Id), 0);
  want("its id", Id, 1);
  want("no context", call("cuptiGetContextId", (void *)nullptr, &Id), 3);
  want("nowhere to put it",
       call("cuptiGetContextId", simContext(), (uint32_t *)nullptr), 1);
  want("device", call("cuptiGetDeviceId", (void *)nullptr, &Id), 0);
  want("its id", Id, 0);
  int Other;
  want("of no context", call("cuptiGetDeviceId", (void *)&Other, &Id), 2);
  want("stream",
       call("cuptiGetStreamIdEx", (void *)nullptr, (void *)7, 0, &Id), 0);
  want("its id", Id, 7);
  want("of another context",
       call("cuptiGetStreamIdEx", (void *)&Other, (void *)7, 0, &Id), 20);
}

static void attributes() {
  subscribe();
  size_t Size = 8;
  uint64_t Value = 0;
  want("buffer size", call("cuptiActivityGetAttribute", 0, &Size, &Value), 0);
  want("its size", long(Size), 8);
  Value = 123456;
  want("set", call("cuptiActivitySetAttribute", 0, &Size, &Value), 0);
  Value = 0;
  want("get", call("cuptiActivityGetAttribute", 0, &Size, &Value), 0);
  want("what was set", long(Value), 123456);
  Size = 4;
  want("too small", call("cuptiActivityGetAttribute", 0, &Size, &Value), 10);
  want("none", call("cuptiActivityGetAttribute", 77, &Size, &Value), 1);
  want("nowhere to put it",
       call("cuptiActivityGetAttribute", 0, &Size, (uint64_t *)nullptr), 1);
}

static void latency() {
  subscribe();
  want("on", call("cuptiActivityEnableLatencyTimestamps", 1), 0);
  registerBuffers();
  enable(activity::ConcurrentKernel);
  launch(1);
  want("kernels", kernels(), 1);
  const uint8_t *R = records(activity::ConcurrentKernel)[0];
  uint64_t Queued = field<uint64_t>(R, 120);
  uint64_t Submitted = field<uint64_t>(R, 128);
  want("queued", Queued != 0, true);
  want("submitted", Queued < Submitted, true);
  want("started", Submitted < field<uint64_t>(R, 16), true);
}

static void noLatency() {
  begin();
  launch(1);
  want("kernels", kernels(), 1);
  const uint8_t *R = records(activity::ConcurrentKernel)[0];
  want("queued", long(field<uint64_t>(R, 120)), 0);
  want("no calls, so no correlation", long(field<uint32_t>(R, 92)), 0);
}

static void external() {
  begin();
  enable(activity::Runtime);
  enable(activity::ExternalCorrelation);
  uint64_t Last = 0;
  want("push", call("cuptiActivityPushExternalCorrelationId", 3, uint64_t(42)),
       0);
  launch(1);
  want("pop", call("cuptiActivityPopExternalCorrelationId", 3, &Last), 0);
  want("what was pushed", long(Last), 42);
  want("empty", call("cuptiActivityPopExternalCorrelationId", 3, &Last), 18);
  want("no such kind",
       call("cuptiActivityPushExternalCorrelationId", 9, uint64_t(1)), 1);
  launch(1);
  flush();
  std::vector<const uint8_t *> All = records(0);
  long Before = -1, At = -1;
  for (size_t I = 0; I < All.size(); ++I) {
    if (field<uint32_t>(All[I], 0) == activity::ExternalCorrelation)
      Before = long(I);
    if (At < 0 && field<uint32_t>(All[I], 0) == activity::Runtime)
      At = long(I);
  }
  want("it comes before its call", Before >= 0 && At == Before + 1, true);
  want("external id", long(field<uint64_t>(All[size_t(Before)], 8)), 42);
  want("one of them", long(records(activity::ExternalCorrelation).size()), 1);
}

static Result subscribe2(Subscriber *&S, char *Other = nullptr) {
  culprit::cupti::SubscriberParams P = {sizeof(P), "test", Other, 64};
  return call("cuptiSubscribe_v2", &S, onCall, (void *)nullptr, &P);
}

static void subscribers() {
  Subscriber *S = subscribe(), *Other = nullptr;
  want("a second",
       call("cuptiSubscribe", &Other, onCall, (void *)nullptr), 39);
  char Name[64] = {};
  want("by the other way", subscribe2(Other, Name), 39);
  want("it is named", is(Name, "CUPTI for unknown"), true);
  want("leave", call("cuptiUnsubscribe", S), 0);
  want("ways are not mixed", subscribe2(Other), 39);
  want("leave again", call("cuptiUnsubscribe", S), 1);
  subscribe();
  want("finalize", call("cuptiFinalize"), 0);
  want("then it may change", subscribe2(Other), 0);
  want("ways are not mixed, back",
       call("cuptiSubscribe", &S, onCall, (void *)nullptr), 39);
}

static void busy() {
  Subscriber *S = nullptr;
  want("first", call("cuptiSubscribe", &S, onCall, (void *)nullptr), 39);
  char Name[64] = {};
  want("by name", subscribe2(S, Name), 39);
  want("it is named", is(Name, "CUPTI for Nsight"), true);
}

static const char *const Newer[] = {
    "cuptiActivityEnableDriverApi", "cuptiActivityEnableRuntimeApi",
    "cuptiActivityEnableAllSyncRecords", "cuptiSubscribe_v2"};

/// Of the functions above, as many as there are.
template <int Count> static void presence() {
  for (int I = 0; I < 4; ++I)
    want(Newer[I], find(Newer[I]) != nullptr, I < Count);
  want("what each has", find("cuptiFinalize") != nullptr, true);
}

static void refusal() {
  TheBuffers.None = true;
  begin();
  launch(4);
  size_t Dropped = 0;
  call("cuptiActivityGetNumDroppedRecords", (Context *)nullptr, 0u, &Dropped);
  want("kernels without a buffer", long(Dropped), 4);
}

static void drops() {
  begin();
  launch(100);
  want("kernels", kernels(), 90);
  size_t Dropped = 0;
  call("cuptiActivityGetNumDroppedRecords", (Context *)nullptr, 0u, &Dropped);
  want("lost", long(Dropped), 10);
  call("cuptiActivityGetNumDroppedRecords", (Context *)nullptr, 0u, &Dropped);
  want("told once", long(Dropped), 0);
}

/// Only a forced flush gives what is not complete, 2 s after its work.
static void late() {
  begin();
  launch(2);
  simDeviceSynchronize();
  want("not forced", call("cuptiActivityFlushAll", 0u), 0);
  want("nothing yet", long(records(0).size()), 0);
  usleep(2200000);
  want("not forced", call("cuptiActivityFlushAll", 0u), 0);
  want("now they are complete",
       long(records(activity::ConcurrentKernel).size()), 2);
}

static bool Finalized;
static void finalizeAtExit(void *, int, uint32_t, const CallbackData *Data) {
  if (Data->Site != culprit::cupti::ApiExit || Finalized)
    return;
  Finalized = true;
  want("cuptiFinalize", call("cuptiFinalize"), 0);
}

static void finalize() {
  Subscriber *S = begin(finalizeAtExit);
  simLaunch("long", 8, 500000000);
  std::thread Other(simDeviceSynchronize);
  while (!simThreadsInside())
    usleep(1000);
  want("domain", call("cuptiEnableDomain", 1u, S, 2), 0);
  launch(1);
  want("at the end of a call, another in one", Finalized, true);
  Other.join();
  want("nothing is enabled",
       call("cuptiActivityFlushAll", 0u), 7); // No callbacks either.
  begin();
  launch(2);
  Done.clear();
  want("kernels of the next session", kernels(), 2);
}

/// With libcupti itself as what NVTX looks for.
static void ranges() {
  setenv("NVTX_INJECTION64_PATH", "libcupti.so.13", 1);
  begin();
  want("enable", enable(activity::Marker), 0);
  simRangePush("outer");
  simRangePush("inner");
  simRangePop();
  simRangePop();
  simRangePop(); // None is open.
  flush();
  want("markers", long(records(activity::Marker).size()), 4);
}

static void nothingRegistered() {
  subscribe();
  want("flush", call("cuptiActivityFlushAll", 0u), 7);
  size_t Count = 0;
  int *Domains = nullptr;
  want("domains", call("cuptiSupportedDomains", &Count, &Domains), 0);
  want("of them", long(Count), 2);
  want("nvtx", call("cuptiNvtxInitialize2", (void *)nullptr), 999);
}

const std::vector<Test> client::Behaviour = {
    {"texts", nullptr, nullptr, texts},
    {"last-error", nullptr, nullptr, lastError},
    {"callbacks", nullptr, nullptr, callbacks},
    {"contexts", nullptr, nullptr, contexts},
    {"identities", nullptr, nullptr, identities},
    {"attributes", nullptr, nullptr, attributes},
    {"latency", nullptr, nullptr, latency},
    {"no-latency", nullptr, nullptr, noLatency},
    {"external", nullptr, nullptr, external},
    {"subscribers", nullptr, nullptr, subscribers},
    {"busy", "SIMCUPTI_BUSY=Nsight", nullptr, busy},
    {"functions-of-11.8", "SIMCUPTI_VERSION=18", nullptr, presence<0>},
    {"functions-of-12.6", "SIMCUPTI_VERSION=24", nullptr, presence<2>},
    {"functions-of-12.8", "SIMCUPTI_VERSION=26", nullptr, presence<3>},
    {"functions-of-13.0", "SIMCUPTI_VERSION=130000", nullptr, presence<4>},
    {"refused-buffer", nullptr, nullptr, refusal},
    {"full-buffers", "SIMCUPTI_DROP=10", nullptr, drops},
    {"late", "SIMCUPTI_LATE_US=2000000", nullptr, late},
    {"finalize", nullptr, nullptr, finalize},
    {"ranges", nullptr, nullptr, ranges},
    {"nothing-registered", nullptr, nullptr, nothingRegistered},
};
