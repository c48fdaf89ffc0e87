//===- ServingText.h - Settings and texts in servers' lines -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// What vLLM and TGI print of a request is the representation of an object:
/// lists of settings, Python's quoted texts, lists of token ids.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_SERVINGTEXT_H
#define CULPRIT_READERS_SERVINGTEXT_H

#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <optional>
#include <string>

namespace culprit {

/// The number behind \p Key in vLLM's and TGI's lists of settings, as in
/// temperature=0.7 and "temperature: Some(0.7)".
std::optional<double> setting(llvm::StringRef Text, llvm::StringRef Key);

/// Likewise of integers, which may have more digits than a double.
std::optional<int64_t> integerSetting(llvm::StringRef Text,
                                      llvm::StringRef Key);

/// Elements of the list of numbers behind \p Key; none where it is None.
std::optional<int64_t> countOf(llvm::StringRef Text, llvm::StringRef Key);

/// The id in front of the first of \p Stops.
llvm::StringRef idBefore(llvm::StringRef Text, llvm::StringRef Stops);

/// Reads Python's repr of a text or None behind \p Key; \p Text goes on behind
/// it. None also where it breaks off.
std::optional<std::string> quotedAfter(llvm::StringRef &Text,
                                       llvm::StringRef Key);

} // namespace culprit

#endif // CULPRIT_READERS_SERVINGTEXT_H
