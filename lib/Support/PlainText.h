//===- PlainText.h - Texts of others on a terminal --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Names and messages come from files, which may hold anything: what is printed
/// in columns must not move the cursor, and takes columns, not bytes.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_SUPPORT_PLAINTEXT_H
#define CULPRIT_SUPPORT_PLAINTEXT_H

#include "llvm/ADT/StringRef.h"
#include <string>

namespace culprit {

/// \p Text with control characters as \xNN, line breaks and tabs as \n and \t
/// unless \p KeepBreaks, and what is no UTF-8 as U+FFFD.
std::string printable(llvm::StringRef Text, bool KeepBreaks = false);

/// Columns of a terminal that \p Text takes; its bytes where it has control
/// characters or is no UTF-8.
size_t widthOf(llvm::StringRef Text);

} // namespace culprit

#endif // CULPRIT_SUPPORT_PLAINTEXT_H
