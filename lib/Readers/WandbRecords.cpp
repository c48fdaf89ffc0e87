//===- WandbRecords.cpp -----------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/WandbRecords.h"
#include "Support/Crc.h"
#include "llvm/Support/Endian.h"
#include <algorithm>

using namespace llvm;
using support::endian::read16le;
using support::endian::read32le;

namespace culprit {

bool WandbRecords::isHeader(StringRef Text) {
  return Text.size() >= HeaderBytes && Text.starts_with(":W&B") &&
         read16le(Text.data() + 4) == 0xBEE1;
}

void WandbRecords::noteBroken(size_t Offset) {
  if (Broken++ == 0)
    FirstBroken = Offset;
}

/// Goes on to the next chunk whose checksum is right. Behind a damaged one its
/// length is followed once, since mostly the data is damaged; when that leads
/// nowhere, the next block is the next place where a chunk must begin.
bool WandbRecords::nextChunk(Chunk &Out) {
  while (At < Text.size()) {
    size_t BlockEnd = At - At % BlockBytes + BlockBytes;
    if (BlockEnd - At < HeaderBytes) { // padding
      At = BlockEnd;
      continue;
    }
    if (Text.size() - At < HeaderBytes) {
      Unfinished = true;
      At = Text.size();
      return false;
    }
    const char *Header = Text.data() + At;
    uint32_t Crc = read32le(Header);
    size_t Length = read16le(Header + 4);
    uint8_t What = static_cast<uint8_t>(Header[6]);
    if (Crc == 0 && Length == 0 && What == 0) {
      At = BlockEnd; // room that was reserved and not written
      continue;
    }
    size_t End = At + HeaderBytes + Length;
    bool Fits = End <= BlockEnd;
    if (Fits && End > Text.size()) {
      Unfinished = true;
      At = Text.size();
      return false;
    }
    if (Fits && What >= Full && What <= Last &&
        Crc == crc32Ieee(Text.substr(At + 6, 1 + Length))) {
      Out = {static_cast<Type>(What), Text.substr(At + HeaderBytes, Length)};
      At = End;
      LastWasBroken = false;
      return true;
    }
    if (!LastWasBroken)
      noteBroken(At);
    At = Fits && !LastWasBroken ? End : BlockEnd;
    LastWasBroken = true;
    Pieces.clear(); // they miss one
  }
  return false;
}

bool WandbRecords::next() {
  bool Begun = false; // Pieces holds the first of a record
  Pieces.clear();
  Chunk C;
  for (;;) {
    int64_t Before = Broken;
    if (!nextChunk(C)) {
      Unfinished |= Begun && Broken == Before;
      return false;
    }
    if (Broken != Before)
      Begun = false;
    switch (C.What) {
    case Full:
      if (Begun) // the rest of the one before is missing
        noteBroken(C.Data.data() - Text.data() - HeaderBytes);
      Data = C.Data;
      ++Number;
      return true;
    case First:
      if (Begun)
        noteBroken(C.Data.data() - Text.data() - HeaderBytes);
      Pieces = C.Data.str();
      Begun = true;
      break;
    case Middle:
    case Last:
      if (!Begun) // of a record whose beginning is damaged and counted
        break;
      Pieces += C.Data;
      if (C.What == Middle)
        break;
      Data = Pieces;
      ++Number;
      return true;
    case Zero:
      break;
    }
  }
}

} // namespace culprit
