//===- NsightSystemsDatabase.h - An export as tolerant tables ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Reads an SQLite export whose schema is only known when it is open: a table
/// or a column that is not there reads as empty or null. Only plain tables are
/// read; views, triggers and virtual tables of a stranger's file never run.
///
/// A connection serves one thread; another() makes one for another thread.
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
#include <sqlite3.h>
#include <string>
#include <unordered_map>
#include <vector>

namespace culprit::nsys {

/// The row under a cursor; columns in the order they were asked for.
class Row {
public:
  explicit Row(sqlite3_stmt *Statement, bool UTF8 = true)
      : Statement(Statement), UTF8(UTF8) {}

  /// The rowid.
  int64_t place() const { return sqlite3_column_int64(Statement, 0); }

  /// Nothing when null, and when the cell holds something else than an
  /// integer: SQLite stores any text in an integer column.
  std::optional<int64_t> integer(unsigned Column) const {
    // One look at the cell instead of the two that sqlite3_column_type and
    // sqlite3_column_int64 take; connections are used by one thread each.
    sqlite3_value *Value = cell(Column);
    if (sqlite3_value_type(Value) != SQLITE_INTEGER)
      return std::nullopt;
    return sqlite3_value_int64(Value);
  }
  int64_t integer(unsigned Column, int64_t Default) const {
    return integer(Column).value_or(Default);
  }
  /// Integers and reals; nothing otherwise.
  std::optional<double> real(unsigned Column) const;
  /// Empty when null. Lives until the next row.
  llvm::StringRef text(unsigned Column) const {
    // As a blob no terminator is added, which would cost a copy.
    if (UTF8)
      return bytes(Column);
    int Index = static_cast<int>(Column) + 1;
    const unsigned char *Text = sqlite3_column_text(Statement, Index);
    return Text ? llvm::StringRef(reinterpret_cast<const char *>(Text),
                                  sqlite3_column_bytes(Statement, Index))
                : llvm::StringRef();
  }
  /// The bytes of a blob or a text. Lives until the next row.
  llvm::StringRef bytes(unsigned Column) const {
    sqlite3_value *Value = cell(Column);
    const void *Bytes = sqlite3_value_blob(Value);
    return Bytes ? llvm::StringRef(static_cast<const char *>(Bytes),
                                   sqlite3_value_bytes(Value))
                 : llvm::StringRef();
  }
  bool isText(unsigned Column) const {
    return sqlite3_value_type(cell(Column)) == SQLITE_TEXT;
  }

private:
  sqlite3_value *cell(unsigned Column) const {
    return sqlite3_column_value(Statement, static_cast<int>(Column) + 1);
  }

  sqlite3_stmt *Statement;
  bool UTF8;
};

/// A version of the export schema, as in 3.24.14.
struct SchemaVersion {
  int64_t Major = 0, Minor = 0;
  std::string Text;

  /// Newer than all that this reader was written for.
  bool isNewer() const { return Major > 3 || (Major == 3 && Minor > 25); }
};

class Database {
public:
  /// Opens \p File read-only and immutable: no lock, no journal, no index is
  /// ever written beside or into the evidence. \p File must outlive it.
  static llvm::Expected<std::unique_ptr<Database>> open(InputFile &File);
  /// A second connection to the same file, with its own cursor and caches;
  /// null when it cannot be had.
  std::unique_ptr<Database> another() const;
  ~Database();

  /// A table that only nsys makes is there.
  bool isExport() const;
  bool has(llvm::StringRef Table) const;
  const SchemaVersion &version() const { return Version; }

  /// Calls \p Visit for the rows of \p Table in the order of rowid, with
  /// \p Columns; absent ones are null. Later schemas may rename a table to
  /// Table_V2 and so on: the highest that has rows is read. Without one of the
  /// first \p Required columns the table cannot be used and is named in
  /// missed(). The first damage that is met is kept in failure() and ends the
  /// table.
  void forEach(llvm::StringRef Table, llvm::ArrayRef<llvm::StringRef> Columns,
               llvm::function_ref<void(const Row &)> Visit,
               unsigned Required = 0);

  /// At most so many rows: an upper bound that costs nothing, for reserving.
  /// Never more than the file has room for.
  size_t rowsAtMost(llvm::StringRef Table);
  bool hasColumn(llvm::StringRef Table, llvm::StringRef Column);

  /// The text of a StringIds id; empty when there is none.
  llvm::StringRef string(std::optional<int64_t> Id);

  /// What the file's own enumeration table \p Enum calls \p Id: the label, or
  /// the symbol in exports that have no labels; empty when there is none.
  llvm::StringRef label(llvm::StringRef Enum, int64_t Id);

  /// Tables that exist in several versions with rows, and tables of activities
  /// that this reader does not know, each as the rest of a sentence.
  std::vector<std::string> oddities();

  /// Tables that could not be used, each with its reason.
  const std::vector<std::string> &missed() const { return Missed; }

  /// The first damage as the rest of a sentence on the file, empty when all
  /// was well: "is cut off: it has 8,192 of 57,344 bytes".
  const std::string &failure() const { return Failure; }

private:
  Database() = default;
  bool connect();
  bool listTables();
  void readVersion();
  std::string bestTable(llvm::StringRef Name);
  bool hasRows(llvm::StringRef Table);
  const llvm::StringMap<bool> &columnsOf(llvm::StringRef Table);
  /// Steps \p SQL to its end; false when it cannot.
  bool query(const std::string &SQL,
             llvm::function_ref<void(const Row &)> Visit);
  void readStrings();
  void note();

  // What the file is, for another().
  std::string Path;
  llvm::StringRef Bytes; ///< Of a compressed file, decompressed.
  bool InMemory = false;
  uint64_t Size = 0;

  sqlite3 *Handle = nullptr;
  bool UTF8 = true;
  llvm::StringMap<char> Tables;
  /// By name without the suffix: the versions, highest first.
  std::map<std::string, std::vector<std::pair<int, std::string>>> Versions;
  llvm::StringMap<llvm::StringMap<bool>> Columns; ///< True: the rowid.
  llvm::StringMap<std::string> Best;
  SchemaVersion Version;
  std::string Failure;
  std::vector<std::string> Missed;

  sqlite3_stmt *FindString = nullptr;
  bool StringsRead = false;
  std::unordered_map<int64_t, std::string> Strings;
  std::map<std::string, std::map<int64_t, std::string>> Enums;
};

} // namespace culprit::nsys

#endif // CULPRIT_READERS_NSIGHTSYSTEMSDATABASE_H
