//===- Progress.cpp ---------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Progress.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/raw_ostream.h"
#include <chrono>

using namespace llvm;

namespace culprit {

Progress::Progress(std::string What) : What(std::move(What)) {
  if (sys::Process::StandardErrIsDisplayed())
    Shower = std::thread([this] { show(); });
}

Progress::~Progress() {
  if (!Shower.joinable())
    return;
  {
    std::lock_guard<std::mutex> Guard(Lock);
    Done = true;
  }
  Wake.notify_one();
  Shower.join();
}

void Progress::show() {
  std::unique_lock<std::mutex> Guard(Lock);
  for (int Seconds = 1;; ++Seconds) {
    if (Wake.wait_for(Guard, std::chrono::seconds(1), [&] { return Done; }))
      break;
    errs() << '\r' << What << ", " << Seconds << " s\x1b[K";
    errs().flush();
  }
  errs() << "\r\x1b[K";
  errs().flush();
}

} // namespace culprit
