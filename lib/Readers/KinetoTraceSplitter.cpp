//===- KinetoTraceSplitter.cpp ----------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/KinetoTraceSplitter.h"
#include "Readers/KinetoTraceEvent.h"
#include <bit>
#include <cstring>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

using namespace llvm;

namespace culprit::kineto {

static constexpr size_t Block = 64;
/// Headers are a few KB; beyond this the file is no trace.
static constexpr size_t MaxHeader = size_t(64) << 20;

namespace {

/// Which of 64 bytes are what.
struct BlockMasks {
  uint64_t Quote = 0, Escape = 0, Open = 0, Close = 0;
};

} // namespace

static BlockMasks masksOf(const char *Bytes) {
  BlockMasks M;
#ifdef __SSE2__
  // '[' and '{', and ']' and '}', differ in bit 5 alone.
  const __m128i Fold = _mm_set1_epi8(0x20);
  for (unsigned I = 0; I != Block; I += 16) {
    __m128i V = _mm_loadu_si128(reinterpret_cast<const __m128i *>(Bytes + I));
    __m128i Folded = _mm_or_si128(V, Fold);
    auto Mask = [&](__m128i Value, char C) {
      return static_cast<uint64_t>(static_cast<unsigned>(
                 _mm_movemask_epi8(_mm_cmpeq_epi8(Value, _mm_set1_epi8(C)))))
             << I;
    };
    M.Quote |= Mask(V, '"');
    M.Escape |= Mask(V, '\\');
    M.Open |= Mask(Folded, '{');
    M.Close |= Mask(Folded, '}');
  }
#else
  for (unsigned I = 0; I != Block; ++I) {
    uint64_t Bit = uint64_t(1) << I;
    char C = Bytes[I];
    M.Quote |= C == '"' ? Bit : 0;
    M.Escape |= C == '\\' ? Bit : 0;
    M.Open |= C == '{' || C == '[' ? Bit : 0;
    M.Close |= C == '}' || C == ']' ? Bit : 0;
  }
#endif
  return M;
}

/// The bits that an escape makes literal. \p Carry is the state between
/// blocks. Escapes are rare, so a loop over them is cheap.
static uint64_t escapedBits(uint64_t Escapes, bool &Carry) {
  uint64_t Escaped = Carry ? 1 : 0;
  Carry = false;
  for (; Escapes; Escapes &= Escapes - 1) {
    unsigned At = std::countr_zero(Escapes);
    if (Escaped >> At & 1)
      continue;
    if (At == Block - 1)
      Carry = true;
    else
      Escaped |= uint64_t(2) << At;
  }
  return Escaped;
}

/// Each bit becomes the parity of the bits up to it.
static uint64_t prefixParity(uint64_t Bits) {
  for (unsigned Shift = 1; Shift != Block; Shift *= 2)
    Bits ^= Bits << Shift;
  return Bits;
}

Splitter::Splitter(size_t ChunkBytes)
    : ChunkBytes(ChunkBytes), ResyncAt(4 * ChunkBytes) {}

Splitter::~Splitter() = default;

void Splitter::feed(StringRef Piece, Sink Give) {
  BytesSeen += Piece.size();
  while (!Piece.empty()) {
    if (!InEvents) {
      header(Piece);
      continue;
    }
    append(Piece);
    Piece = {};
    scan(/*AtEnd=*/false, Give);
  }
}

void Splitter::finish(Sink Give) {
  if (InEvents)
    scan(/*AtEnd=*/true, Give);
  if (InEvents)
    cut(Size, /*StillOpen=*/true, Give);
}

bool Splitter::opensEventList() const {
  if (HeaderDepth == 0)
    return StringRef(Header).ltrim("\xEF\xBB\xBF \t\r\n") == "[";
  StringRef Before = StringRef(Header).drop_back().rtrim();
  return HeaderDepth == 1 && Before.consume_back(":") &&
         Before.rtrim().ends_with("\"traceEvents\"");
}

void Splitter::header(StringRef &Piece) {
  size_t I = 0;
  for (; I != Piece.size() && !InEvents; ++I) {
    char C = Piece[I];
    if (Header.size() < MaxHeader)
      Header += C;
    if (HeaderInString) {
      HeaderInString = HeaderEscape || C != '"';
      HeaderEscape = !HeaderEscape && C == '\\';
      continue;
    }
    switch (C) {
    case '"':
      HeaderInString = true;
      break;
    case '[':
      if (opensEventList()) {
        BareList = HeaderDepth == 0;
        InEvents = FoundEvents = true;
        resetScan();
        Size = Scanned = 0;
        Offset = BytesSeen - Piece.size() + I + 1;
      }
      [[fallthrough]];
    case '{':
      ++HeaderDepth;
      break;
    case ']':
    case '}':
      Closed |= --HeaderDepth == 0;
      break;
    default:
      break;
    }
  }
  Piece = Piece.drop_front(I);
}

void Splitter::append(StringRef Piece) {
  size_t Wanted = Size + Piece.size() + LexerPadding;
  if (Wanted > Capacity) {
    Capacity = std::max(Wanted, std::max(2 * Capacity, ChunkBytes + (2 << 20)));
    std::unique_ptr<char[]> Larger(new char[Capacity]);
    if (Size)
      std::memcpy(Larger.get(), Bytes.get(), Size);
    Bytes = std::move(Larger);
  }
  std::memcpy(Bytes.get() + Size, Piece.data(), Piece.size());
  Size += Piece.size();
}

void Splitter::resetScan() {
  Depth = 0;
  InString = 0;
  Escape = false;
  ResyncAt = 4 * ChunkBytes;
}

void Splitter::scan(bool AtEnd, Sink Give) {
  if (AtEnd && Bytes)
    std::memset(Bytes.get() + Size, ' ', LexerPadding);
  while (InEvents && Scanned < Size && (AtEnd || Scanned + Block <= Size)) {
    BlockMasks M = masksOf(Bytes.get() + Scanned);
    if (M.Escape || Escape)
      M.Quote &= ~escapedBits(M.Escape, Escape);
    uint64_t Inside = prefixParity(M.Quote) ^ InString;
    InString = static_cast<uint64_t>(static_cast<int64_t>(Inside) >> 63);
    uint64_t Open = M.Open & ~Inside, Close = M.Close & ~Inside;
    int64_t Closes = std::popcount(Close);
    // The end of the list, or of the chunk, can only be in a block whose
    // closing brackets reach the level between events.
    if (Depth - Closes < 0 || (Depth == Closes && Scanned >= ChunkBytes)) {
      if (scanBits(Open, Close, Give))
        continue;
    } else {
      Depth += std::popcount(Open) - Closes;
    }
    Scanned += Block;
    if (Scanned > ResyncAt && resynchronise(Give))
      continue;
  }
}

bool Splitter::scanBits(uint64_t Open, uint64_t Close, Sink Give) {
  for (uint64_t Both = Open | Close; Both; Both &= Both - 1) {
    size_t At = Scanned + std::countr_zero(Both);
    if (Both & -Both & Open) {
      ++Depth;
      continue;
    }
    if (Depth == 0) {
      // A brace too many is an event's own trouble.
      if (Bytes[At] != ']')
        continue;
      endList(At, Give);
      return true;
    }
    if (--Depth == 0 && At + 1 >= ChunkBytes) {
      cut(At + 1, /*StillOpen=*/false, Give);
      return true;
    }
  }
  return false;
}

void Splitter::cut(size_t At, bool StillOpen, Sink Give) {
  Chunk Done;
  Done.Bytes = std::move(Bytes);
  Done.Size = At;
  Done.Offset = Offset;
  Done.Open = StillOpen;
  std::string Rest;
  if (Size > At)
    Rest.assign(Done.Bytes.get() + At, Size - At);
  if (!Done.Bytes)
    Done.Bytes.reset(new char[LexerPadding]);
  std::memset(Done.Bytes.get() + At, '"', LexerPadding);
  Offset += At;
  Size = Capacity = Scanned = 0;
  resetScan();
  append(Rest);
  Give(std::move(Done));
}

void Splitter::endList(size_t At, Sink Give) {
  InEvents = false;
  // The bracket and what follows belong to the header again.
  std::string Rest(Bytes.get() + At, Size - At);
  uint64_t Seen = BytesSeen;
  Size = At;
  cut(At, /*StillOpen=*/false, Give);
  StringRef Piece = Rest;
  header(Piece);
  // A second list is left alone when it begins in the same piece; no writer
  // makes one.
  BytesSeen = Seen;
  InEvents = false;
}

bool Splitter::resynchronise(Sink Give) {
  ResyncAt *= 2;
  StringRef Text(Bytes.get(), Scanned);
  // The last event of what there is, so that the rest is scanned once.
  size_t Last = StringRef::npos, From = Text.size();
  while (Last == StringRef::npos && From > 0) {
    From -= std::min<size_t>(From, 1 << 16);
    Last = findEventStart(Text, From);
  }
  if (Last == StringRef::npos)
    return false;
  for (size_t Next; (Next = findEventStart(Text, Last)) != StringRef::npos;)
    Last = Next;
  cut(Last, /*StillOpen=*/false, Give);
  return true;
}

} // namespace culprit::kineto
