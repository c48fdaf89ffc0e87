//===- RawDump.cpp ----------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Agent/RawDump.h"
#include "Agent/Text.h"
#include "Capture/Decode.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

using namespace culprit::capture;

namespace culprit::agent {

static constexpr size_t MaxText = 64u << 10;

namespace {
/// The file, open for one buffer. Bytes are collected, as texts are many and
/// short.
class RawFile {
public:
  explicit RawFile(const char *Path)
      : File(open(Path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW,
                  0600)) {
    // Not a pipe or a device.
    off_t At = File < 0 ? -1 : lseek(File, 0, SEEK_END);
    rlimit Limit;
    if (At < 0 || getrlimit(RLIMIT_FSIZE, &Limit)) {
      Good = false;
      return;
    }
    Size = static_cast<uint64_t>(At);
    // Beyond its limit a write would be a signal in somebody's process.
    Most = Limit.rlim_cur == RLIM_INFINITY ? ~uint64_t(0) : Limit.rlim_cur;
  }
  ~RawFile() {
    flush();
    if (File >= 0)
      close(File);
  }
  bool isEmpty() const { return Good && !Size; }

  void put(const void *From, size_t Bytes) {
    if (!Good || Bytes > Most - Size) {
      Good = false;
      return;
    }
    Size += Bytes;
    if (Used + Bytes > sizeof(Room))
      flush();
    if (Bytes > sizeof(Room)) {
      write(static_cast<const char *>(From), Bytes);
      return;
    }
    memcpy(Room + Used, From, Bytes);
    Used += Bytes;
  }

private:
  void flush() {
    write(Room, Used);
    Used = 0;
  }
  void write(const char *From, size_t Bytes) {
    while (Good && Bytes) {
      ssize_t N = ::write(File, From, Bytes);
      if (N < 0 && errno == EINTR)
        continue;
      Good = N > 0;
      From += N > 0 ? N : 0;
      Bytes -= static_cast<size_t>(N > 0 ? N : 0);
    }
  }

  int File;
  bool Good = true;
  uint64_t Size = 0, Most = 0;
  size_t Used = 0;
  char Room[4096];
};

/// Writes a text that is met, unless it was just before.
struct Texts {
  RawFile &To;
  const char *Before[64] = {};

  void add(const char *Text) {
    const char *&Slot = Before[(reinterpret_cast<uintptr_t>(Text) >> 4) % 64];
    if (Slot == Text)
      return;
    Slot = Text;
    size_t Size = strnlen(Text, MaxText);
    RawChunk C = {RawChunk::Text, static_cast<uint32_t>(Size),
                  reinterpret_cast<uintptr_t>(Text)};
    To.put(&C, sizeof(C));
    To.put(Text, Size);
  }
};
} // namespace

/// The folder, from the first call on; empty when nothing is to be saved.
static const char *folder() {
  static bool Asked;
  static char Folder[400];
  if (!Asked)
    if (const char *Value = getenv("CULPRIT_RAW_BUFFERS"))
      if (strlen(Value) < sizeof(Folder))
        copyText(Folder, Value);
  Asked = true;
  return Folder;
}

/// The texts of the records, found as the decoder finds them.
static void saveTexts(const cupti::Api &A, uint8_t *Buffer, size_t Valid,
                      Texts &To) {
  Namer Names = {
      [](void *To, const char *Text) {
        static_cast<Texts *>(To)->add(Text);
        return uint32_t(0);
      },
      [](void *, uint32_t, uint32_t) { return uint32_t(0); },
      [](void *, const void *, size_t) { return uint32_t(0); }, &To};
  alignas(8) uint8_t Aside[MaxRecordSize];
  void *Next = nullptr;
  cupti::Result R = A.ActivityGetNextRecord(Buffer, Valid, &Next);
  while (R == cupti::Success) {
    const uint8_t *At = static_cast<uint8_t *>(Next);
    R = A.ActivityGetNextRecord(Buffer, Valid, &Next);
    const uint8_t *End = R == cupti::Success ? static_cast<uint8_t *>(Next)
                                             : Buffer + Valid;
    // Behind a record that cannot be walked over its own end is unknown.
    if ((R == cupti::Success || R == cupti::MaxLimitReached) && End > At)
      decode(At, static_cast<size_t>(End - At), Names, Aside);
  }
}

void saveRaw(const cupti::Api &A, uint8_t *Buffer, size_t Valid) {
  const char *Folder = folder();
  if (!Folder[0] || Valid > ~uint32_t(0))
    return;
  char Path[480];
  Text(Path, sizeof(Path)) << Folder << "/" << static_cast<uint32_t>(getpid())
                           << ".cuptiraw";
  RawFile File(Path);
  if (File.isEmpty()) {
    RawHead Head = {{}, RawFormat, A.Version, A.Driver,
                    static_cast<uint32_t>(getpid())};
    memcpy(Head.Magic, RawMagic, sizeof(Head.Magic));
    File.put(&Head, sizeof(Head));
  }
  Texts Met{File};
  saveTexts(A, Buffer, Valid, Met);
  RawChunk C = {RawChunk::Buffer, static_cast<uint32_t>(Valid),
                reinterpret_cast<uintptr_t>(Buffer)};
  File.put(&C, sizeof(C));
  File.put(Buffer, Valid);
}

} // namespace culprit::agent
