//===- EntryTitle.h - What the heading of an entry holds --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// People write more into a title than a title: `[FIXED] 2026-11-20: ...`.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_KB_ENTRYTITLE_H
#define CULPRIT_KB_ENTRYTITLE_H

#include "llvm/ADT/StringRef.h"
#include <string>

namespace culprit {

/// A date as somebody wrote it.
struct WrittenDate {
  llvm::StringRef Where; ///< The place in the text; empty when there is none.
  std::string Iso;       ///< `2026-11-20`; as written when it is ambiguous.
  /// `03/04/2026` is March or April, depending on who writes.
  bool Ambiguous = false;
};

/// The first date in \p Text: `2026-11-20`, with slashes, points or the Chinese
/// signs, `20 November 2026`, `Nov 20, 2026`, `20-Nov-2026`, `20/11/2026`.
/// A day that no calendar has is no date.
WrittenDate findDate(llvm::StringRef Text);

/// Takes the status off \p Title; empty when there is none. It stands in
/// brackets at either end (`[FIXED]`, `[x]`) or, when it is a word that only a
/// status is, before a colon or dash (`WONTFIX: ...`) or in parentheses behind.
/// The title is plain text, in which `[x](url)` has become `x (url)`.
std::string takeStatus(std::string &Title);

/// Whether \p Status says that the matter was left as it is, on purpose.
bool isSetAside(llvm::StringRef Status);

/// Whether \p Status says that the matter is still looked into.
bool isOpen(llvm::StringRef Status);

/// The status that \p Status is a slip of; empty for one that is known and for
/// one of the team's own.
std::string statusMeant(llvm::StringRef Status);

/// The part of a title before it goes on to explain: `fp16 scores overflow`
/// of `fp16 scores overflow, softmax turns the Inf into NaN`.
llvm::StringRef firstClause(llvm::StringRef Title);

} // namespace culprit

#endif // CULPRIT_KB_ENTRYTITLE_H
