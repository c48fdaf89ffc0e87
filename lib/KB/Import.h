//===- Import.h - Entries from where issues were kept before ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Makes drafts of issue threads and post-mortems. What a thread says of
/// symptom, cause and fix is quoted, never made up; what it does not say is
/// left as a prompt. `kb check` names every draft until somebody has read it.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_KB_IMPORT_H
#define CULPRIT_KB_IMPORT_H

#include "KB/Entry.h"
#include "Support/Error.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <string>
#include <vector>

namespace culprit {

struct Imported {
  /// All with the status DRAFT; their texts are markdown.
  std::vector<Entry> Entries;
  std::vector<Diagnostic> Remarks; ///< What was skipped, and why.
};

/// Reads the issues of \p Json: what `gh issue list --json ...` or the REST
/// interface of GitHub gives, one or several arrays or an issue a line, with
/// comments or without. Pull requests are skipped.
llvm::Expected<Imported> importIssues(llvm::StringRef Json,
                                      llvm::StringRef File);

/// Reads the post-mortem \p Text. An issues log is read as what it is.
Imported importPostMortem(llvm::StringRef Text, llvm::StringRef File);

/// \p Entries as an issues log.
std::string draftLog(llvm::ArrayRef<Entry> Entries);

} // namespace culprit

#endif // CULPRIT_KB_IMPORT_H
