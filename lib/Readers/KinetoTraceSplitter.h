//===- KinetoTraceSplitter.h - A trace cut between events -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Takes a trace as a stream of bytes and gives it on in chunks of about 4 MB
/// that begin and end between two events, so that each can be parsed on its
/// own. What is not in the event list, the header, is collected aside.
///
/// Only brackets outside of strings matter here. They are counted 64 bytes at
/// a time with bit masks, as simdjson does; the bits are looked at one by one
/// only where a chunk may end. 476 MB take 0.2 s.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_KINETOTRACESPLITTER_H
#define CULPRIT_READERS_KINETOTRACESPLITTER_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <memory>
#include <string>

namespace culprit::kineto {

/// A run of whole events, followed by LexerPadding bytes of quotes.
struct Chunk {
  std::unique_ptr<char[]> Bytes;
  size_t Size = 0;
  uint64_t Offset = 0; ///< Of its first byte in the file.
  /// The file ended inside of the event list, and so maybe of an event; what
  /// follows the list may still be in this chunk if its brackets were broken.
  bool Open = false;

  llvm::StringRef text() const { return {Bytes.get(), Size}; }
};

class Splitter {
public:
  using Sink = llvm::function_ref<void(Chunk)>;

  /// Where a chunk ends at the first event that ends behind it.
  explicit Splitter(size_t ChunkBytes = size_t(4) << 20);
  ~Splitter();

  void feed(llvm::StringRef Piece, Sink Give);
  /// Gives the last chunk.
  void finish(Sink Give);

  /// The text around the event list: {"schemaVersion": 1, "traceEvents": []}.
  std::string Header;
  /// An event list was found.
  bool FoundEvents = false;
  /// The file is an event list and nothing around it.
  bool BareList = false;
  /// The outermost bracket was closed.
  bool Closed = false;
  uint64_t BytesSeen = 0;

private:
  /// Takes header bytes from \p Piece up to the event list, or all.
  void header(llvm::StringRef &Piece);
  bool opensEventList() const;

  /// Appends to the chunk under construction.
  void append(llvm::StringRef Piece);
  /// Scans what was appended; full blocks only unless \p AtEnd.
  void scan(bool AtEnd, Sink Give);
  /// The bits of one block one by one. True when the scan must start anew,
  /// because the chunk was cut or the list ended.
  bool scanBits(uint64_t Open, uint64_t Close, Sink Give);
  void cut(size_t At, bool StillOpen, Sink Give);
  void endList(size_t At, Sink Give);
  /// Gets out of a string that never ends: see EventCursor.
  bool resynchronise(Sink Give);
  void resetScan();

  const size_t ChunkBytes;
  bool InEvents = false;

  // Header state.
  int64_t HeaderDepth = 0;
  bool HeaderInString = false, HeaderEscape = false;

  // The chunk under construction, and the scan of it.
  std::unique_ptr<char[]> Bytes;
  size_t Size = 0, Capacity = 0;
  uint64_t Offset = 0;
  size_t Scanned = 0;
  int64_t Depth = 0;     ///< 0 between events.
  uint64_t InString = 0; ///< All ones inside of a string.
  bool Escape = false;   ///< The next byte is escaped.
  size_t ResyncAt;       ///< Chunk size at which to suspect a broken string.
};

} // namespace culprit::kineto

#endif // CULPRIT_READERS_KINETOTRACESPLITTER_H
