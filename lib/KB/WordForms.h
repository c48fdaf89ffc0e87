//===- WordForms.h - What makes two words the same --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// English and identifiers, as far as a search needs to know them: where a
/// name is cut, which inflections fall together, what is too common to count.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_KB_WORDFORMS_H
#define CULPRIT_KB_WORDFORMS_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include <string>
#include <vector>

namespace culprit {

/// The parts of an identifier of at least two characters: `cudaErrorNoDevice`
/// gives cuda, error, no, device. In lower case. One part is the word itself.
std::vector<std::string> splitIdentifier(llvm::StringRef Name);

/// \p Lower without its inflection, so that `freezes`, `freezing` and
/// `freeze` are one. Not a word, only a key.
std::string stem(llvm::StringRef Lower);

/// Whether \p Lower is too common to tell anything.
bool isStopWord(llvm::StringRef Lower);

/// Whether \p Number tells something alone; those of fewer digits are counts
/// and sizes.
bool isTellingNumber(llvm::StringRef Number);

/// Calls \p Each with the characters of \p Run in overlapping pairs.
void forEachHanPair(llvm::StringRef Run,
                    llvm::function_ref<void(llvm::StringRef)> Each);

} // namespace culprit

#endif // CULPRIT_KB_WORDFORMS_H
