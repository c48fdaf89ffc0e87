//===- MarkdownReader.h - Issues logs in markdown ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Reads entries from a markdown issues log. The form is
///
///   ## 2026-11-20
///   ### [FIXED] Title
///   **Symptom**: what one sees
///   **Root Cause**: ...
///
/// and people vary it: dates are left out or stand in the entry's heading,
/// sections are headings (`#### Symptom`), list items or `**Symptom:**`, and
/// hold lists, tables and code. All of that is read. What cannot be understood
/// is kept where it can be and always told as a diagnostic.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_KB_MARKDOWNREADER_H
#define CULPRIT_KB_MARKDOWNREADER_H

#include "KB/Entry.h"
#include "Support/Error.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace culprit {

/// The entries of one file in their order, and what was not understood.
struct MarkdownLog {
  std::vector<Entry> Entries;
  std::vector<Diagnostic> Remarks;
};

/// Reads \p Text. \p File names it in ids, places and diagnostics. Any bytes
/// are accepted; those that are not UTF-8 become U+FFFD.
MarkdownLog readMarkdown(llvm::StringRef Text, llvm::StringRef File);

/// Whether \p Text begins with a section label such as `**Symptom**:` and an
/// entry of an issues log may be expected in it. Cheap; for detection.
bool looksLikeIssuesLog(llvm::StringRef Text);

} // namespace culprit

#endif // CULPRIT_KB_MARKDOWNREADER_H
