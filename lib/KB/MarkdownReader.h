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
/// sections are headings (`#### Symptom`), list items, `**Symptom:**` or
/// columns of a table, entries are items of a list or have no heading at all.
/// All of that is read. What cannot be understood is kept where it can be and
/// always told as a diagnostic. An introduction, which is prose above the first
/// entry, is nobody's loss and is not.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_KB_MARKDOWNREADER_H
#define CULPRIT_KB_MARKDOWNREADER_H

#include "KB/Entry.h"
#include "KB/Sections.h"
#include "Support/Error.h"
#include "llvm/ADT/StringRef.h"
#include <array>
#include <vector>

namespace culprit {

/// Where the parts of an entry stand in its file; 0 for those it lacks.
struct EntryLines {
  std::array<unsigned, NumSections> Sections = {};
  /// One for each item of Prevention; fewer when it is prose.
  std::vector<unsigned> Items;
};

/// The entries of one file in their order, and what was not understood.
struct MarkdownLog {
  std::vector<Entry> Entries;
  std::vector<EntryLines> Lines; ///< One for each entry.
  std::vector<Diagnostic> Remarks;
};

/// Reads \p Text. \p File names it in ids, places and diagnostics. Any bytes
/// are accepted; those that are not UTF-8 become U+FFFD and are told. A long
/// text is read in pieces of some megabytes that begin at headings, so that
/// only the entries take memory.
MarkdownLog readMarkdown(llvm::StringRef Text, llvm::StringRef File);

/// Whether \p Text begins with a section label such as `**Symptom**:` and an
/// entry of an issues log may be expected in it. Cheap; for detection.
bool looksLikeIssuesLog(llvm::StringRef Text);

} // namespace culprit

#endif // CULPRIT_KB_MARKDOWNREADER_H
