//===- RawDump.h - CUPTI's buffers as they come -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// A debugging aid: with CULPRIT_RAW_BUFFERS=FOLDER in its environment a
/// process leaves FOLDER/PID.cuptiraw, in which are the bytes that CUPTI wrote
/// and the texts that they point at. So a decoder, and the simulated CUPTI, can
/// be held against what a real one did.
///
/// The file is a RawHead, then chunks: a RawChunk and Bytes bytes, unaligned.
/// Texts stand before the buffer that points at them and belong to it alone.
/// Numbers are little-endian. No file comes of a folder that cannot be written
/// to; a file that ends in the middle of a chunk was cut.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_AGENT_RAWDUMP_H
#define CULPRIT_AGENT_RAWDUMP_H

#include "Agent/Cupti.h"
#include <stddef.h>
#include <stdint.h>

namespace culprit::agent {

struct RawHead {
  char Magic[8]; ///< "CUPTIRAW"
  uint32_t Format;
  uint32_t Cupti, Driver; ///< Versions, as cuptiGetVersion has it.
  uint32_t Pid;
};
static_assert(sizeof(RawHead) == 24);
inline constexpr char RawMagic[] = "CUPTIRAW";
inline constexpr uint32_t RawFormat = 1;

struct RawChunk {
  enum : uint32_t { Text = 1, Buffer = 2 };
  uint32_t What;
  uint32_t Bytes;   ///< Of a text without its end, of a buffer what is valid.
  uint64_t Address; ///< In the process; of a text what records point at.
};
static_assert(sizeof(RawChunk) == 16);

/// Appends the \p Valid bytes of \p Buffer to the file of this process, when
/// that is asked for. Not for two threads at once.
void saveRaw(const cupti::Api &A, uint8_t *Buffer, size_t Valid);

} // namespace culprit::agent

#endif // CULPRIT_AGENT_RAWDUMP_H
