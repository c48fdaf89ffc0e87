//===- Expression.h - Column expressions ------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// The little language of `where("dur >= ? and kind == 'kernel'", x)`: parsed
/// once, checked against a table's columns, evaluated a column at a time.
///
///   or, and, not          three-valued: a comparison with null is not true
///   == != < <= > >=       numbers with numbers, strings with strings
///   + - * /               numbers; `/` gives a double
///   match(col, 'glob*')   linear glob; `|` separates alternatives
///   contains(col, 'text') substring
///   is null, is not null
///   finite(x)             neither null, NaN nor infinite
///   abs(x)
///   42, 2.5, 'text', true, false, ? (the next argument)
///
/// Evaluation in integers stays exact: `start + dur > ?` is int64 arithmetic.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_TABLE_EXPRESSION_H
#define CULPRIT_TABLE_EXPRESSION_H

#include "Table/Table.h"
#include <memory>
#include <string>
#include <variant>
#include <vector>

namespace culprit {

/// A value for a `?`.
using Argument = std::variant<int64_t, double, bool, std::string>;

/// The rows of \p T for which \p Expression is true. Errors name the place in
/// the expression: unknown column (did you mean), type clash, syntax, number
/// of arguments.
llvm::Expected<Table> where(const Table &T, llvm::StringRef Expression,
                            llvm::ArrayRef<Argument> Arguments = {});

/// The column that \p Expression computes over the rows of \p T: Int, Double,
/// Bool or String.
llvm::Expected<ColumnRef> compute(const Table &T, llvm::StringRef Expression,
                                  llvm::ArrayRef<Argument> Arguments = {});

/// The rows of \p T whose columns equal the given values; what
/// `where{name = "loss"}` calls.
llvm::Expected<Table>
whereEqual(const Table &T,
           llvm::ArrayRef<std::pair<std::string, Argument>> Equal);

} // namespace culprit

#endif // CULPRIT_TABLE_EXPRESSION_H
