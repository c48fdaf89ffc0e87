//===- WordKeys.h - The words that mean something ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Texts as numbers of the stems of their words, to compare many of them.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_KB_WORDKEYS_H
#define CULPRIT_KB_WORDKEYS_H

#include "KB/Lexer.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <string>
#include <vector>

namespace culprit {

/// Numbers stems in the order met and remembers what a word is.
class WordKeys {
public:
  /// With \p OnlyNames numbers, characters of Chinese and `!!!!` are left out.
  explicit WordKeys(bool OnlyNames) : OnlyNames(OnlyNames) {}

  /// Appends the keys of the words of \p Text in order. Words that are too
  /// common or of one letter have none.
  void add(llvm::StringRef Text, std::vector<uint32_t> &Out);

  /// The distinct keys of \p Text, sorted.
  std::vector<uint32_t> distinct(llvm::StringRef Text);

  size_t size() const { return Names.size(); }
  /// How the first word of \p Key was spelled, in lower case.
  const std::string &name(uint32_t Key) const { return Names[Key]; }

private:
  static constexpr uint32_t None = ~uint32_t(0);
  uint32_t key(const WordView &W);

  bool OnlyNames;
  llvm::StringMap<uint32_t> Words[4]; ///< By kind.
  llvm::StringMap<uint32_t> Stems;
  std::vector<std::string> Names;
  std::vector<WordView> Views;
  llvm::BumpPtrAllocator Memory;
};

/// How many keys two sorted lists share.
size_t sharedKeys(llvm::ArrayRef<uint32_t> A, llvm::ArrayRef<uint32_t> B);

} // namespace culprit

#endif // CULPRIT_KB_WORDKEYS_H
