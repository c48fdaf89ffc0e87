//===- RawFile.h - Buffers that were saved from a CUPTI ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Reads what the agent saves with CULPRIT_RAW_BUFFERS; the form of the file is
/// in Agent/RawDump.h.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_TEST_SIM_RAWFILE_H
#define CULPRIT_TEST_SIM_RAWFILE_H

#include "Agent/RawDump.h"
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

struct RawBuffer {
  std::vector<uint64_t> Words; ///< The bytes, aligned as CUPTI has them.
  size_t Bytes = 0;
  std::map<uint64_t, std::string> Texts; ///< By address.
};

struct RawFile {
  culprit::agent::RawHead Head = {};
  std::vector<RawBuffer> Buffers;
};

/// False when \p Path is no such file or was cut.
inline bool readRaw(const char *Path, RawFile &To) {
  using culprit::agent::RawChunk;
  std::ifstream In(Path, std::ios::binary);
  std::string All((std::istreambuf_iterator<char>(In)), {});
  if (All.size() < sizeof(To.Head))
    return false;
  std::memcpy(&To.Head, All.data(), sizeof(To.Head));
  if (std::memcmp(To.Head.Magic, culprit::agent::RawMagic, 8) ||
      To.Head.Format != culprit::agent::RawFormat)
    return false;
  RawBuffer Now;
  for (size_t At = sizeof(To.Head); At < All.size();) {
    RawChunk C;
    if (All.size() - At < sizeof(C))
      return false;
    std::memcpy(&C, All.data() + At, sizeof(C));
    At += sizeof(C);
    if (All.size() - At < C.Bytes)
      return false;
    if (C.What == RawChunk::Text) {
      Now.Texts[C.Address] = All.substr(At, C.Bytes);
    } else if (C.What == RawChunk::Buffer) {
      Now.Bytes = C.Bytes;
      Now.Words.resize((C.Bytes + 7) / 8);
      std::memcpy(Now.Words.data(), All.data() + At, C.Bytes);
      To.Buffers.push_back(std::move(Now));
      Now = {};
    } else {
      return false;
    }
    At += C.Bytes;
  }
  return true;
}

#endif // CULPRIT_TEST_SIM_RAWFILE_H
