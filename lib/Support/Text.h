//===- Text.h - What runs wrote, made fit for reports -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Names and figures of a run in output: text may be no UTF-8 and of any
/// length, and JSON has no NaN.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_SUPPORT_TEXT_H
#define CULPRIT_SUPPORT_TEXT_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/JSON.h"
#include <string>

namespace culprit {

/// The beginning of \p Text, at most \p Most bytes, without half of a character
/// of UTF-8 at its end.
llvm::StringRef wholeCharacters(llvm::StringRef Text, size_t Most);

/// \p Text in at most \p Most bytes, at least 4: what is longer is cut before
/// a character of UTF-8 and ends in "...".
std::string shortened(llvm::StringRef Text, size_t Most);

/// \p Text as a string; bytes that are no UTF-8 become U+FFFD.
llvm::json::Value jsonText(llvm::StringRef Text);

/// A number, or one of the strings "nan", "inf" and "-inf".
llvm::json::Value jsonNumber(double Value);

} // namespace culprit

#endif // CULPRIT_SUPPORT_TEXT_H
