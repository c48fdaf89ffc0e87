//===- LockScanner.h - Words of a golden lock -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// The part of YAML that a golden lock is written in, word by word: plain and
/// quoted texts, lists and mappings in brackets, comments, indentation. No
/// recursion, so no text is too deep.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_GOLDEN_LOCKSCANNER_H
#define CULPRIT_GOLDEN_LOCKSCANNER_H

#include "Golden/Item.h"

namespace culprit {

/// A place in the text. What returns false has called fail(), of which the
/// first counts.
class LockScanner {
protected:
  LockScanner(llvm::StringRef Text, llvm::StringRef Path)
      : Text(Text), Path(Path) {
    this->Text.consume_front("\xEF\xBB\xBF");
  }

  /// A place to come back to.
  struct Mark {
    size_t At, Indent;
    unsigned Line, LastLine;
  };
  Mark mark() const { return {At, Indent, Line, LastLine}; }
  void backTo(const Mark &M) {
    At = M.At, Indent = M.Indent, Line = M.Line, LastLine = M.LastLine;
  }

  char peek(size_t Ahead = 0) const {
    return At + Ahead < Text.size() ? Text[At + Ahead] : '\0';
  }
  bool atEnd() const { return At >= Text.size(); }
  bool atLineEnd() const {
    return atEnd() || peek() == '\n' || (peek() == '\r' && peek(1) == '\n');
  }
  bool atListMark() const {
    return peek() == '-' &&
           (peek(1) == ' ' || peek(1) == '\n' || peek(1) == '\r');
  }
  void advance() {
    Line += peek() == '\n';
    ++At;
  }
  void skipSpaces() {
    while (peek() == ' ')
      ++At;
  }
  /// To the next line; nothing but a comment may be left on this one.
  bool endLine();
  /// To the next line with content, which begins at column Indent. False at
  /// the end of the text too.
  bool nextContent();

  bool fail(const llvm::Twine &Message, const llvm::Twine &Hint = "");

  /// A key and the colon and spaces behind it.
  bool key(std::string &Out);
  /// A word to the end of its line, or of its lines: those that stand deeper
  /// than \p Column.
  bool word(std::string &Out, size_t Column);
  /// A list or mapping in brackets, and the end of its line.
  bool flow(GoldenValue &Out);

  llvm::StringRef Text, Path;
  size_t At = 0, Indent = 0;
  unsigned Line = 1, LastLine = 1; ///< LastLine: the last with content.
  std::optional<llvm::Error> Problem;

private:
  bool quoted(std::string &Out);
  bool escape(std::string &Out);
  void fold(std::string &Out, bool Escaped);
  bool plain(std::string &Out, size_t Column);
  bool flowWord(std::string &Out);
  void skipFlowBlanks();
};

} // namespace culprit

#endif // CULPRIT_GOLDEN_LOCKSCANNER_H
