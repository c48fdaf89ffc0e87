//===- Check.h - Lints an issues log ----------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// `kb check`: an entry is worth its place when it will be found by who has
/// the problem next and when its prevention can be acted on. Errors refuse an
/// entry, warnings ask for a second look. Each names file and line.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_KB_CHECK_H
#define CULPRIT_KB_CHECK_H

#include "KB/Entry.h"
#include "KB/MarkdownReader.h"
#include "KB/Vocabulary.h"
#include "Support/Error.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <string>
#include <vector>

namespace llvm {
class raw_ostream;
} // namespace llvm

namespace culprit {

struct CheckOptions {
  /// Ask every entry for Class, Signals, Confirm and References. Without it
  /// only those with a Class are asked, as they claim to be curated.
  bool Curated = false;
};

struct CheckReport {
  unsigned Files = 0;
  unsigned Entries = 0;
  std::vector<Diagnostic> Diagnostics; ///< By file, then line.

  /// Whether something was refused.
  bool refused() const;
};

/// Checks the markdown files and directories \p Paths together, so that
/// duplicates between files are found. Fails only when a path is unreadable.
llvm::Expected<CheckReport> checkLogs(llvm::ArrayRef<std::string> Paths,
                                      const Vocabulary &V,
                                      const CheckOptions &Options = {});

/// Checks entries that were read before; \p Out gets what was found. Without
/// \p Lines all of an entry is told at its heading.
void checkEntries(llvm::ArrayRef<Entry> Entries, const Vocabulary &V,
                  const CheckOptions &Options, std::vector<Diagnostic> &Out,
                  llvm::ArrayRef<EntryLines> Lines = {});

/// Why \p Item cannot be acted on, or empty when it can: a prevention names
/// something to do and what to do it to.
std::string preventionObjection(llvm::StringRef Item);

/// Why \p Symptom is no observation, or empty when it is: "it does not work"
/// will be found by nobody.
std::string symptomObjection(llvm::StringRef Symptom);

/// Why \p Cause is none, such as "Check logs for details"; empty when it may
/// be one.
std::string causeObjection(llvm::StringRef Cause);

/// Why \p Fix is none, or empty when it is: it names what was changed.
std::string fixObjection(llvm::StringRef Fix);

/// `2 entries in 1 file: 1 error, 0 warnings`. The diagnostics themselves are
/// printed by the tool.
void printCheckSummary(llvm::raw_ostream &OS, const CheckReport &Report);

} // namespace culprit

#endif // CULPRIT_KB_CHECK_H
