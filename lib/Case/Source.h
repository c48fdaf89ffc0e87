//===- Source.h - What a reader makes of one file ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// A reader fills one Source with rows and remarks. Sources of different
/// files are filled on different threads and share the string pool alone;
/// CaseBuilder puts them together in the order of the paths, so the result
/// does not depend on timing.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_CASE_SOURCE_H
#define CULPRIT_CASE_SOURCE_H

#include "Case/Schema.h"
#include "Support/Error.h"
#include "Table/Column.h"
#include "Tensor/Tensor.h"
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace culprit {

/// Rows of one table from one file. Columns nobody sets stay empty and cost
/// nothing; detectors that need them are skipped.
class TableBuilder {
public:
  TableBuilder(TableId Id, StringPool &Pool);

  TableId id() const { return Id; }
  size_t rows() const { return NumRows; }

  /// Makes room for \p Rows rows in every column that will be set.
  void reserve(size_t Rows) { Reserved = Rows; }
  /// Begins the next row; every column of it is null until set.
  void addRow() { ++NumRows; }

  // Set a column of the row begun last, once, with the column's type.
  void set(unsigned Column, int64_t Value) {
    pad(Column).addInt(Value);
  }
  void set(unsigned Column, double Value) { pad(Column).addDouble(Value); }
  void setBool(unsigned Column, bool Value) { pad(Column).addBool(Value); }
  void setId(unsigned Column, StringId Value) {
    pad(Column).addString(Value);
  }
  void set(unsigned Column, llvm::StringRef Value) {
    pad(Column).addString(Strings(Value));
  }
  void setList(unsigned Column, llvm::ArrayRef<int64_t> Value) {
    pad(Column).addList(Value);
  }

  /// The interned id of \p Text, to be kept for setId.
  StringId intern(llvm::StringRef Text) { return Strings(Text); }

  /// Appends the rows of \p Other, a builder of the same table; for readers
  /// that parse pieces of a file in parallel and join them in order.
  void append(const TableBuilder &Other);

  /// Keeps the rows \p Kept alone, in this order; for readers that find only
  /// later that there are too many. Wants no half-set row.
  void keep(llvm::ArrayRef<uint32_t> Kept);
  /// Sets the Int column \p Column, untouched so far, of all rows.
  void fill(unsigned Column, llvm::ArrayRef<int64_t> Values);

  /// Column \p I with every row present. Wants no row to follow.
  Column &finished(unsigned I);
  /// True if some row set column \p I.
  bool touched(unsigned I) const { return Columns[I].size() != 0; }

private:
  Column &pad(unsigned I) {
    Column &C = Columns[I];
    size_t Size = C.size();
    if (Size == 0)
      C.reserve(Reserved);
    if (Size + 1 < NumRows)
      C.padTo(NumRows - 1);
    assert(C.size() + 1 == NumRows && "a column is set once a row");
    return C;
  }

  TableId Id;
  Interner Strings;
  std::vector<Column> Columns;
  size_t NumRows = 0;
  size_t Reserved = 0;
};

/// One tensor of a dump, before its statistics are known. A member that is
/// not known stays empty.
struct TensorRecord {
  std::string Name; ///< As dumped.
  TensorView Data;
  std::optional<int64_t> Step, Rank, Order, Token;
  std::string Layer, Role; ///< Empty: told from Name by splitTensorName().
  std::string Variant;
};

/// What a dump says of a tensor whose values it leaves out. A member that is
/// not known stays empty.
struct TensorSummary {
  std::string Type; ///< As in `tensors`: "float32".
  std::optional<double> Min, Max, Mean, L2;
  /// Sum of magnitudes in double precision; says whether all are finite.
  std::optional<double> L1;
  std::string Hash;
};

/// Everything culprit took from one input file.
class Source {
public:
  Source(std::string Path, StringPool &Pool);
  ~Source();

  const std::string &path() const { return Path; }
  StringPool &pool() { return Pool; }

  /// Name of the format as reports print it: "Kineto trace". Set by the
  /// registry before read(); empty for a file no reader knows.
  std::string Format;
  /// Run the file belongs to; by default its folder. Set before read().
  std::string Run;
  /// Unix time in ns of time 0 of this file's rows, where the file knows it.
  /// Sources with an epoch are aligned by it; the others start together.
  std::optional<int64_t> EpochNs;
  /// What the file itself shows at time 0 of its rows, in ns, and the unit its
  /// times are in; set for formats that people open in a viewer.
  struct OwnTime {
    int64_t BaseNs;
    llvm::StringRef Unit; ///< "us" or "ns"; a literal.
  };
  std::optional<OwnTime> FileTime;
  /// The ranks of this file's rows are those of the job, and another file may
  /// tell more of the same rank: a dump, a log and a trace of rank 3 are of
  /// one process. Otherwise a rank that an earlier file claims is taken for a
  /// default and replaced.
  bool KeepRanks = false;
  /// Whether addTensor() walks through the values for their statistics. A
  /// comparison reads them itself. Set before read().
  bool Summarize = true;
  /// Threads that this may take. Set before read().
  unsigned Threads = 1;

  /// Of a checkpoint that does not tell its step: the epoch that it names, and
  /// the most updates that its optimizer has counted for a parameter.
  std::optional<int64_t> Epoch, Updates;
  /// The number in the file's name is that of the epoch, and no step.
  bool NamedByEpoch = false;

  TableBuilder &table(TableId Id);
  /// The builder of \p Id, or null if no row was ever added.
  TableBuilder *existing(TableId Id);

  /// Adds a row to `tensors`, with statistics, and keeps the data reachable.
  /// Without Summarize there are none, and what is returned is empty.
  TensorStatistics addTensor(TensorRecord Record);
  /// Adds a row for a tensor without data, with what \p Given says. \p Known:
  /// the record has a shape. How many values are NaN or infinite is not told;
  /// 1 stands for some.
  void addTensor(TensorRecord Record, const TensorSummary &Given, bool Known);
  std::vector<TensorRecord> &tensors() { return Tensors; }
  /// Sets the step of all tensors, none of which has one.
  void setStep(int64_t Step);

  /// Keeps \p Owner (a memory map, a buffer) as long as the case lives.
  void keepAlive(std::shared_ptr<void> Owner) {
    Owners.push_back(std::move(Owner));
  }
  std::vector<std::shared_ptr<void>> &owners() { return Owners; }

  /// Remarks: what was skipped, repaired or cut off, worst first in print.
  std::vector<Diagnostic> Remarks;
  void warn(const llvm::Twine &Message, const llvm::Twine &Hint = "") {
    Remarks.push_back({Severity::Warning, Message.str(), Hint.str()});
  }

private:
  std::string Path;
  StringPool &Pool;
  std::vector<std::unique_ptr<TableBuilder>> Tables; ///< By TableId.
  std::vector<TensorRecord> Tensors;
  std::vector<std::shared_ptr<void>> Owners;
};

} // namespace culprit

#endif // CULPRIT_CASE_SOURCE_H
