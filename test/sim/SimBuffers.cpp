//===- SimBuffers.cpp -------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "SimCupti.h"
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <pthread.h>
#include <set>
#include <thread>
#include <unistd.h>

namespace simcupti {

namespace {
struct Buffer {
  uint8_t *Data = nullptr;
  size_t Size = 0, Used = 0;
  uint64_t CompleteAt = 0; ///< When its last record is complete.
};
struct Owner; // A thread's hold on its buffer.

// Never destroyed: threads go on while the process ends.
std::mutex &Lock = *new std::mutex;
std::deque<Buffer> &Full = *new std::deque<Buffer>;      ///< Behind Lock.
std::deque<Owner *> &Owners = *new std::deque<Owner *>;  ///< Behind Lock.
Requested OnRequest;
Completed OnComplete;
std::atomic<size_t> Dropped;
std::thread &Worker = *new std::thread;
std::condition_variable &Wake = *new std::condition_variable;
bool Stopping;
std::atomic<bool> Zeroed, PerThread{true};
std::mutex &OutLock = *new std::mutex;
std::set<uint8_t *> &Out = *new std::set<uint8_t *>; ///< Behind OutLock.
thread_local bool InCallback;
const pid_t Process = getpid(); ///< That loaded this.

/// Behind a lock of its own, which only a flush takes beside its thread.
struct Owner {
  std::mutex Mine;
  Buffer Now;
  Owner() {
    std::lock_guard<std::mutex> Guard(Lock);
    Owners.push_back(this);
  }
  ~Owner() {
    // In a child made without the handlers of fork the lock may be taken by a
    // thread that is not there.
    if (getpid() != Process)
      return;
    std::lock_guard<std::mutex> Guard(Lock);
    Owners.erase(std::find(Owners.begin(), Owners.end(), this));
    if (Now.Data)
      Full.push_back(Now);
  }
};
} // namespace

static Owner &mine() {
  if (!PerThread) {
    static Owner &Common = *new Owner;
    return Common;
  }
  thread_local Owner O;
  return O;
}

void setZeroed(bool Are) { Zeroed = Are; }
void setPerThread(bool Is) { PerThread = Is; }

bool hasBufferCallbacks() { return OnRequest != nullptr; }
bool insideBufferCallback() { return InCallback; }
size_t takeDropped() { return Dropped.exchange(0); }

/// Calls back with no lock held.
static void deliver(std::deque<Buffer> &Ready) {
  if (settings().OutOfOrder)
    std::reverse(Ready.begin(), Ready.end());
  for (const Buffer &B : Ready) {
    {
      std::lock_guard<std::mutex> Guard(OutLock);
      Out.erase(B.Data);
    }
    InCallback = true;
    OnComplete(nullptr, 0, B.Data, B.Size, B.Used);
    InCallback = false;
  }
}

void flush(bool Forced) {
  uint64_t At = now();
  std::deque<Buffer> Ready;
  {
    std::lock_guard<std::mutex> Guard(Lock);
    auto Take = [&](const Buffer &B) {
      return B.Data && (Forced || B.CompleteAt <= At);
    };
    for (auto It = Full.begin(); It != Full.end();) {
      if (!Take(*It)) {
        ++It;
        continue;
      }
      Ready.push_back(*It);
      It = Full.erase(It);
    }
    for (Owner *O : Owners) {
      std::lock_guard<std::mutex> Own(O->Mine);
      if (!Take(O->Now))
        continue;
      Ready.push_back(O->Now);
      O->Now = {};
    }
  }
  deliver(Ready);
}

/// Delivers full buffers as libcupti's own thread does.
static void work() {
  std::unique_lock<std::mutex> Guard(Lock);
  while (!Stopping) {
    Wake.wait_for(Guard, std::chrono::milliseconds(5));
    uint64_t At = now();
    std::deque<Buffer> Ready;
    for (auto It = Full.begin(); It != Full.end();) {
      if (It->CompleteAt > At) {
        ++It;
        continue;
      }
      Ready.push_back(*It);
      It = Full.erase(It);
    }
    Guard.unlock();
    deliver(Ready);
    Guard.lock();
  }
}

/// A child must not find a lock taken by a thread that it has not.
static void lockForFork() {
  Lock.lock();
  OutLock.lock();
}
static void unlockAfterFork() {
  OutLock.unlock();
  Lock.unlock();
}

void setBufferCallbacks(Requested R, Completed C) {
  static const int Registered =
      pthread_atfork(lockForFork, unlockAfterFork, unlockAfterFork);
  (void)Registered;
  OnRequest = R;
  OnComplete = C;
  std::lock_guard<std::mutex> Guard(Lock);
  if (Worker.joinable())
    return;
  Stopping = false;
  Worker = std::thread(work);
}

void stopDelivery() {
  {
    std::lock_guard<std::mutex> Guard(Lock);
    Stopping = true;
  }
  Wake.notify_all();
  if (Worker.joinable() && Worker.get_id() != std::this_thread::get_id())
    Worker.join();
  OnRequest = nullptr;
}

uint8_t *beginRecord(uint32_t Kind, uint64_t At) {
  Owner &O = mine();
  O.Mine.lock();
  static std::atomic<uint64_t> Asked;
  if (settings().Drop && ++Asked % settings().Drop == 0) {
    ++Dropped;
    return nullptr;
  }
  size_t Size = stride(Kind);
  // Another thread may fill the next one meanwhile.
  while (O.Now.Data && O.Now.Used + Size > O.Now.Size) {
    // The lock order is Lock, then Mine.
    Buffer Done = O.Now;
    O.Now = {};
    O.Mine.unlock();
    {
      std::lock_guard<std::mutex> Guard(Lock);
      Full.push_back(Done);
    }
    Wake.notify_one();
    O.Mine.lock();
  }
  if (!O.Now.Data) {
    size_t Most = 0;
    Buffer New;
    InCallback = true;
    OnRequest(&New.Data, &New.Size, &Most);
    InCallback = false;
    forbid(!New.Data && settings().Version < 27,
           "a null buffer before CUDA 12.9");
    forbid(reinterpret_cast<uintptr_t>(New.Data) % 8 != 0,
           "a buffer that is not aligned to 8");
    if (settings().Strict && New.Data) {
      forbid(Zeroed && std::any_of(New.Data, New.Data + New.Size,
                                   [](uint8_t Byte) { return Byte; }),
             "a buffer that was said to be zeros is not");
      bool IsNew;
      {
        std::lock_guard<std::mutex> Guard(OutLock);
        IsNew = Out.insert(New.Data).second;
      }
      forbid(!IsNew, "a buffer that is still in use");
    }
    O.Now = New;
  }
  if (!O.Now.Data || Size > O.Now.Size) {
    ++Dropped;
    return nullptr;
  }
  uint8_t *Record = O.Now.Data + O.Now.Used;
  O.Now.Used += Size;
  O.Now.CompleteAt = std::max(O.Now.CompleteAt, At);
  if (!Zeroed)
    std::memset(Record, 0, Size);
  std::memcpy(Record, &Kind, sizeof(Kind));
  return Record;
}

void endRecord() { mine().Mine.unlock(); }

} // namespace simcupti
