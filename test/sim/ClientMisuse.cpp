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

/// The tables of an NVTX, as cuptiNvtxInitialize2 asks for them.
static void (*Nvtx[16])();
static const void *nvtxTable(uint32_t Id) {
  static void (**Places[16])();
  struct Table {
    size_t Size;
    int (*Functions)(unsigned, void (****)(), unsigned *);
  };
  static const Table Functions = {
      sizeof(Functions), [](unsigned, void (****To)(), unsigned *Count) {
        for (unsigned I = 0; I < 16; ++I)
          Places[I] = &Nvtx[I];
        *To = Places;
        *Count = 16;
        return 1;
      }};
  static const size_t Version[4] = {sizeof(Version), 3};
  return Id == 1 ? static_cast<const void *>(&Functions) : Version;
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
    {"finalize-in-capture", nullptr, "which breaks the capture of a graph",
     [] {
       begin();
       simBeginCapture(5);
       call("cuptiFinalize");
     }},
    {"disable-kernels-of-13.0", "SIMCUPTI_VERSION=130000",
     "cuptiActivityDisable of kernels can hang",
     [] {
       begin();
       call("cuptiActivityDisable", int(activity::ConcurrentKernel));
     }},
    {"range-without-device", "SIMCUPTI_NO_DEVICE=1",
     "a range of NVTX where CUPTI does not work",
     [] {
       want("cuptiNvtxInitialize2",
            call("cuptiNvtxInitialize2", (void *)nvtxTable), 0);
       reinterpret_cast<int (*)(const char *)>(Nvtx[9])("range");
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
