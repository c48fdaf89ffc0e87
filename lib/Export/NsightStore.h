//===- NsightStore.h - The database of an export ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Makes the tables of NsightTables.def in a new SQLite file and adds rows to
/// them. The first thing that fails is kept; what follows does nothing.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_EXPORT_NSIGHTSTORE_H
#define CULPRIT_EXPORT_NSIGHTSTORE_H

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <optional>
#include <sqlite3.h>
#include <string>

namespace culprit::nsight {

enum class TableOf : unsigned {
#define NSIGHT_TABLE(ID, NAME, COLUMNS) ID,
#include "Export/NsightTables.def"
};
inline constexpr unsigned NumTablesOf = 0
#define NSIGHT_TABLE(ID, NAME, COLUMNS) +1
#include "Export/NsightTables.def"
    ;

/// A cell: nothing, a number or a text.
struct Value {
  Value(std::nullopt_t) {}
  Value(int64_t N) : Number(N) {}
  Value(std::optional<int64_t> N) : Number(N) {}
  Value(llvm::StringRef T) : Text(T), IsText(true) {}
  Value(const std::string &T) : Text(T), IsText(true) {}

  std::optional<int64_t> Number;
  llvm::StringRef Text;
  bool IsText = false;
};

class Store {
public:
  explicit Store(llvm::StringRef Path);
  ~Store();

  /// A row of \p Table: a value for each of its columns that has any.
  void add(TableOf Table, std::initializer_list<Value> Row);
  /// The id of \p Text in StringIds.
  int64_t string(llvm::StringRef Text);
  /// Writes what is left; fails when anything did. Tables of activities without
  /// a row are not there, as with nsys.
  llvm::Error finish();

private:
  void run(const std::string &SQL);
  void note();

  std::string Path;
  sqlite3 *Handle = nullptr;
  sqlite3_stmt *Inserts[NumTablesOf] = {};
  llvm::StringMap<int64_t> Ids;
  std::string Failure;
};

} // namespace culprit::nsight

#endif // CULPRIT_EXPORT_NSIGHTSTORE_H
