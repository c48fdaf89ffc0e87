//===- KinetoTraceSplitter.h - A trace cut between events -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Takes a trace as a stream of bytes and gives it on in chunks of about 4 MB
/// that begin and end between two events, so that each can be parsed on its
/// own. What is not in the event list, the header, is collected aside.
///
/// Nothing is scanned but the end of each chunk: from its last bytes backward
/// the splitter looks for the beginning of an event, which no string holds
/// (see EventCursor) and no object within an event looks like, for that has no
/// phase. Where the list ends is for the parser of a chunk to see; it hands
/// the rest to tail().
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_KINETOTRACESPLITTER_H
#define CULPRIT_READERS_KINETOTRACESPLITTER_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace culprit::kineto {

/// A run of whole events, followed by LexerPadding bytes of quotes.
struct Chunk {
  std::unique_ptr<char[]> Bytes;
  size_t Size = 0, Capacity = 0;
  uint64_t Offset = 0; ///< Of its first byte in the file.
  /// The last of the file, which may end inside of an event.
  bool Open = false;

  llvm::StringRef text() const { return {Bytes.get(), Size}; }
};

class Splitter {
public:
  using Sink = llvm::function_ref<void(Chunk)>;

  /// \p ChunkBytes is what a chunk holds unless an event is larger; beyond
  /// \p MaxEvent bytes without the beginning of an event the text is cut
  /// anywhere, which costs the event that is cut.
  explicit Splitter(size_t ChunkBytes = size_t(4) << 20,
                    size_t MaxEvent = size_t(256) << 20);
  ~Splitter();

  /// Memory for the next bytes of the file; never empty.
  llvm::MutableArrayRef<char> room();
  /// Takes the \p Count bytes that were written to the room.
  void filled(size_t Count, Sink Give);
  /// Both for bytes that lie elsewhere.
  void feed(llvm::StringRef Piece, Sink Give);
  /// Gives the last chunk.
  void finish(Sink Give);

  /// Takes text from the bracket on that ends the list.
  void tail(llvm::StringRef Text);
  /// Takes the memory of a chunk back for another.
  void recycle(Chunk Done);

  /// The text around the event list: {"schemaVersion": 1, "traceEvents": []}.
  std::string Header;
  /// An event list was found.
  bool FoundEvents = false;
  /// The file is an event list and nothing around it.
  bool BareList = false;
  /// The bracket that ends the list was seen.
  bool ListEnded = false;
  /// The outermost bracket was closed.
  bool Closed = false;
  uint64_t BytesSeen = 0;

private:
  /// Takes header bytes from the front of \p Piece up to the event list, or
  /// all. \returns how many.
  size_t header(llvm::StringRef Piece);
  bool opensEventList() const;
  /// Cuts the chunk under construction, or makes room for more of it.
  void cutFull(Sink Give);
  void cut(size_t At, bool Open, Sink Give);
  void reserve(size_t Wanted);

  const size_t ChunkBytes, MaxEvent;

  int64_t HeaderDepth = 0;
  bool HeaderInString = false, HeaderEscape = false;

  // The chunk under construction.
  std::unique_ptr<char[]> Bytes;
  size_t Size = 0, Capacity = 0; ///< Capacity leaves out the padding.
  uint64_t Offset = 0;
  size_t Searched = 0; ///< No event that could be cut at begins before this.
  std::vector<std::unique_ptr<char[]>> Spare; ///< Of ChunkBytes capacity.
};

} // namespace culprit::kineto

#endif // CULPRIT_READERS_KINETOTRACESPLITTER_H
