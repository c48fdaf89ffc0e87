//===- FrameSizes.h - How much a capture's parts hold -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Sizes that the parts of FrameWriter share.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_CAPTURE_FRAMESIZES_H
#define CULPRIT_CAPTURE_FRAMESIZES_H

#include "Capture/Records.h"

namespace culprit::capture {

/// Kept free for the End frame, so that a full file says that it is full. A
/// frame of records of this size can make room for it.
inline constexpr uint64_t EndReserve = 4096, RoomForEnd = 4096;
/// Kept free for what the records before need to be understood: at most this,
/// and at most a sixteenth of the file.
inline constexpr uint64_t NamingReserve = 64u << 10;
/// A longer text is cut. Names of kernels reach some tens of KiB.
inline constexpr size_t MaxText = 64u << 10;
/// Holds a longest text.
inline constexpr size_t LeastFrame = MaxText + (16u << 10);
inline constexpr size_t SmallFrame = 8u << 10;

/// Whether other records cannot be understood without those of \p Kind. They
/// are few, and CUPTI may hand them over last.
inline bool isNaming(unsigned Kind) {
  return Kind == unsigned(RecordKind::Device) ||
         Kind == unsigned(RecordKind::Context) ||
         Kind == unsigned(RecordKind::Stream) ||
         Kind == unsigned(RecordKind::Name);
}

} // namespace culprit::capture

#endif // CULPRIT_CAPTURE_FRAMESIZES_H
