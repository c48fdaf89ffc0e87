//===- SeenText.h - What a team wrote down before, in words -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// How reports of every form say that a team had the trouble before, and which
/// of the entries of a hypothesis tells what.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_REPORT_SEENTEXT_H
#define CULPRIT_REPORT_SEENTEXT_H

#include "Rank/Diagnosis.h"

namespace culprit {

/// Of one hypothesis so many entries of the team's own are shown.
inline constexpr size_t MostSeen = 3;

/// `seen before on 2026-03-02 (ISSUES.md:41): title; fix: ...; prevention: ...`,
/// with `still open` or `left as it was` where the entry says so.
std::string seenText(const SeenBefore &S);
/// `quote`, `class` or `words`.
llvm::StringRef seenBy(const SeenBefore &S);
/// `fixed`, `open` or `set-aside`.
llvm::StringRef seenState(const SeenBefore &S);

/// The first of \p Entries that has \p Field; empty where none has it.
llvm::StringRef firstWith(llvm::ArrayRef<const Entry *> Entries,
                          std::string Entry::*Field);
/// The preventions of the first of \p Entries that has any.
llvm::ArrayRef<std::string>
firstPrevention(llvm::ArrayRef<const Entry *> Entries);

/// The entries of \p H that are nobody's own, unless there are no others.
llvm::ArrayRef<const Entry *> generalEntries(const Hypothesis &H);

} // namespace culprit

#endif // CULPRIT_REPORT_SEENTEXT_H
