//===- EntryBuilder.h - Entries from labelled text --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Puts entries together from headings, labels and text that come in the order
/// of a file. Knows nothing of markdown.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_KB_ENTRYBUILDER_H
#define CULPRIT_KB_ENTRYBUILDER_H

#include "KB/MarkdownReader.h"
#include "KB/Sections.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/Twine.h"
#include <array>

namespace culprit {

class EntryBuilder {
public:
  EntryBuilder(llvm::StringRef File, MarkdownLog &Out);

  bool hasEntry() const { return HasEntry; }
  /// Whether the open entry has a section.
  bool hasSection() const { return HasSection; }
  /// Whether the open entry has told its section \p S.
  bool has(Section S) const { return HasEntry && Seen[unsigned(S)]; }
  /// Whether text goes to a section that was understood.
  bool inSection() const { return HasEntry && Where == Target::Known; }
  /// Of the heading of the open entry; 0 for one without a heading.
  int level() const { return Level; }

  /// The date of entries that have none of their own.
  void setDate(llvm::StringRef Heading, unsigned Line);
  void clearDate() { Date.clear(); }

  /// Opens an entry after closing the one before. \p Title may hold a date and
  /// a status.
  void open(llvm::StringRef Title, llvm::StringRef Status, int Level,
            unsigned Line);
  /// Opens an entry named after the file.
  void openUntitled(unsigned Line) { open(Stem, "", 0, Line); }
  /// Directs the text that follows to section \p S, or to one with a label that
  /// no section has. Such a label is told unless people often use it.
  void section(Section S, unsigned Line);
  void other(llvm::StringRef Label, unsigned Line);
  /// Notes that an item of the open section stands on \p Line.
  void item(unsigned Line) {
    if (inSection() && Current == Section::Prevention)
      Lines.Items.push_back(Line);
  }
  /// Drops the open entry as nothing but a heading over others.
  void abandon();
  /// Hands over the open entry.
  void close();

  void remark(Severity Level, unsigned Line, const llvm::Twine &What,
              const llvm::Twine &Hint = "");

  /// The text of the open section so far.
  std::string Text;

private:
  enum class Target { None, Known, Other };

  void direct(Target T, unsigned Line);
  void flush();
  void addOther();
  /// Takes what stands in for a missing Symptom.
  void fillSymptom();
  std::string uniqueId(llvm::StringRef Title);
  std::string dateOf(llvm::StringRef Text, unsigned Line);

  llvm::StringRef File;
  std::string Stem;
  MarkdownLog &Out;
  llvm::StringSet<> Ids;
  llvm::StringMap<unsigned> Counts; ///< Of ids that got a number.
  std::string Date;

  Entry E;
  EntryLines Lines;
  bool HasEntry = false;
  bool HasSection = false;
  std::array<bool, NumSections> Seen = {};
  int Level = 0;
  Target Where = Target::None;
  Section Current = Section::Symptom;
  std::string OtherLabel;
  unsigned SectionLine = 0;
};

} // namespace culprit

#endif // CULPRIT_KB_ENTRYBUILDER_H
