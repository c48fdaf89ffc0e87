//===- Evidence.cpp ---------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Evidence.h"
#include "Commands.h"
#include "Progress.h"
#include "Readers/Reader.h"
#include "llvm/Support/Threading.h"

using namespace llvm;

namespace culprit {

unsigned threadCount(unsigned Jobs) {
  return Jobs ? Jobs : hardware_concurrency().compute_thread_count();
}

Expected<Case> readEvidence(ArrayRef<std::string> Paths, unsigned Jobs) {
  Progress Waiting("reading");
  return readCase(Paths, threadCount(Jobs));
}

bool reportUnread(const Case &C) {
  bool AnyRead = false;
  for (const InputSummary &I : C.inputs()) {
    report(I.Remarks);
    AnyRead |= !I.Failed;
  }
  return AnyRead;
}

} // namespace culprit
