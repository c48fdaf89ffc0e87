//===- KinetoTraceSplitter.cpp ----------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/KinetoTraceSplitter.h"
#include "Readers/KinetoTraceEvent.h"
#include <algorithm>
#include <cstring>

using namespace llvm;

namespace culprit::kineto {

/// Headers are a few KB; beyond this the file is no trace.
static constexpr size_t MaxHeader = size_t(64) << 20;

/// Part of the text is looked at again after more has come, for the beginning
/// of an event that lay across.
static constexpr size_t Overlap = 256;

Splitter::Splitter(size_t ChunkBytes, size_t MaxEvent)
    : ChunkBytes(std::max<size_t>(ChunkBytes, 1)), MaxEvent(MaxEvent) {}

Splitter::~Splitter() = default;

void Splitter::reserve(size_t Wanted) {
  if (Wanted <= Capacity)
    return;
  std::unique_ptr<char[]> Larger;
  if (Wanted <= ChunkBytes && !Spare.empty()) {
    Larger = std::move(Spare.back());
    Spare.pop_back();
    Capacity = ChunkBytes;
  } else {
    Capacity = std::max({Wanted, 2 * Capacity, ChunkBytes});
    Larger.reset(new char[Capacity + LexerPadding]);
  }
  if (Size)
    std::memcpy(Larger.get(), Bytes.get(), Size);
  Bytes = std::move(Larger);
}

void Splitter::recycle(Chunk Done) {
  static constexpr size_t MaxSpare = 16;
  if (Done.Bytes && Done.Capacity == ChunkBytes && Spare.size() < MaxSpare)
    Spare.push_back(std::move(Done.Bytes));
}

MutableArrayRef<char> Splitter::room() {
  reserve(Size + 1);
  return {Bytes.get() + Size, Capacity - Size};
}

void Splitter::filled(size_t Count, Sink Give) {
  BytesSeen += Count;
  Size += Count;
  if (!FoundEvents) {
    // The header is copied out, so that events begin where the memory does.
    size_t Used = header({Bytes.get(), Size});
    Size -= Used;
    Offset += Used;
    std::memmove(Bytes.get(), Bytes.get() + Used, Size);
  }
  if (FoundEvents && Size == Capacity)
    cutFull(Give);
}

void Splitter::feed(StringRef Piece, Sink Give) {
  while (!Piece.empty()) {
    MutableArrayRef<char> Room = room();
    size_t Count = std::min(Room.size(), Piece.size());
    std::memcpy(Room.data(), Piece.data(), Count);
    Piece = Piece.drop_front(Count);
    filled(Count, Give);
  }
}

void Splitter::finish(Sink Give) {
  if (FoundEvents)
    cut(Size, /*Open=*/true, Give);
}

void Splitter::tail(StringRef Text) {
  ListEnded = true;
  header(Text);
}

bool Splitter::opensEventList() const {
  if (FoundEvents)
    return false; // a second list is left alone; no writer makes one
  if (HeaderDepth == 0)
    return StringRef(Header).ltrim("\xEF\xBB\xBF \t\r\n") == "[";
  StringRef Before = StringRef(Header).drop_back().rtrim();
  return HeaderDepth == 1 && Before.consume_back(":") &&
         Before.rtrim().ends_with("\"traceEvents\"");
}

size_t Splitter::header(StringRef Piece) {
  bool Opened = false;
  size_t I = 0;
  for (; I != Piece.size() && !Opened; ++I) {
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
        Opened = FoundEvents = true;
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
  return I;
}

void Splitter::cutFull(Sink Give) {
  std::memset(Bytes.get() + Size, '"', LexerPadding);
  size_t Last = findLastEvent({Bytes.get(), Size}, Searched);
  if (Last != StringRef::npos && Last > 0)
    return cut(Last, /*Open=*/false, Give);
  if (Size >= MaxEvent)
    return cut(Size, /*Open=*/false, Give);
  Searched = Size - std::min(Size, Overlap);
  reserve(Size + 1);
}

void Splitter::cut(size_t At, bool Open, Sink Give) {
  Chunk Done;
  reserve(std::max<size_t>(Size, 1));
  Done.Bytes = std::move(Bytes);
  Done.Size = At;
  Done.Capacity = Capacity;
  Done.Offset = Offset;
  Done.Open = Open;
  size_t Rest = Size - At;
  Size = Capacity = Searched = 0;
  if (Rest) {
    reserve(Rest + 1);
    std::memcpy(Bytes.get(), Done.Bytes.get() + At, Rest);
    Size = Rest;
  }
  std::memset(Done.Bytes.get() + At, '"', LexerPadding);
  Offset += At;
  Give(std::move(Done));
}

} // namespace culprit::kineto
