//===- NsightStore.cpp ------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Export/NsightStore.h"
#include "Support/Error.h"
#include "llvm/ADT/SmallVector.h"

using namespace llvm;

namespace culprit::nsight {

namespace {
struct TableText {
  const char *Name, *Columns;
};
constexpr TableText Tables[] = {
#define NSIGHT_TABLE(ID, NAME, COLUMNS) {NAME, COLUMNS},
#include "Export/NsightTables.def"
};
struct EnumRow {
  const char *Table;
  int Id;
  const char *Name, *Label;
};
constexpr EnumRow Enums[] = {
#define NSIGHT_ENUM(TABLE, ID, NAME, LABEL) {TABLE, ID, NAME, LABEL},
#include "Export/NsightTables.def"
};
} // namespace

static std::string createTable(const TableText &T) {
  std::string SQL = std::string("CREATE TABLE ") + T.Name + " (";
  for (char Ch : StringRef(T.Columns))
    if (Ch != '-')
      SQL += Ch;
  return SQL + ")";
}

/// An INSERT with a place for each column of \p T that has values.
static std::string insertInto(const TableText &T) {
  std::string Names, Places;
  SmallVector<StringRef> Columns;
  StringRef(T.Columns).split(Columns, ", ");
  for (StringRef Column : Columns) {
    if (Column.starts_with("-"))
      continue;
    Names += (Names.empty() ? "" : ", ") + Column.split(' ').first.str();
    Places += Places.empty() ? "?" : ",?";
  }
  return std::string("INSERT INTO ") + T.Name + " (" + Names + ") VALUES (" +
         Places + ")";
}

Store::Store(StringRef Path) : Path(Path.str()) {
  if (sqlite3_open_v2(this->Path.c_str(), &Handle,
                      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE |
                          SQLITE_OPEN_NOMUTEX,
                      nullptr) != SQLITE_OK) {
    note();
    return;
  }
  // A new file that is thrown away when anything fails.
  run("PRAGMA journal_mode = OFF");
  run("PRAGMA synchronous = OFF");
  run("BEGIN");
  StringRef Last;
  for (const EnumRow &E : Enums) {
    if (Last != E.Table)
      run(std::string("CREATE TABLE ") + E.Table +
          " (id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT)");
    Last = E.Table;
    run(std::string("INSERT INTO ") + E.Table + " VALUES (" +
        std::to_string(E.Id) + ", '" + E.Name + "', '" + E.Label + "')");
  }
}

Store::~Store() {
  for (sqlite3_stmt *S : Inserts)
    sqlite3_finalize(S);
  sqlite3_close(Handle);
}

void Store::note() {
  if (Failure.empty())
    Failure = sqlite3_errmsg(Handle);
}

void Store::run(const std::string &SQL) {
  if (Failure.empty() &&
      sqlite3_exec(Handle, SQL.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK)
    note();
}

void Store::add(TableOf Table, std::initializer_list<Value> Row) {
  if (!Failure.empty())
    return;
  unsigned T = static_cast<unsigned>(Table);
  sqlite3_stmt *&Insert = Inserts[T];
  if (!Insert) {
    run(createTable(Tables[T]));
    if (!Failure.empty())
      return;
    if (sqlite3_prepare_v2(Handle, insertInto(Tables[T]).c_str(), -1, &Insert,
                           nullptr) != SQLITE_OK)
      return note();
  }
  assert(int(Row.size()) == sqlite3_bind_parameter_count(Insert) &&
         "a value for each column");
  int At = 0;
  for (const Value &V : Row) {
    ++At;
    if (V.IsText)
      // A null pointer would be no text.
      sqlite3_bind_text(Insert, At, V.Text.data() ? V.Text.data() : "",
                        static_cast<int>(V.Text.size()), SQLITE_STATIC);
    else if (V.Number)
      sqlite3_bind_int64(Insert, At, *V.Number);
    else
      sqlite3_bind_null(Insert, At);
  }
  if (sqlite3_step(Insert) != SQLITE_DONE)
    note();
  sqlite3_reset(Insert);
}

int64_t Store::string(StringRef Text) {
  auto [It, New] = Ids.try_emplace(Text, static_cast<int64_t>(Ids.size()) + 1);
  if (New)
    add(TableOf::Strings, {It->second, Text});
  return It->second;
}

Error Store::finish() {
  run("COMMIT");
  if (Failure.empty())
    return Error::success();
  return failure(Path + ": cannot be written: " + Failure,
                 "is there room on the disk, and may the folder be written?");
}

} // namespace culprit::nsight
