//===- SimReplay.cpp - Saved buffers instead of records ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Capture/Decode.h"
#include "RawFile.h"
#include "SimCupti.h"
#include <cstdio>
#include <mutex>
#include <unistd.h>

namespace activity = culprit::capture::activity;

namespace simcupti {

static const RawFile &file(const char *Path) {
  static const RawFile &Read = *[&] {
    RawFile *F = new RawFile;
    if (!readRaw(Path, *F)) {
      std::fprintf(stderr, "simulated CUPTI: %s holds no saved buffers\n",
                   Path);
      _exit(77);
    }
    return F;
  }();
  return Read;
}

uint32_t replayedVersion(const char *Path) { return file(Path).Head.Cupti; }

/// Has \p Record point at the text that it pointed at in its process.
static void movePointers(uint8_t *Record, uint32_t Kind,
                         const RawBuffer &Saved) {
  struct Field {
    uint32_t Kind;
    size_t Offset;
  };
  static const Field Fields[] = {
      {activity::Kernel, 104}, {activity::ConcurrentKernel, 104},
      {activity::Memory, 64},  {activity::Marker, 40},
      {activity::Marker, 48},  {activity::Device, 136},
      {activity::Name, 24}};
  for (const Field &F : Fields) {
    if (F.Kind != Kind)
      continue;
    uint64_t Address;
    std::memcpy(&Address, Record + F.Offset, sizeof(Address));
    auto It = Saved.Texts.find(Address);
    put(Record, F.Offset,
        It == Saved.Texts.end() ? nullptr : It->second.c_str());
  }
}

static void replay(const RawBuffer &Saved) {
  const uint8_t *At = reinterpret_cast<const uint8_t *>(Saved.Words.data());
  const uint8_t *End = At + Saved.Bytes;
  while (End - At >= 8) {
    uint32_t Kind;
    std::memcpy(&Kind, At, sizeof(Kind));
    size_t Size = stride(Kind);
    if (!Size || Size > size_t(End - At)) {
      std::fprintf(stderr, "simulated CUPTI: a saved record of kind %u cannot "
                           "be stepped over\n",
                   Kind);
      _exit(77);
    }
    if (uint8_t *Record = beginRecord(Kind, now())) {
      std::memcpy(Record, At, Size);
      movePointers(Record, Kind, Saved);
    }
    endRecord();
    At += Size;
  }
}

void replay() {
  static std::once_flag Once;
  std::call_once(Once, [] {
    for (const RawBuffer &Saved : file(settings().Replay).Buffers)
      replay(Saved);
  });
}

} // namespace simcupti
