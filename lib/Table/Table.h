//===- Table.h - A view of columns ------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// The one data structure of culprit. A Table is an immutable, cheap-to-copy
/// view: named columns, each read through a row index. Filtering, sorting and
/// joining make new row indexes and copy no data; columns that came from the
/// same place share an index, so a filter over 20 columns composes one index
/// of 4 bytes a row. All verbs are const and may run on several threads.
///
/// Provenance: a row of a case table keeps its number in that table through
/// every verb, as the table's *origin*. Evidence prints it.
///
/// Row order: verbs keep the order of their input unless they say otherwise.
/// Sorting is stable; strings sort by text, nulls last.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_TABLE_TABLE_H
#define CULPRIT_TABLE_TABLE_H

#include "Table/Column.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"
#include <memory>
#include <string>
#include <vector>

namespace culprit {

using RowIndex = std::vector<uint32_t>;

/// Where a column's values come from: the data and the rows to read.
/// A null \p Rows means every row in order.
struct ColumnView {
  std::string Name;
  ColumnRef Data;
  std::shared_ptr<const RowIndex> Rows;

  size_t row(size_t I) const { return Rows ? (*Rows)[I] : I; }
  ColumnType type() const { return Data->type(); }

  int64_t getInt(size_t I) const { return Data->ints()[row(I)]; }
  double getDouble(size_t I) const { return Data->doubles()[row(I)]; }
  StringId getString(size_t I) const { return Data->strings()[row(I)]; }
  bool isNull(size_t I) const { return Data->isNull(row(I)); }
  /// Int, Bool or Double as a double; nullDouble() when null.
  double number(size_t I) const;
  /// A column of the values at \p Chosen, nulls where that is NoRow.
  ColumnRef taken(llvm::ArrayRef<uint32_t> Chosen) const;
  /// A column of all values in row order: the data itself where possible.
  ColumnRef dense() const;
};

class Table {
public:
  /// An empty table named \p Name with no columns.
  explicit Table(std::string Name = "",
                 std::shared_ptr<StringPool> Pool = nullptr);

  /// A table of \p Columns, all of \p Rows rows. With \p IsOrigin, row numbers
  /// of this table are what evidence cites.
  Table(std::string Name, std::shared_ptr<StringPool> Pool,
        std::vector<std::pair<std::string, ColumnRef>> Columns, size_t Rows,
        bool IsOrigin = false);

  /// As above, of views that already read through an index each.
  Table(std::string Name, std::shared_ptr<StringPool> Pool,
        std::vector<ColumnView> Columns, size_t Rows, bool IsOrigin);

  const std::string &name() const { return Name; }
  size_t rows() const { return NumRows; }
  bool empty() const { return NumRows == 0; }
  const std::shared_ptr<StringPool> &pool() const { return Pool; }

  llvm::ArrayRef<ColumnView> columns() const { return Views; }
  /// The column \p Name or null.
  const ColumnView *find(llvm::StringRef Name) const;
  /// The column \p Name; fails with a did-you-mean and the names there are.
  llvm::Expected<const ColumnView *> column(llvm::StringRef Name) const;
  /// As above, and of type \p Type.
  llvm::Expected<const ColumnView *> column(llvm::StringRef Name,
                                            ColumnType Type) const;

  /// The cell at \p Row of the column \p Column.
  Cell cell(size_t Row, const ColumnView &Column) const {
    return Column.Data->cell(Column.row(Row), *Pool);
  }

  /// The case table whose rows these are; empty for computed rows.
  const std::string &originName() const { return Origin; }
  /// Row number in the origin table of row \p I. Wants an origin.
  size_t originRow(size_t I) const {
    return OriginRows ? (*OriginRows)[I] : I;
  }
  /// Whether the column \p Name still holds what that of \p Of holds in the
  /// origin row of each row. May say no where it does, never yes where not.
  bool keeps(llvm::StringRef Name, const Table &Of) const;

  // Verbs that keep columns ---------------------------------------------//

  /// The rows numbered \p Rows, in that order; repeats are allowed.
  Table take(RowIndex Rows) const;
  /// Rows \p First to \p First + \p Count, clipped to what there is.
  Table slice(size_t First, size_t Count) const;
  /// Only \p Names, in that order.
  llvm::Expected<Table> select(llvm::ArrayRef<std::string> Names) const;
  /// With \p Data as column \p Name, added or in place of one so named.
  Table with(llvm::StringRef Name, ColumnRef Data) const;
  Table renamed(std::string NewName) const;

  struct SortKey {
    std::string Column;
    bool Descending = false;
  };
  llvm::Expected<Table> sort(llvm::ArrayRef<SortKey> Keys) const;
  /// The \p N rows with the largest \p Column, largest first; nulls and NaN
  /// are left out.
  llvm::Expected<Table> top(size_t N, llvm::StringRef Column) const;
  /// One row for each distinct combination of \p Columns: the first.
  llvm::Expected<Table> distinct(llvm::ArrayRef<std::string> Columns) const;
  /// Rows \p N before and after the row with origin row \p OriginRow, with it.
  /// Fails when this table has no such row.
  llvm::Expected<Table> around(size_t OriginRow, size_t N) const;
  /// The rows of this, then those of \p Other, of the columns both have.
  llvm::Expected<Table> concat(const Table &Other) const;

  /// One table for each distinct value of \p Columns, in order of first
  /// appearance; rows whose key is null are left out.
  llvm::Expected<std::vector<Table>>
  group(llvm::ArrayRef<std::string> Columns) const;

  enum class JoinKind { Inner, Left };
  /// Rows of this with the columns of the *first* row of \p Other that agrees
  /// on \p Keys (none for the keys themselves). A column of \p Other whose
  /// name is taken gets \p Suffix. Inner drops rows without a partner; Left
  /// keeps them with nulls. Null keys match nothing.
  llvm::Expected<Table> join(const Table &Other,
                             llvm::ArrayRef<std::string> Keys, JoinKind Kind,
                             llvm::StringRef Suffix = "_right") const;

  /// The values of \p Column as doubles in row order, nulls as nullDouble().
  llvm::Expected<std::vector<double>> numbers(llvm::StringRef Column) const;
  /// The values of an Int column in row order.
  llvm::Expected<std::vector<int64_t>> integers(llvm::StringRef Column) const;

private:
  std::string Name;
  std::shared_ptr<StringPool> Pool;
  llvm::SmallVector<ColumnView, 8> Views;
  size_t NumRows = 0;
  std::string Origin;
  std::shared_ptr<const RowIndex> OriginRows; ///< Null: the identity.
};

} // namespace culprit

#endif // CULPRIT_TABLE_TABLE_H
