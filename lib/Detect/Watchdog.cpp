//===- Watchdog.cpp ---------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Detect/Watchdog.h"
#include "Support/Units.h"
#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

using namespace llvm;

namespace culprit {

namespace {

using Clock = std::chrono::steady_clock;

/// What the threads share. The last of them, which may be one left behind,
/// deletes it.
struct Board {
  explicit Board(WatchedJobs Of)
      : Jobs(std::move(Of)), States(Jobs.Count), Begins(Jobs.Count),
        Outcomes(Jobs.Count) {}

  enum State : uint8_t { Waiting, Running, Done };

  const WatchedJobs Jobs;
  std::mutex Lock;
  std::condition_variable Changed;
  // Under Lock:
  size_t Next = 0;
  size_t Finished = 0;
  std::vector<State> States;
  std::vector<Clock::time_point> Begins;
  std::vector<Outcome> Outcomes;
};

/// Does jobs until none is left, or until the one at hand was given up.
void work(std::shared_ptr<Board> B) {
  std::unique_lock Held(B->Lock);
  while (B->Next != B->Jobs.Count) {
    size_t I = B->Next++;
    B->States[I] = Board::Running;
    B->Begins[I] = Clock::now();
    Held.unlock();
    Outcome Result = B->Jobs.Do(I);
    Held.lock();
    if (B->States[I] == Board::Done)
      return; // given up, and another thread took this one's place
    B->States[I] = Board::Done;
    B->Outcomes[I] = std::move(Result);
    if (++B->Finished == B->Jobs.Count)
      B->Changed.notify_all();
  }
}

} // namespace

std::vector<Outcome> runWatched(WatchedJobs Jobs, unsigned Threads) {
  auto B = std::make_shared<Board>(std::move(Jobs));
  const size_t Count = B->Jobs.Count;
  auto Start = [&B] { std::thread(work, B).detach(); };
  for (unsigned T = 0; T < std::max(Threads, 1u) && T < Count; ++T)
    Start();
  std::unique_lock Held(B->Lock);
  while (B->Finished != Count) {
    Clock::time_point Wake = Clock::now() + B->Jobs.Limit;
    for (size_t I = 0; I != B->Next; ++I)
      if (B->States[I] == Board::Running)
        Wake = std::min(Wake, B->Begins[I] + B->Jobs.Limit);
    B->Changed.wait_until(Held, Wake);
    for (size_t I = 0; I != B->Next; ++I) {
      if (B->States[I] != Board::Running ||
          Clock::now() < B->Begins[I] + B->Jobs.Limit)
        continue;
      B->States[I] = Board::Done;
      B->Outcomes[I] = B->Jobs.GiveUp(I);
      B->Outcomes[I].Abandoned = true;
      ++B->Finished;
      Start();
    }
  }
  return std::move(B->Outcomes);
}

std::chrono::nanoseconds hangsAfter(const Limits &Bounds) {
  return Bounds.Time + std::max<std::chrono::nanoseconds>(
                           Bounds.Time, std::chrono::seconds(1));
}

DetectorError hangs(StringRef File, const Limits &Bounds, std::string Hint) {
  DetectorError Out;
  Out.File = File.str();
  Out.Message = "hangs in native code: still running after " +
                formatDuration(hangsAfter(Bounds).count()) +
                ", without a look at the clock";
  Out.Hint = std::move(Hint);
  return Out;
}

} // namespace culprit
