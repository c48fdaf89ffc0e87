//===- Expression.h - Column expressions ------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// The little language of `where("dur >= ? and kind == 'kernel'", x)`: parsed
/// once, checked against a table's columns, evaluated a column at a time.
///
///   or, and, not          three-valued: a comparison with null is not true,
///                         nor is its `not`
///   == != < <= > >=       numbers with numbers, text with text, == and !=
///                         conditions with conditions; they do not chain
///   is null, is not null
///   + - * /               numbers; `/` gives a double
///   match(col, 'glob*')   linear glob; `|` separates alternatives
///   contains(col, 'text') substring
///   finite(x)             neither null, NaN nor infinite
///   abs(x), -x
///   product(list)         of the numbers of a list: blocks of a grid
///   42, 2.5, 1e6, true, false, ? (the next argument)
///   'text', "text"        a doubled quote stands for itself
///   name, run.name, `any name at all`    a column
///
/// From what binds least to what binds most: or, and, not, the comparisons
/// and `is null`, + and -, * and /, the sign. NaN compares as in C: equal to
/// nothing. A column of lists can only be tested for null or multiplied.
///
/// Evaluation in integers stays exact: `start + dur > ?` is int64 arithmetic,
/// wraps on overflow, and compares with a whole constant such as 1e6 exactly.
/// A simple filter takes 1.5 to 3 ns a row.
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
