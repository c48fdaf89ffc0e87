//===- CaptureDamage.cpp - What is missing from a capture -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Tells what a ring overwrote, and what a process that was killed left torn,
/// from damage. A ring has holes, which read as zeros, between its parts, and
/// lacks its first frames: whatever else is missing was harmed.
///
//===----------------------------------------------------------------------===//

#include "Readers/CaptureParts.h"

using namespace llvm;
using namespace culprit::capture;

namespace culprit::cprt {

bool isTorn(const CaptureFile &File) {
  return !File.end() && !File.missingFrames() && File.gaps().size() == 1 &&
         File.isTailCut();
}

/// Whether \p G of \p File reads as zeros, as what was never written.
static bool isHole(const CaptureFile &File, const Gap &G) {
  const FrameView &Any = File.frames().front();
  const char *Begin = Any.Payload - sizeof(Frame) - Any.Offset + G.Begin;
  return StringRef(Begin, G.Size).find_first_not_of('\0') == StringRef::npos;
}

static uint64_t endOf(const FrameView &V) {
  uint64_t Size = sizeof(Frame) + V.Head.Payload;
  return V.Offset + (Size + FrameAlign - 1) / FrameAlign * FrameAlign;
}

Damage damageOf(const CaptureFile &File) {
  Damage D;
  D.IsTorn = isTorn(File);
  D.Missing = File.missingFrames();
  bool Ring = File.isRing() && !File.frames().empty();
  if (Ring) {
    D.Overwritten = File.frames().front().Head.Sequence;
    D.Missing -= D.Overwritten;
  }
  for (const Gap &G : File.gaps()) {
    if (Ring && isHole(File, G))
      continue;
    // What a ring writes when the process is killed lies behind its newest
    // frame, which may be anywhere.
    if (Ring && !File.end() && !D.Missing &&
        G.Begin == endOf(File.frames().back())) {
      D.IsTorn = true;
      D.TornBytes = G.Size;
      D.TornAt = G.Begin;
      continue;
    }
    D.Places.push_back(G);
    D.Bytes += G.Size;
  }
  if (!Ring && D.IsTorn) {
    D.TornBytes = D.Bytes;
    D.TornAt = D.Places.front().Begin;
    D.Places.clear();
    D.Bytes = 0;
  }
  return D;
}

} // namespace culprit::cprt
