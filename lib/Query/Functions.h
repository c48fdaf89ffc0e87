//===- Functions.h - SQL functions for profiles -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// What SQL lacks for times and spreads. docs/sql.md has an example of each.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_QUERY_FUNCTIONS_H
#define CULPRIT_QUERY_FUNCTIONS_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

struct sqlite3;

namespace culprit {

struct SqlFunction {
  llvm::StringRef Call; ///< "share(part, whole)"
  llvm::StringRef Doc;

  llvm::StringRef name() const { return Call.split('(').first; }
};

/// Those that addFunctions() adds, in the order of the documentation.
llvm::ArrayRef<SqlFunction> sqlFunctions();

/// Adds them to \p D; an SQLite result code.
int addFunctions(sqlite3 *D);

} // namespace culprit

#endif // CULPRIT_QUERY_FUNCTIONS_H
