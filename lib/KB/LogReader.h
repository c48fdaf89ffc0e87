//===- LogReader.h - Sorts markdown into entries ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// The walk over the tree of a markdown document. Headings and labels are
/// handled in LogReader.cpp, the text of blocks in LogBlocks.cpp.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_KB_LOGREADER_H
#define CULPRIT_KB_LOGREADER_H

#include "KB/EntryBuilder.h"
#include "KB/LabelText.h"
#include "KB/LogOutline.h"
#include "KB/LogText.h"
#include <optional>
#include <string>

namespace culprit {

struct MarkdownNode;

/// Walks the blocks of a document in order and sorts their text into the
/// sections of entries.
class LogReader {
public:
  LogReader(llvm::StringRef File, MarkdownLog &Out) : B(File, Out), Out(Out) {}

  void frontMatter(const FrontMatter &F);

  /// Takes the next block of the document. \p LinesBefore stand before the text
  /// that it was parsed from.
  void block(const MarkdownNode &N, unsigned LinesBefore);

  void finish();

private:
  unsigned line(const MarkdownNode *N) const;

  void heading(const MarkdownNode *N);

  /// A section outside an entry: the heading above it is the title, and what
  /// stands between them is the entry's.
  void openUntitled(int LabelLevel, unsigned Line);

  void outside(const MarkdownNode *N);

  void tellOutside();

  // The paragraph before a label may be the title of an entry that has no
  // heading. Lead is where it begins in B.Text.
  void noLead() { Lead = std::string::npos; }

  LabelContext context(bool InItem) const;

  /// Whether a Symptom here is the first of the next entry, which has no
  /// heading of its own.
  bool isNext(Section S) const;

  /// Opens an entry at a label, named by the paragraph before it if there is
  /// one.
  void openAtLabel(unsigned Line);

  /// Opens the section that \p L names. False when it stays text because no
  /// entry is open and it does not begin one.
  bool label(const LabelText &L, unsigned Line);

  void paragraph(const MarkdownNode *P, bool InItem);

  /// Reads a paragraph that is a table of issues.
  bool table(const MarkdownNode *P);

  /// Appends \p Text with its lines after the first indented.
  void append(llvm::StringRef Text, llvm::StringRef Indent);

  static const MarkdownNode *firstItem(const MarkdownNode *List);

  /// The section label that the block \p N begins, in a list.
  std::optional<LabelText> itemLabel(const MarkdownNode *N, bool Plain) const;

  /// Whether \p Item is a whole entry: a title, and sections below it.
  bool isEntry(const MarkdownNode *Item) const;

  void item(const MarkdownNode *Item, llvm::StringRef Indent, unsigned Depth);

  void list(const MarkdownNode *List, llvm::StringRef Indent, unsigned Depth);

  void block(const MarkdownNode *N, const std::string &Indent, unsigned Depth,
             bool InItem = false);

  EntryBuilder B;
  MarkdownLog &Out;
  unsigned Base = 0; ///< Lines before the piece that is read.
  LogHeadings Above;

  bool UsesStrong = false;
  bool ItemLabels = false;

  size_t Lead = std::string::npos;
  unsigned LeadLine = 0;
  bool LeadIsBold = false;

  OutsideText Outside;
};

} // namespace culprit

#endif // CULPRIT_KB_LOGREADER_H
