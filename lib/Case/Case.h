//===- Case.h - The evidence of one diagnosis -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// A Case holds every table of Tables.def over all inputs, aligned in time,
/// with the provenance of each row. Immutable once built and safe to read
/// from several threads: a derived table is computed when it is first asked
/// for, once, whoever asks.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_CASE_CASE_H
#define CULPRIT_CASE_CASE_H

#include "Case/FileClock.h"
#include "Case/Schema.h"
#include "Case/Source.h"
#include "Table/Table.h"
#include <memory>
#include <string>
#include <vector>

namespace culprit {

class ProfileIndex;

/// What is known of an input after reading.
struct InputSummary {
  std::string Path;
  std::string Format; ///< Empty: no reader knows this file.
  std::string Run;
  std::vector<std::pair<TableId, size_t>> Rows; ///< Non-empty tables, in order.
  std::vector<Diagnostic> Remarks;
  bool Failed = false; ///< Nothing could be read; Remarks says why.
  FileClock Clock;     ///< From case time to that of the file.
};

/// A row of a file: what evidence points at.
struct Citation {
  std::string Path;
  int64_t Place = NullInt; ///< Line, event number or row id; see the table.
};

class Case {
public:
  Case();
  Case(Case &&);
  Case &operator=(Case &&);
  ~Case();

  const std::shared_ptr<StringPool> &pool() const { return Pool; }
  llvm::ArrayRef<InputSummary> inputs() const { return Inputs; }

  /// The table \p Id: all its columns, those nobody recorded as nulls.
  const Table &table(TableId Id) const {
    return isDerived(Id) ? derived(Id).Rows : Tables[static_cast<unsigned>(Id)];
  }
  /// Whether \p Id has rows.
  bool has(TableId Id) const { return !table(Id).empty(); }
  /// Whether some row of \p Id has a value in column \p Column.
  bool has(TableId Id, unsigned Column) const {
    return isDerived(Id) ? derived(Id).Known[Column]
                         : Known[static_cast<unsigned>(Id)][Column];
  }

  /// Work by device and launch; made when first asked for.
  const ProfileIndex &profile() const;

  /// Where row \p Row of the recorded table \p Id came from.
  Citation cite(TableId Id, size_t Row) const;

  /// The data behind row \p Row of `tensors`.
  const TensorView &tensor(size_t Row) const { return Tensors[Row]; }

  /// Unix time in ns of case time 0, where any source knew it.
  std::optional<int64_t> epochNs() const { return EpochNs; }

  /// Heap bytes of all recorded columns.
  size_t bytes() const;

private:
  friend class CaseBuilder;

  struct DerivedTable {
    Table Rows;
    std::vector<bool> Known; ///< By column: whether some row has a value.
  };
  struct DerivedTables;

  static bool isDerived(TableId Id) {
    return schema(Id).Kind == TableSchema::Origin::Derived;
  }
  const DerivedTable &derived(TableId Id) const;

  std::shared_ptr<StringPool> Pool;
  std::vector<InputSummary> Inputs;
  std::vector<Table> Tables; ///< Those of derived tables stay empty.
  std::vector<std::vector<bool>> Known;
  /// For each table, (first row, input) in row order.
  std::vector<std::vector<std::pair<size_t, size_t>>> Segments;
  std::vector<TensorView> Tensors;
  std::vector<std::shared_ptr<void>> Owners;
  std::optional<int64_t> EpochNs;
  std::unique_ptr<DerivedTables> Lazy;
};

/// Puts sources together. Not thread-safe; the sources themselves may be
/// filled in parallel before they are added.
class CaseBuilder {
public:
  CaseBuilder();

  StringPool &pool() { return *Pool; }

  /// Adds \p S after the sources added before; with \p Error, as an input
  /// that could not be read, whatever rows it has being kept.
  void add(std::unique_ptr<Source> S,
           llvm::Error Error = llvm::Error::success());

  /// Aligns, joins and derives. Uses up the builder.
  Case build();

private:
  std::shared_ptr<StringPool> Pool;
  std::vector<std::unique_ptr<Source>> Sources;
  std::vector<bool> Failed;
};

} // namespace culprit

#endif // CULPRIT_CASE_CASE_H
