//===- Speller.h - Words that were meant ------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Reads a mistyped word as the known word it is closest to.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_KB_SPELLER_H
#define CULPRIT_KB_SPELLER_H

#include "KB/Entry.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"
#include <string>

namespace culprit {

/// The words of entries and aliases. Immutable after construction.
class Speller {
public:
  Speller(llvm::ArrayRef<Entry> Entries, llvm::ArrayRef<std::string> Phrases);

  /// Whether \p Lower or another form of it is known.
  bool knows(llvm::StringRef Lower) const;
  /// The known word that \p Lower is a slip of, empty when there is none.
  /// The most common one wins, then the first in the alphabet.
  std::string meant(llvm::StringRef Lower) const;

private:
  void add(llvm::StringRef Text);
  void count(llvm::StringRef Word);

  llvm::StringMap<unsigned> Counts; ///< By spelling, in lower case.
  llvm::StringMap<char> Stems;
};

/// Insertions, deletions, replacements and swaps of neighbours between \p A
/// and \p B; \p Limit + 1 when there are more than \p Limit.
unsigned slips(llvm::StringRef A, llvm::StringRef B, unsigned Limit);

} // namespace culprit

#endif // CULPRIT_KB_SPELLER_H
