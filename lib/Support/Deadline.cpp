//===- Deadline.cpp ---------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Support/Deadline.h"
#include "Support/Error.h"

namespace culprit {

static thread_local const Deadline *Current = nullptr;

Deadline::Deadline(Clock::time_point At) : At(At), Before(Current) {
  Current = this;
}

Deadline::~Deadline() { Current = Before; }

bool timeIsUp() { return Current && Deadline::Clock::now() > Current->At; }

llvm::Error outOfTime() { return failure("the time is up"); }

} // namespace culprit
