//===- Print.h - Rows as text, CSV and JSON ---------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Rows are printed as they come, in bounded memory. Numbers are printed with
/// the fewest digits that read back as the same number.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_QUERY_PRINT_H
#define CULPRIT_QUERY_PRINT_H

#include "Query/CaseQuery.h"
#include "llvm/Support/raw_ostream.h"

namespace culprit {

/// All give the number of rows printed.

/// An aligned table; "-" is NULL. Widths are those of the first 1,000 rows.
/// Cells but those of the last column are cut at 60 characters.
llvm::Expected<size_t> printRowsAsText(llvm::raw_ostream &OS, QueryRows &Rows);
/// RFC 4180 with a header line; NULL is nothing, the empty text is "".
llvm::Expected<size_t> printRowsAsCsv(llvm::raw_ostream &OS, QueryRows &Rows);
/// {"schema":1,"columns":[...],"rows":[[...],...]}
llvm::Expected<size_t> printRowsAsJson(llvm::raw_ostream &OS, QueryRows &Rows);

} // namespace culprit

#endif // CULPRIT_QUERY_PRINT_H
