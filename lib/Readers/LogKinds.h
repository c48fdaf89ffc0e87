//===- LogKinds.h - Which lines of a large log say nothing new --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// A server writes the same few hundred sentences a million times. A line's
/// key is a hash of its text in which every word that holds a digit counts as
/// one sign, so "took 12 ms, id a3f0" and "took 7 ms, id 9c" share a key. It is
/// found at more than a byte a cycle, and what the first lines of a key had to
/// say decides whether the others are read at all.
///
/// Numbers are the only thing that lines of a key differ in. A known error
/// whose text has one ("exit code 137") is therefore never told by the key:
/// see numbersMatter().
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_LOGKINDS_H
#define CULPRIT_READERS_LOGKINDS_H

#include "Readers/ServingLines.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <iterator>
#include <memory>
#include <vector>

namespace culprit {

/// The keys of a line, of which the first 4 KiB count.
struct LineKeys {
  /// Bytes of text, numbers left out, that make a beginning: a short one, which
  /// has a logger's name, and a longer one, which has the first words as well.
  static constexpr size_t BeginningText[] = {32, 64};
  static constexpr unsigned Beginnings = std::size(BeginningText);

  uint64_t Whole = 0;
  uint64_t Beginning[Beginnings] = {};
  size_t BeginningBytes[Beginnings] = {}; ///< Of the line, numbers and all.
};
LineKeys lineKeys(llvm::StringRef Line);

/// Whether a known error may hide in the numbers of \p Line, which its key
/// leaves out.
bool numbersMatter(llvm::StringRef Line);

/// What the lines of one key were found to be.
struct LogKind {
  unsigned Sights = 0;    ///< Lines that were read in full.
  bool Eventful = false;  ///< One of them was more than text, requests apart.
  bool FreeText = false;  ///< Its lines share their beginning alone.
  bool Stamped = false;   ///< Lines begin with a point in time.
  bool Ranked = false;    ///< Lines name a rank.
  ServingLines::Part Serving = ServingLines::Part::None;
  llvm::StringRef Level;
  unsigned Template = ~0u; ///< Of LogRows; ~0u before the first.
  uint64_t Pending = 0;    ///< Lines that were only counted, not yet told.
  int64_t LastNumber = 0;  ///< Of the pending ones.
  llvm::StringRef LastText; ///< Valid as long as the piece it came from.

  /// So many lines are read before a key is trusted.
  static constexpr unsigned Trial = 16;
  bool known() const { return Sights >= Trial; }
};

/// The kinds of one log. Not thread-safe.
class LogKinds {
public:
  /// The kind of \p Line. Where many lines begin alike and go on with free
  /// text, as with the prompts of requests, further ones share a kind, and
  /// \p BeginningBytes of the line are what they share.
  LogKind &of(llvm::StringRef Line, size_t &BeginningBytes);

  /// Counts a line of \p K that is not read.
  void count(LogKind &K, llvm::StringRef Line, int64_t Number) {
    if (K.Pending++ == 0)
      Counted.push_back(&K);
    K.LastNumber = Number;
    K.LastText = Line;
  }
  /// The kinds with pending lines, in the order of the first of them; to be
  /// told and set back to none before the text of the lines goes.
  std::vector<LogKind *> takeCounted();

  /// Kinds in all, and kinds that begin alike, before lines are free text.
  static constexpr size_t MaxKinds = 1 << 16, MaxAlike = 128;

private:
  struct Beginning {
    unsigned Kinds = 0; ///< Kinds, or longer beginnings, that begin so.
    LogKind Others;
  };
  llvm::DenseMap<uint64_t, std::unique_ptr<LogKind>> ByKey;
  llvm::DenseMap<uint64_t, std::unique_ptr<Beginning>>
      ByBeginning[LineKeys::Beginnings];
  LogKind Rest; ///< Of lines with too many beginnings.
  std::vector<LogKind *> Counted;
};

} // namespace culprit

#endif // CULPRIT_READERS_LOGKINDS_H
