//===- AddEntryStyle.h - How a log is written -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// What an entry has to look like to fit into a log, and where it belongs.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_KB_ADDENTRYSTYLE_H
#define CULPRIT_KB_ADDENTRYSTYLE_H

#include "llvm/ADT/StringRef.h"
#include <string>
#include <vector>

namespace culprit {

/// How the label of a section is written.
enum class LabelForm {
  ColonAfter,  ///< `**Symptom**: text`
  ColonInside, ///< `**Symptom:** text`
  Plain,       ///< `Symptom: text`
  Heading,     ///< `#### Symptom`
};

/// The form of entries. The default is the one culprit's own logs have.
struct LogStyle {
  bool Crlf = false;
  unsigned EntryLevel = 3;
  /// The heading of an entry with {s} for `[STATUS]`, {d} for the date and {t}
  /// for the title; without {d} dates are headings of their own, or nothing.
  std::string Title = "{s} {t}";
  LabelForm Labels = LabelForm::ColonAfter;
  unsigned LabelLevel = 4;   ///< Of LabelForm::Heading.
  bool LabelsAreItems = false; ///< `- **Symptom**: text`
  bool TextBelow = false;    ///< Text starts on the line after its label.
  bool BlankLines = true;    ///< Between sections.
  bool BlankAfterTitle = true;
  char Bullet = '-';
  bool Rules = false; ///< `---` between entries.
  bool DateHeadings = true;
  unsigned DateLevel = 2;
  std::string DateHeading = "{d}";
  bool NewestFirst = false;
};

/// A heading of a log.
struct FormHeading {
  unsigned Level = 1;
  size_t Begin = 0; ///< Offset of its first line.
  size_t End = 0;   ///< Offset behind its last line.
  unsigned Line = 1;
  std::string Text; ///< As written, without the number signs.
  std::string Date; ///< YYYY-MM-DD in it, or empty.
  bool IsEntry = false;
};

/// The headings of a log in order, and its form.
struct LogForm {
  std::vector<FormHeading> Headings;
  LogStyle Style;
};

/// Reads \p Text of file \p File. What a log does not show, as an empty one
/// shows nothing, is as in a default LogStyle.
LogForm readLogForm(llvm::StringRef Text, llvm::StringRef File);

/// Where an entry goes.
struct EntryPlace {
  size_t Offset = 0;
  bool NeedsDate = false;  ///< A heading with the date goes before it.
  bool BeforeEntry = false; ///< An entry or a date follows.
};

/// The place of an entry of \p Date in \p Text: under the heading of its date,
/// among the dates in their order, or at the end of the entries that the log
/// adds to.
EntryPlace placeForEntry(const LogForm &Log, llvm::StringRef Text,
                         llvm::StringRef Date);

} // namespace culprit

#endif // CULPRIT_KB_ADDENTRYSTYLE_H
