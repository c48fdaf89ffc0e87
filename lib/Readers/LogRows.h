//===- LogRows.h - Rows of lines and of their templates ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Fills `log_lines` and `log_templates` of one log. Every line is counted in
/// its template; of a large log only the first lines of each template have a
/// row of their own, so that memory does not grow with the file.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_LOGROWS_H
#define CULPRIT_READERS_LOGROWS_H

#include "Case/Source.h"
#include "Readers/LogLine.h"
#include "llvm/ADT/StringMap.h"
#include <vector>

namespace culprit {

/// Not thread-safe.
class LogRows {
public:
  LogRows(Source &S, bool Large);

  /// Adds \p L and returns the number of its template; None where there are
  /// too many templates.
  unsigned add(const LogLine &L) {
    makeTemplate(L.Text, Form);
    return addWith(L);
  }
  /// Likewise of a line of free text behind \p Beginning, which is all of the
  /// template.
  unsigned addFreeText(const LogLine &L, llvm::StringRef Beginning) {
    makeTemplate(Beginning, Form);
    Form += "<*>";
    return addWith(L);
  }
  /// \p Lines more lines of template \p T, up to line \p Last, whose text as
  /// it stands in the file is \p Raw.
  void repeat(unsigned T, uint64_t Lines, int64_t Last, llvm::StringRef Raw);
  /// A line of template \p T that is only counted names \p Rank.
  void ofRank(unsigned T, std::optional<int64_t> Rank) {
    if (T != None)
      Templates[T].ManyRanks |= (Rank ? Rank : FileRank) != Templates[T].Rank;
  }
  /// Writes the templates.
  void finish();

  static constexpr unsigned None = ~0u;
  /// Templates of a log at most; what is beyond is free text.
  static constexpr size_t MaxTemplates = 1 << 15;
  /// Rows of one template in a large log, and of all together.
  static constexpr unsigned RowsOfTemplate = 20, RowsOfSevere = 200;
  static constexpr size_t MaxRows = 1 << 18;
  /// Bytes of a template and of a line in a large log, and of all its lines
  /// together, beyond which lines are kept to their begin.
  static constexpr size_t MaxTemplate = 4 << 10, MaxLine = 64 << 10;
  static constexpr size_t TextBytes = 256 << 20, Begin = 256;

  /// More was read than a log of few lines has.
  void becomeLarge() { Large = true; }

private:
  struct Template {
    StringId Text = NullString, Example = NullString;
    llvm::StringRef Level;
    std::optional<int64_t> Rank;
    bool ManyRanks = false;
    uint64_t Lines = 0;
    int64_t First = 0, Last = 0;
    std::optional<double> FirstTime, LastTime;
    unsigned Rows = 0;
  };
  unsigned addWith(const LogLine &L);
  StringId textOf(const LogLine &L);
  void addRow(const LogLine &L, StringId Text, StringId Form);

  Source &S;
  bool Large;
  StringId File, Run, Variant;
  std::optional<int64_t> FileRank;
  std::string Form;
  std::vector<Template> Templates;
  llvm::StringMap<unsigned> ByText;
  size_t Rows = 0, Kept = 0; ///< Kept: bytes of lines.
  uint64_t Untold = 0; ///< Lines without a template of their own.
};

} // namespace culprit

#endif // CULPRIT_READERS_LOGROWS_H
