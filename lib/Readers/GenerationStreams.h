//===- GenerationStreams.h - Records and pieces of answers ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Puts records into rows. The chunks of a streamed answer are one request;
/// several streams may be interleaved, as in the dump of a proxy.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_GENERATIONSTREAMS_H
#define CULPRIT_READERS_GENERATIONSTREAMS_H

#include "Readers/GenerationFields.h"
#include "Readers/GenerationTokens.h"
#include "llvm/ADT/StringMap.h"
#include <memory>

namespace culprit {

/// Takes the records of one file in their order. Not thread-safe.
class GenerationStreams {
public:
  /// Of a file of \p Bytes.
  GenerationStreams(Source &S, uint64_t Bytes) : Rows(S, Bytes) {}

  /// Takes \p Record, at \p Place; \p Event if it came as data of a stream.
  /// False when it is of no request.
  bool record(LooseValue Record, bool Event, int64_t Place);
  /// A stream said that it is complete.
  void done() { flush(); }
  /// Writes what had to wait for the end.
  void finish() {
    flush();
    Rows.finish();
  }

  const RequestRows &rows() const { return Rows; }

private:
  struct Stream {
    RequestRecord R;
    GenerationTokens Tokens;
    /// SGLang sends all of the answer again and again; its tokens are taken
    /// once.
    bool Whole = false;
  };

  bool whole(const GenerationParts &P, int64_t Place);
  bool chunk(const GenerationParts &P, int64_t Place);
  /// The open stream of \p Id; a new one begins as \p Begin.
  Stream &stream(const std::string &Id, const RequestRecord &Begin,
                 int64_t Place);
  std::string nameOf(const GenerationParts &P);
  void flush();

  /// More streams at once are not kept open.
  static constexpr size_t MaxOpen = 4096;

  RequestRows Rows;
  std::vector<std::unique_ptr<Stream>> Open; ///< In the order of their begin.
  llvm::StringMap<Stream *> ById;
  int64_t Number = 0; ///< Records that were seen.
};

} // namespace culprit

#endif // CULPRIT_READERS_GENERATIONSTREAMS_H
