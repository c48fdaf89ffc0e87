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
///   x in (1, ?), x not in ('a', 'b')
///                         equal to one of some constants
///   + - * / %             numbers; `/` gives a double, `%` the remainder with
///                         the sign of the divisor, null for integers % 0
///   match(col, 'glob*')   linear glob; `|` separates alternatives
///   contains(col, 'text') substring; also starts_with, ends_with
///   length(text)          in bytes
///   finite(x)             neither null, NaN nor infinite
///   abs(x), -x
///   floor(x), ceil(x), round(x)
///                         integers stay; halves are rounded away from 0
///   sqrt(x), log(x), exp(x)
///                         doubles; null for the root of what is negative and
///                         the logarithm of what is not positive
///   min(a, b...), max(a, b...)
///                         null where one is null, NaN where one is NaN
///   if(condition, a, b)   b where the condition is not true; of one type
///   coalesce(a, b...)     the first that is not null; of one type
///   product(list)         of the numbers of a list: blocks of a grid
///   42, 2.5, 1e6, true, false, ? (the next argument)
///   'text', "text"        a doubled quote stands for itself
///   name, run.name, `any name at all`    a column
///
/// From what binds least to what binds most: or, and, not, the comparisons,
/// `is null` and `in`, + and -, * / and %, the sign. NaN compares as in C: equal to
/// nothing. A column of lists can only be tested for null or multiplied.
///
/// Evaluation in integers stays exact: `start + dur > ?` is int64 arithmetic,
/// wraps on overflow, and compares with a whole constant such as 1e6 exactly.
/// A simple filter takes 1.5 to 3 ns a row. An expression is parsed once a
/// thread and kept; to check it against the types of a table and bind its `?`
/// takes less than a microsecond, so that it may be asked of many groups.
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

/// A column and the values it may have; none is a condition that never holds.
struct ColumnValues {
  std::string Column;
  std::vector<Argument> Values;
};

/// The rows of \p T whose columns all have one of the given values; what
/// `where{name = "loss", rank = {0, 1}}` calls. No text is parsed.
llvm::Expected<Table> whereValues(const Table &T,
                                  llvm::ArrayRef<ColumnValues> Wanted);

/// The same for one value each.
llvm::Expected<Table>
whereEqual(const Table &T,
           llvm::ArrayRef<std::pair<std::string, Argument>> Equal);

} // namespace culprit

#endif // CULPRIT_TABLE_EXPRESSION_H
