//===- Decompress.cpp -------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Support/Decompress.h"
#include "Support/Units.h"
#include "llvm/Support/Endian.h"
#include <cerrno>
#include <cstring>
#include <isa-l/igzip_lib.h>
#include <unistd.h>
#include <vector>
#include <zstd.h>

using namespace llvm;

namespace culprit {
namespace {

/// The bytes on disk, a quarter of a MiB at a time. pread rather than a map:
/// a file that shrinks under us is then a short read and not a SIGBUS.
class DiskBytes {
public:
  explicit DiskBytes(int Fd) : Fd(Fd), Buffer(256 * 1024) {}

  /// The next piece; empty at the end or on an error, which Failed tells.
  StringRef next() {
    ssize_t Got;
    do
      Got = ::pread(Fd, Buffer.data(), Buffer.size(), Offset);
    while (Got < 0 && errno == EINTR);
    if (Got < 0)
      Failed = std::strerror(errno);
    if (Got <= 0)
      return {};
    Offset += Got;
    return StringRef(Buffer.data(), Got);
  }

  std::string Failed;

private:
  int Fd;
  off_t Offset = 0;
  std::vector<char> Buffer;
};

class PlainDecoder final : public Decoder {
public:
  explicit PlainDecoder(int Fd) : Fd(Fd) {}

  size_t read(char *Out, size_t Size) override {
    size_t Done = 0;
    while (Done < Size && Broken.empty()) {
      ssize_t Got = ::pread(Fd, Out + Done, Size - Done, Offset);
      if (Got < 0 && errno == EINTR)
        continue;
      if (Got < 0)
        Broken = std::string("reading failed: ") + std::strerror(errno);
      if (Got <= 0)
        break;
      Done += Got;
      Offset += Got;
    }
    return Done;
  }

private:
  int Fd;
  off_t Offset = 0;
};

/// What gzip and zstd share: pulling, counting, and telling how it ended.
class PullDecoder : public Decoder {
public:
  PullDecoder(int Fd, const char *Name) : Disk(Fd), Name(Name) {}

protected:
  void breakOff(const char *How) {
    Broken = Disk.Failed.empty()
                 ? std::string("the ") + Name + " stream " + How + "; " +
                       formatCount(Total) + " bytes came before that"
                 : "reading failed: " + Disk.Failed;
  }

  DiskBytes Disk;
  const char *Name;
  int64_t Total = 0; ///< Bytes given out.
  bool Done = false;
};

class GzipDecoder final : public PullDecoder {
public:
  explicit GzipDecoder(int Fd) : PullDecoder(Fd, "gzip") { startMember(); }

  size_t read(char *Out, size_t Size) override {
    size_t Filled = 0;
    while (Filled < Size && !Done)
      Filled += step(Out + Filled, Size - Filled);
    return Filled;
  }

private:
  void startMember() {
    // Keeps the input position, which isal_inflate_init would clear.
    uint8_t *NextIn = State.next_in;
    uint32_t AvailIn = State.avail_in;
    isal_inflate_init(&State);
    State.crc_flag = ISAL_GZIP;
    State.next_in = NextIn;
    State.avail_in = AvailIn;
  }

  void refill() {
    StringRef Piece = Disk.next();
    AtEnd = Piece.empty();
    State.next_in =
        reinterpret_cast<uint8_t *>(const_cast<char *>(Piece.data()));
    State.avail_in = Piece.size();
  }

  /// Decodes into \p Out once; \returns the bytes written.
  size_t step(char *Out, size_t Size) {
    if (State.avail_in == 0 && !AtEnd)
      refill();
    State.next_out = reinterpret_cast<uint8_t *>(Out);
    State.avail_out = std::min<size_t>(Size, 1u << 30);
    uint32_t Offered = State.avail_out, Input = State.avail_in;
    int Result = isal_inflate(&State);
    size_t Written = Offered - State.avail_out;
    Total += Written;
    if (State.block_state == ISAL_BLOCK_FINISH && Result == ISAL_DECOMP_OK)
      finishMember();
    else if (Result < 0 || Result == ISAL_NEED_DICT)
      stop(Result == ISAL_INCORRECT_CHECKSUM ? "fails its checksum"
                                             : "is damaged");
    else if (Written == 0 && State.avail_in == Input)
      // Nothing moves: the input is at its end, or the decoder is stuck.
      stop(AtEnd ? "is cut off" : "is damaged");
    return Written;
  }

  /// A gzip file may be several members in a row, as pigz -i, bgzip and
  /// `cat a.gz b.gz` make. Anything else after a member is padding.
  void finishMember() {
    if (State.avail_in == 0 && !AtEnd)
      refill();
    if (State.avail_in == 0 || State.next_in[0] != 0x1f ||
        (State.avail_in > 1 && State.next_in[1] != 0x8b))
      Done = true;
    else
      startMember();
  }

  void stop(const char *How) {
    breakOff(How);
    Done = true;
  }

  inflate_state State = {};
  bool AtEnd = false;
};

class ZstdDecoder final : public PullDecoder {
public:
  explicit ZstdDecoder(int Fd)
      : PullDecoder(Fd, "zstd"), Context(ZSTD_createDCtx()) {}
  ~ZstdDecoder() override { ZSTD_freeDCtx(Context); }

  size_t read(char *Out, size_t Size) override {
    ZSTD_outBuffer To = {Out, Size, 0};
    while (To.pos < Size && !Done) {
      if (From.pos == From.size) {
        StringRef Piece = Disk.next();
        From = {Piece.data(), Piece.size(), 0};
        // Pending is 0 between frames and at the regular end.
        if (Piece.empty() && Pending == 0)
          Done = true;
      }
      size_t Before = To.pos;
      if (!Done)
        step(To);
      Total += To.pos - Before;
      if (Done && !Cause)
        break;
      if (Cause) {
        breakOff(Cause);
        break;
      }
    }
    return To.pos;
  }

private:
  void step(ZSTD_outBuffer &To) {
    size_t Written = To.pos;
    bool AtEnd = From.size == 0;
    size_t Result = ZSTD_decompressStream(Context, &To, &From);
    if (ZSTD_isError(Result))
      Cause = "is damaged";
    else if (AtEnd && To.pos == Written)
      Cause = "is cut off";
    else
      Pending = Result;
    Done = Cause != nullptr;
  }

  ZSTD_DCtx *Context;
  ZSTD_inBuffer From = {nullptr, 0, 0};
  size_t Pending = 1;
  const char *Cause = nullptr;
};

} // namespace

Compression detectCompression(StringRef Start) {
  if (Start.starts_with("\x1f\x8b\x08"))
    return Compression::Gzip;
  if (Start.starts_with("\x28\xb5\x2f\xfd"))
    return Compression::Zstd;
  return Compression::None;
}

std::unique_ptr<Decoder> makeDecoder(Compression Kind, int Fd) {
  switch (Kind) {
  case Compression::None:
    return std::make_unique<PlainDecoder>(Fd);
  case Compression::Gzip:
    return std::make_unique<GzipDecoder>(Fd);
  case Compression::Zstd:
    return std::make_unique<ZstdDecoder>(Fd);
  }
  return nullptr;
}

uint64_t claimedSize(Compression Kind, int Fd, uint64_t DiskSize) {
  char Bytes[18];
  if (Kind == Compression::Gzip && DiskSize >= 18 &&
      ::pread(Fd, Bytes, 4, DiskSize - 4) == 4)
    return support::endian::read32le(Bytes);
  if (Kind == Compression::Zstd) {
    ssize_t Got = ::pread(Fd, Bytes, sizeof(Bytes), 0);
    unsigned long long Size =
        Got > 0 ? ZSTD_getFrameContentSize(Bytes, Got) : 0;
    if (Size != ZSTD_CONTENTSIZE_UNKNOWN && Size != ZSTD_CONTENTSIZE_ERROR)
      return Size;
  }
  return 0;
}

} // namespace culprit
