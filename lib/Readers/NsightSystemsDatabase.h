//===- NsightSystemsDatabase.h - An export as tolerant tables ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Reads an SQLite export whose schema is only known when it is open: a table
/// or a column that is not there reads as empty or null. Only plain tables are
/// read; the views and triggers of a stranger's file never run.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_NSIGHTSYSTEMSDATABASE_H
#define CULPRIT_READERS_NSIGHTSYSTEMSDATABASE_H

#include "Support/InputFile.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

struct sqlite3;
struct sqlite3_stmt;

namespace culprit::nsys {

/// The row under a cursor; columns in the order they were asked for.
class Row {
public:
  explicit Row(sqlite3_stmt *Statement) : Statement(Statement) {}

  /// The rowid.
  int64_t place() const;
  std::optional<int64_t> integer(unsigned Column) const;
  int64_t integer(unsigned Column, int64_t Default) const {
    return integer(Column).value_or(Default);
  }
  /// Empty when null. Lives until the next row.
  llvm::StringRef text(unsigned Column) const;

private:
  sqlite3_stmt *Statement;
};

class Database {
public:
  /// Opens \p File read-only and immutable: no lock, no journal, no index is
  /// ever written beside or into the evidence.
  static llvm::Expected<std::unique_ptr<Database>> open(InputFile &File);
  ~Database();

  /// A table that only nsys makes is there.
  bool isExport() const;
  bool has(llvm::StringRef Table) const { return Tables.count(Table); }

  /// Calls \p Visit for the rows of \p Table in the order of rowid, with
  /// \p Columns; absent ones are null. Of a table that later schemas renamed
  /// to Table_V2 and so on, the one with the most rows is read. The first
  /// damage that is met is kept in failure() and ends the table.
  void forEach(llvm::StringRef Table, llvm::ArrayRef<llvm::StringRef> Columns,
               llvm::function_ref<void(const Row &)> Visit);

  /// The text of a StringIds id; empty when there is none.
  llvm::StringRef string(std::optional<int64_t> Id);

  /// The label of \p Id in the enumeration table \p Enum; empty when there is
  /// none.
  llvm::StringRef label(llvm::StringRef Enum, int64_t Id);

  /// The first damage as the rest of a sentence on the file, empty when all
  /// was well: "is cut off: it has 8,192 of 57,344 bytes".
  const std::string &failure() const { return Failure; }

private:
  Database() = default;
  bool listTables();
  std::string bestTable(llvm::StringRef Name);
  llvm::StringMap<char> columnsOf(llvm::StringRef Table);
  /// Steps \p SQL to its end; false when it cannot.
  bool query(const std::string &SQL,
             llvm::function_ref<void(const Row &)> Visit);
  void note();

  sqlite3 *Handle = nullptr;
  llvm::StringMap<char> Tables;
  std::string Failure;
  bool StringsRead = false;
  std::unordered_map<int64_t, std::string> Strings;
  std::map<std::string, std::map<int64_t, std::string>> Enums;
};

} // namespace culprit::nsys

#endif // CULPRIT_READERS_NSIGHTSYSTEMSDATABASE_H
