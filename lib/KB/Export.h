//===- Export.h - Entries for other programs --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// `kb export`: entries as JSON, as an issues log in one form however they
/// were written, or as a table.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_KB_EXPORT_H
#define CULPRIT_KB_EXPORT_H

#include "KB/Entry.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/JSON.h"

namespace llvm {
class raw_ostream;
} // namespace llvm

namespace culprit {

/// The contract of `kb export --format json`.
llvm::json::Value exportJson(llvm::ArrayRef<const Entry *> Entries);

/// A log that is read back as the same entries, but for their ids and places.
/// Those of one date that follow each other stand under one heading.
void exportMarkdown(llvm::raw_ostream &OS,
                    llvm::ArrayRef<const Entry *> Entries);

/// One row an entry below a header; tabs, line ends and backslashes in texts
/// are written as \t, \n, \r and \\, items of lists end in \n.
void exportTsv(llvm::raw_ostream &OS, llvm::ArrayRef<const Entry *> Entries);

} // namespace culprit

#endif // CULPRIT_KB_EXPORT_H
