//===- ClientMisuse.cpp - Uses that CUPTI forbids ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Client.h"
#include <thread>
#include <unistd.h>

using namespace client;

static void flushInCallback() { call("cuptiActivityFlushAll", 0u); }
static void droppedInCallback() {
  size_t N = 0;
  call("cuptiActivityGetNumDroppedRecords", (Context *)nullptr, 0u, &N);
}
static void launchAndFlush() {
  begin();
  simLaunch("k", 7, 1000);
  flush();
}

static void finalize(void *, int, uint32_t, const CallbackData *Data) {
  if (Data->Site == culprit::cupti::ApiEnter)
    call("cuptiFinalize");
}

/// A thread that is in cudaDeviceSynchronize for a second.
static void waitInThread() {
  simLaunch("long", 7, 1000000000);
  std::thread(simDeviceSynchronize).detach();
  while (!simThreadsInside())
    usleep(1000);
}

const std::vector<Test> client::Misuse = {
    {"flush-in-request", nullptr,
     "cuptiActivityFlushAll in a buffer callback",
     [] {
       TheBuffers.OnRequest = flushInCallback;
       launchAndFlush();
     }},
    {"flush-in-complete", nullptr,
     "cuptiActivityFlushAll in a buffer callback",
     [] {
       TheBuffers.OnComplete = flushInCallback;
       launchAndFlush();
     }},
    {"dropped-in-request", nullptr,
     "cuptiActivityGetNumDroppedRecords in a buffer callback",
     [] {
       TheBuffers.OnRequest = droppedInCallback;
       launchAndFlush();
     }},
    {"dropped-in-complete", nullptr,
     "cuptiActivityGetNumDroppedRecords in a buffer callback",
     [] {
       TheBuffers.OnComplete = droppedInCallback;
       launchAndFlush();
     }},
    {"null-buffer-before-12.9", "SIMCUPTI_VERSION=26",
     "a null buffer before CUDA 12.9",
     [] {
       TheBuffers.None = true;
       launchAndFlush();
     }},
    {"misaligned-buffer", nullptr, "a buffer that is not aligned to 8",
     [] {
       TheBuffers.Misaligned = 4;
       launchAndFlush();
     }},
    {"buffer-in-use", nullptr, "a buffer that is still in use",
     [] {
       TheBuffers.Same = true;
       begin();
       simLaunch("k", 7, 1000);
       // Another thread asks for one of its own.
       std::thread([] { simLaunch("k", 7, 1000); }).join();
     }},
    {"buffer-not-zeros", nullptr,
     "a buffer that was said to be zeros is not",
     [] {
       TheBuffers.Dirty = true;
       subscribe();
       size_t Size = 1;
       uint8_t One = 1;
       call("cuptiActivitySetAttribute",
            int(culprit::cupti::AttributeZeroedOut), &Size, &One);
       registerBuffers();
       enable(activity::ConcurrentKernel);
       simLaunch("k", 7, 1000);
     }},
    {"enable-before-register", nullptr,
     "cuptiActivityEnable before cuptiActivityRegisterCallbacks",
     [] {
       subscribe();
       enable(activity::ConcurrentKernel);
     }},
    {"context-before-register", nullptr,
     "cuptiActivityEnable before cuptiActivityRegisterCallbacks",
     [] {
       subscribe();
       call("cuptiActivityEnableContext", simContext(),
            int(activity::ConcurrentKernel));
     }},
    {"register-before-subscribe", nullptr,
     "without a subscriber takes the buffers of another tool",
     [] { registerBuffers(); }},
    {"finalize-in-the-middle", nullptr,
     "cuptiFinalize while a thread is in a CUDA call",
     [] {
       begin();
       waitInThread();
       call("cuptiFinalize");
     }},
    {"finalize-at-entry", nullptr,
     "cuptiFinalize while a thread is in a CUDA call",
     [] {
       call("cuptiEnableDomain", 1u, begin(finalize), 2);
       simLaunch("k", 7, 1000);
     }},
    {"timestamp-callback", nullptr,
     "cuptiActivityRegisterTimestampCallback gives zero times",
     [] {
       subscribe();
       call("cuptiActivityRegisterTimestampCallback", (void *)nullptr);
     }},
    {"thread-ids-in-session", nullptr,
     "cuptiSetThreadIdType after a kind is enabled",
     [] {
       begin();
       call("cuptiSetThreadIdType", 1);
     }},
    {"per-thread-in-session", nullptr,
     "per-thread buffers are switched during a session",
     [] {
       begin();
       size_t Size = 1;
       uint8_t None = 0;
       call("cuptiActivitySetAttribute",
            int(culprit::cupti::AttributePerThread), &Size, &None);
     }},
    {"latency-in-session", nullptr,
     "cuptiActivityEnableLatencyTimestamps during a session",
     [] {
       begin();
       call("cuptiActivityEnableLatencyTimestamps", 1);
     }},
    {"paging-without-choice", nullptr,
     "the kind of paging without a choice of counters",
     [] {
       begin();
       enable(activity::UnifiedMemory);
     }},
};
