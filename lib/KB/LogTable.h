//===- LogTable.h - A log kept as a table -----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Some keep an issue a row, with a column for what was seen and one for why.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_KB_LOGTABLE_H
#define CULPRIT_KB_LOGTABLE_H

#include "KB/EntryBuilder.h"

namespace culprit {

/// Reads the rows of \p Text, which begins at \p Line, as entries when its
/// first row names a Symptom and a Root Cause or Fix. False when it does not.
bool readLogTable(llvm::StringRef Text, unsigned Line, EntryBuilder &Out);

} // namespace culprit

#endif // CULPRIT_KB_LOGTABLE_H
