//===- LuaTokens.h - Words of Lua -------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Cuts Lua 5.4 into words, without comments. Knows no grammar: what does not
/// parse is Lua's to tell.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_AUTHOR_LUATOKENS_H
#define CULPRIT_AUTHOR_LUATOKENS_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <string>
#include <vector>

namespace culprit {

struct LuaToken {
  enum KindTy : uint8_t { End, Name, Keyword, Text, Number, Symbol } Kind = End;
  llvm::StringRef Source; ///< As it is written, with the quotes of a Text.
  std::string Value;      ///< Of a Text: what it stands for.
  unsigned Line = 1;      ///< Where it begins.

  bool is(llvm::StringRef Word) const {
    return (Kind == Symbol || Kind == Keyword) && Source == Word;
  }
  bool isName(llvm::StringRef Word) const {
    return Kind == Name && Source == Word;
  }
};

/// How many End tokens follow the last one of a file.
inline constexpr size_t LookAhead = 4;

/// The tokens of \p Source, which they refer to, and Ends. A text without its
/// closing quote ends with its line.
std::vector<LuaToken> scanLua(llvm::StringRef Source);

/// The place in \p Tokens of the bracket that closes the one at \p Open; that
/// of the last End where none does.
size_t closingBracket(llvm::ArrayRef<LuaToken> Tokens, size_t Open);

} // namespace culprit

#endif // CULPRIT_AUTHOR_LUATOKENS_H
