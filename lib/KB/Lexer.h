//===- Lexer.h - Words of complaints and logs -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Cuts text into words and leaves out what changes from run to run: times,
/// addresses, process ids, ranks, shapes, directories, hashes.
///
///   [rank3]:[W1120 10:04:11.2 ProcessGroupNCCL.cpp:1250] Timeout(ms)=1800000
///   -> rank  w1120  ProcessGroupNCCL.cpp  Timeout  ms  1800000
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_KB_LEXER_H
#define CULPRIT_KB_LEXER_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Allocator.h"
#include <string>
#include <vector>

namespace culprit {

struct Word {
  enum class Kind {
    Name,     ///< A word or identifier, in its own case.
    Number,   ///< Without thousands separators; a sign only when negative.
    Han,      ///< A run of Chinese, Japanese or Korean characters.
    Repeated, ///< `!!!!`: one character again and again.
  };
  Kind K = Kind::Name;
  std::string Text;
  unsigned Line = 0;   ///< From 0.
  unsigned Begin = 0;  ///< Offset of the first byte.
  bool Joined = false; ///< Only a dash stands between this and the one before.
  bool NewClause = false; ///< Punctuation that ends a clause stands before.
};

/// Whether \p C stands in names: a letter or digit of ASCII, or `_`.
bool isNameChar(char C);

/// The words of \p Text in order. Any bytes are accepted.
std::vector<Word> lex(llvm::StringRef Text);

/// A Word whose text stands in what was lexed, or in the memory given.
struct WordView {
  Word::Kind K;
  llvm::StringRef Text;
  unsigned Line;
  unsigned Begin;
  bool Joined;
  bool NewClause;
};

/// Appends the same words to \p Out; a text that is not written so in \p Text
/// is made in \p Memory.
void lex(llvm::StringRef Text, std::vector<WordView> &Out,
         llvm::BumpPtrAllocator &Memory);

} // namespace culprit

#endif // CULPRIT_KB_LEXER_H
