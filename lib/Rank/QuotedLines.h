//===- QuotedLines.h - Messages that entries quote --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Entries of a team's own log have no section `Log`; they quote what they saw
/// in the Symptom. Finds such quotes on the lines of a run that tell errors.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_RANK_QUOTEDLINES_H
#define CULPRIT_RANK_QUOTEDLINES_H

#include "Case/Case.h"
#include "KB/Entry.h"
#include <string>
#include <vector>

namespace culprit {

/// A line of the run that an entry quotes.
struct QuotedLine {
  size_t Entry = 0; ///< Index into the entries given.
  std::string Quote;
  std::string Path;
  int64_t Line = 0;
  /// Of a kind of error that the readers know, and so of many causes.
  bool KnownKind = false;
};

/// The messages in \p Text that are marked as literal: between backquotes, in
/// a code fence line by line, or between double quotes. Only what can be a
/// message: two words or the name of an exception, 10 bytes or more.
std::vector<std::string> quotesOf(llvm::StringRef Text);

/// For each of \p Entries the longest of its log fragments and quotes that an
/// error of \p C holds; a log fragment may stand on any line of a log.
std::vector<QuotedLine> findQuotes(const Case &C,
                                   llvm::ArrayRef<Entry> Entries);

/// The first \p Limit different messages of errors, with their types and codes,
/// a line each.
std::string errorText(const Case &C, size_t Limit);

} // namespace culprit

#endif // CULPRIT_RANK_QUOTEDLINES_H
