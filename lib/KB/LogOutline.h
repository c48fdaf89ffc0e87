//===- LogOutline.h - What stands over and between entries ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Of a log that is being read: the headings above the place that is read, and
/// the text that belonged to no entry.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_KB_LOGOUTLINE_H
#define CULPRIT_KB_LOGOUTLINE_H

#include "KB/EntryBuilder.h"
#include <array>
#include <string>

namespace culprit {

/// A heading that may be the title of an entry or stand over several.
struct LogHeading {
  std::string Title;
  unsigned Line = 0; ///< 0 when there is no heading.
  int Level = 0;
};

/// The last heading of each level that is not closed.
class LogHeadings {
public:
  void set(int Level, std::string Title, unsigned Line) {
    for (int L = Level; L <= 6; ++L)
      Above[static_cast<size_t>(L)] = LogHeading();
    Above[static_cast<size_t>(Level)] = {std::move(Title), Line, Level};
  }
  /// The heading closest above one of \p Level; 7 for text. Null without one.
  const LogHeading *above(int Level) const {
    for (int L = std::min(Level, 7) - 1; L >= 1; --L)
      if (Above[static_cast<size_t>(L)].Line)
        return &Above[static_cast<size_t>(L)];
    return nullptr;
  }
  const LogHeading &at(int Level) const {
    return Above[static_cast<size_t>(Level)];
  }

private:
  std::array<LogHeading, 7> Above;
};

/// The lines since the last entry or heading that belong to no entry.
class OutsideText {
public:
  /// Adds a block. Prose above the first entry is an introduction.
  void add(unsigned First, unsigned Last, bool IsProse, bool IsFirst) {
    if (!From) {
      From = First;
      IsIntroduction = IsFirst;
    }
    IsIntroduction &= IsProse;
    To = Last;
  }
  unsigned first() const { return From; }
  /// Gives the lines from \p Line on to an entry.
  void cut(unsigned Line) { To = std::min(To, Line - 1); }
  void clear() { From = 0; }
  /// Tells what was skipped.
  void tell(EntryBuilder &B) {
    if (From && From <= To && !IsIntroduction)
      B.remark(Severity::Note, From,
               "text outside of any entry, to line " + llvm::Twine(To) +
                   ", skipped",
               "an entry is '### [FIXED] title' followed by '**Symptom**: ...'");
    clear();
  }

private:
  unsigned From = 0;
  unsigned To = 0;
  bool IsIntroduction = false;
};

} // namespace culprit

#endif // CULPRIT_KB_LOGOUTLINE_H
