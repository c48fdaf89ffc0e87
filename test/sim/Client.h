//===- Client.h - A small client of the simulated CUPTI ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// What the tests of the simulated CUPTI itself share: calls by name, and
/// buffers that are kept for a look at their records. Each test runs in a
/// process of its own, as CUPTI's state is that of a process.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_TEST_SIM_CLIENT_H
#define CULPRIT_TEST_SIM_CLIENT_H

#include "Agent/CuptiAbi.h"
#include "Capture/Decode.h"
#include "SimDevice.h"
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <functional>
#include <mutex>
#include <vector>

namespace client {

namespace activity = culprit::capture::activity;
using culprit::cupti::Callback;
using culprit::cupti::CallbackData;
using culprit::cupti::Context;
using culprit::cupti::Result;
using culprit::cupti::Subscriber;

/// A function of the simulated libcupti; null when its version has none.
inline void *find(const char *Name) {
  static void *Library = dlopen("libcupti.so.13", RTLD_NOW);
  if (!Library) {
    std::fprintf(stderr, "%s\n", dlerror());
    exit(2);
  }
  return dlsym(Library, Name);
}

/// Calls \p Name, whose parameters have the types of the arguments.
template <typename... T> Result call(const char *Name, T... Arguments) {
  auto Function = reinterpret_cast<Result (*)(T...)>(find(Name));
  if (!Function) {
    std::fprintf(stderr, "there is no %s\n", Name);
    exit(2);
  }
  return Function(Arguments...);
}

/// Ends the test when \p Got is not \p Expected.
inline void want(const char *What, long Got, long Expected) {
  if (Got == Expected)
    return;
  std::fprintf(stderr, "%s: %ld, expected %ld\n", What, Got, Expected);
  exit(1);
}

/// What the buffers are like and what the callbacks do.
struct Buffers {
  size_t Bytes = 4096;
  size_t Misaligned = 0;
  bool None = false, Same = false, Dirty = false;
  std::function<void()> OnRequest, OnComplete;
};
inline Buffers TheBuffers;

/// What came back, as it came.
inline std::mutex DoneLock;
inline std::vector<std::vector<uint8_t>> Done;

inline void onRequest(uint8_t **Buffer, size_t *Size, size_t *Most) {
  if (TheBuffers.OnRequest)
    TheBuffers.OnRequest();
  static uint8_t *Only = static_cast<uint8_t *>(calloc(1, 1 << 16));
  *Most = 0;
  *Size = TheBuffers.None ? 0 : TheBuffers.Bytes;
  *Buffer = TheBuffers.None   ? nullptr
            : TheBuffers.Same ? Only
                              : static_cast<uint8_t *>(calloc(1, 1 << 16)) +
                                    TheBuffers.Misaligned;
  if (TheBuffers.Dirty)
    (*Buffer)[100] = 1;
}
inline void onComplete(Context *, uint32_t, uint8_t *Buffer, size_t,
                       size_t Valid) {
  if (TheBuffers.OnComplete)
    TheBuffers.OnComplete();
  std::lock_guard<std::mutex> Guard(DoneLock);
  Done.emplace_back(Buffer, Buffer + Valid);
}

inline int Calls;
inline void onCall(void *, int, uint32_t, const CallbackData *) { ++Calls; }

inline Subscriber *subscribe(Callback C = onCall) {
  Subscriber *S = nullptr;
  want("cuptiSubscribe", call("cuptiSubscribe", &S, C, (void *)nullptr), 0);
  return S;
}
inline void registerBuffers() {
  want("cuptiActivityRegisterCallbacks",
       call("cuptiActivityRegisterCallbacks", onRequest, onComplete), 0);
}
inline Result enable(uint32_t Kind) {
  return call("cuptiActivityEnable", int(Kind));
}
/// A client that records kernels.
inline Subscriber *begin(Callback C = onCall) {
  Subscriber *S = subscribe(C);
  registerBuffers();
  want("cuptiActivityEnable", enable(activity::ConcurrentKernel), 0);
  return S;
}
inline void flush() {
  want("cuptiActivityFlushAll", call("cuptiActivityFlushAll", 1u), 0);
}

/// The records of \p Kind that came, by their kind at the front; all when 0.
inline std::vector<const uint8_t *> records(uint32_t Kind) {
  std::vector<const uint8_t *> Out;
  for (std::vector<uint8_t> &B : Done) {
    void *At = nullptr;
    while (call("cuptiActivityGetNextRecord", B.data(), B.size(), &At) == 0) {
      uint32_t Is;
      std::memcpy(&Is, At, sizeof(Is));
      if (!Kind || Is == Kind)
        Out.push_back(static_cast<const uint8_t *>(At));
    }
  }
  return Out;
}
template <typename T> T field(const uint8_t *Record, size_t Offset) {
  T Value;
  std::memcpy(&Value, Record + Offset, sizeof(Value));
  return Value;
}

struct Test {
  const char *Name;
  /// "NAME=VALUE", or null; the process is in strict mode in any case.
  const char *Setting;
  /// Null when it is to end well, else what the strict mode says.
  const char *Forbidden;
  void (*Run)();
};
extern const std::vector<Test> Behaviour, Misuse;

} // namespace client

#endif // CULPRIT_TEST_SIM_CLIENT_H
