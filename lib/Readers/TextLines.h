//===- TextLines.h - Lines of a text and their numbers ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Small helpers of the text readers.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_TEXTLINES_H
#define CULPRIT_READERS_TEXTLINES_H

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"
#include <cstdint>

namespace culprit {

/// Line numbers, from 1, of ascending offsets. A text that was taken out of a
/// file may begin with another number.
class LineCounter {
public:
  explicit LineCounter(llvm::StringRef Text, int64_t First = 1)
      : Text(Text), Line(First) {}

  int64_t lineOf(size_t Offset) {
    Line += Text.slice(At, Offset).count('\n');
    At = Offset > At ? Offset : At;
    return Line;
  }

private:
  llvm::StringRef Text;
  size_t At = 0;
  int64_t Line;
};

/// \p Text without a byte-order mark of UTF-8.
inline llvm::StringRef withoutMark(llvm::StringRef Text) {
  Text.consume_front("\xEF\xBB\xBF");
  return Text;
}

/// \p Text without the quotes it stands in, where both are of one kind.
inline llvm::StringRef withoutQuotes(llvm::StringRef Text) {
  const bool Quoted = Text.size() >= 2 && (Text[0] == '"' || Text[0] == '\'') &&
                      Text.back() == Text[0];
  return Quoted ? Text.drop_front().drop_back() : Text;
}

/// Whether \p C continues a word or a name.
inline bool isWordChar(char C) { return llvm::isAlnum(C) || C == '_'; }

/// Calls \p Each with every line of \p Text, without its line end, and its
/// number, the first one's being \p Number, until it returns false. Returns the
/// number of the line that comes next. A byte-order mark is left out.
template <typename Fn>
int64_t forEachLine(llvm::StringRef Text, Fn Each, int64_t Number = 1) {
  if (Number == 1)
    Text = withoutMark(Text);
  for (; !Text.empty(); ++Number) {
    size_t End = Text.find('\n');
    llvm::StringRef Line = Text.take_front(End);
    Text = End == llvm::StringRef::npos ? "" : Text.drop_front(End + 1);
    Line.consume_back("\r");
    if (!Each(Line, Number))
      break;
  }
  return Number;
}

/// The complete lines of \p Head, the beginning of a file: without the last
/// one where the file goes on.
inline llvm::StringRef completeLines(llvm::StringRef Head, bool WholeFile) {
  if (WholeFile)
    return Head;
  return Head.take_front(Head.rfind('\n') + 1);
}

} // namespace culprit

#endif // CULPRIT_READERS_TEXTLINES_H
