//===- Hints.h - What SQLite complains about, with a remedy -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// SQLite names the thing; people want the place and the name they meant.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_QUERY_HINTS_H
#define CULPRIT_QUERY_HINTS_H

#include "Support/Error.h"
#include "llvm/ADT/StringRef.h"

namespace culprit {

/// The failure for SQLite's \p Message about byte \p Offset of \p Sql; a
/// negative offset is none.
llvm::Error describeSqlError(llvm::StringRef Sql, llvm::StringRef Message,
                             int Offset);

} // namespace culprit

#endif // CULPRIT_QUERY_HINTS_H
