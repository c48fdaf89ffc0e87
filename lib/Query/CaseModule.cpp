//===- CaseModule.cpp -------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// How a statement runs. While it is prepared, SQLite asks xBestIndex for plans;
// see Planner.h. At run time it calls xFilter with the plan it took and the
// values to compare to, once for a table on its own and once a row of the outer
// table in a join.
//
//===----------------------------------------------------------------------===//

#include "Query/CaseModule.h"
#include "Query/CaseTable.h"
#include "llvm/ADT/StringExtras.h"
#include <cmath>

using namespace llvm;

namespace culprit {

namespace {

struct Cursor : sqlite3_vtab_cursor {
  SmallVector<RowFilter, 2> Filters;
  RowFinder *Chain = nullptr; ///< Walk::Value by index: the rows of Key.
  int64_t Key = 0;
  const RowIndex *Order = nullptr; ///< Null: rows in order.
  size_t Position = 0, End = 0;    ///< In Order or the rows; not for Chain.
  uint32_t Row = RowFinder::NoRow; ///< The current one; NoRow at the end.

  CaseTable &table() const { return *static_cast<CaseTable *>(pVtab); }

  bool passes(uint32_t R) const {
    return all_of(Filters, [&](const RowFilter &F) { return F.passes(R); });
  }

  /// Goes on to the first row at or after Position that passes.
  void settle() {
    for (; Position != End; ++Position) {
      Row = Order ? (*Order)[Position] : static_cast<uint32_t>(Position);
      if (passes(Row))
        return;
    }
    Row = RowFinder::NoRow;
  }

  void settleChain() {
    while (Row != RowFinder::NoRow && !passes(Row))
      Row = Chain->nextOf(Key, Row);
  }

  void next() {
    if (Chain) {
      Row = Chain->nextOf(Key, Row);
      return settleChain();
    }
    ++Position;
    settle();
  }
};

std::string quoted(StringRef Name) { return "\"" + Name.str() + "\""; }

/// The CREATE TABLE statement that tells SQLite the columns.
std::string declaration(const CaseTable &T) {
  std::string Out = "CREATE TABLE x(";
  for (const ColumnSchema &Column : T.Schema.Columns) {
    Out += quoted(Column.Name);
    switch (Column.Type) {
    case ColumnType::Int:
    case ColumnType::Bool:
      Out += " INTEGER, ";
      break;
    case ColumnType::Double:
      Out += " REAL, ";
      break;
    case ColumnType::String:
    case ColumnType::IntList:
      Out += " TEXT, ";
      break;
    }
  }
  Out += "path TEXT HIDDEN";
  for (unsigned Column : T.Numbers)
    Out += ", " + quoted((T.Schema.Columns[Column].Name + "_kind").str()) +
           " TEXT HIDDEN";
  return Out + ")";
}

int bestIndex(sqlite3_vtab *V, sqlite3_index_info *Info) {
  CaseTable &T = *static_cast<CaseTable *>(V);
  Info->idxNum = static_cast<int>(T.Plans.size());
  T.Plans.push_back(choosePlan(T, *Info));
  return SQLITE_OK;
}

//===-- Running -----------------------------------------------------------===//

int filter(sqlite3_vtab_cursor *V, int PlanNumber, const char *, int Count,
           sqlite3_value **Values) {
  Cursor &At = *static_cast<Cursor *>(V);
  CaseTable &T = At.table();
  const Plan &Chosen = T.Plans[PlanNumber];
  const Table &Rows = T.rows();
  At.Filters.clear();
  At.Chain = nullptr;
  At.Order = nullptr;
  At.Position = 0;
  At.End = Rows.rows();
  At.Row = RowFinder::NoRow;
  if (Chosen.How == Walk::RowId) {
    At.End = 0;
    if (sqlite3_value_numeric_type(Values[0]) == SQLITE_NULL)
      return SQLITE_OK;
    double Wanted = sqlite3_value_double(Values[0]);
    if (Wanted >= 0 && Wanted < static_cast<double>(Rows.rows()) &&
        Wanted == std::floor(Wanted)) {
      At.Position = static_cast<size_t>(Wanted);
      At.End = At.Position + 1;
    }
    At.settle();
    return SQLITE_OK;
  }

  int64_t Low = NullInt + 1, High = std::numeric_limits<int64_t>::max();
  bool Bounded = false;
  for (size_t I = 0; I != Chosen.Checks.size(); ++I) {
    const Plan::Check &Check = Chosen.Checks[I];
    RowFilter F(Rows.columns()[Check.Column], T.finder(Check.Column),
                *T.C.pool(), Check.Op, Values[I]);
    if (F.empty()) {
      At.End = 0;
      return SQLITE_OK;
    }
    if (F.isKeys() && Check.Column == Chosen.Column) {
      Low = std::max(Low, F.low());
      High = std::min(High, F.high());
      Bounded = true;
    }
    if (!F.passesAll())
      At.Filters.push_back(F);
  }
  if (Chosen.How == Walk::Grouped)
    At.Order = &T.finder(Chosen.Column).grouped(*T.C.pool());
  if (Chosen.How == Walk::Value && Bounded && Low == High) {
    RowFinder &Finder = T.finder(Chosen.Column);
    if (Finder.askedOften()) {
      At.Chain = &Finder;
      At.Key = Low;
      At.Row = Finder.firstOf(Low);
      At.settleChain();
      return SQLITE_OK;
    }
  }
  if (Chosen.How == Walk::Range && Bounded) {
    RowFinder &Finder = T.finder(Chosen.Column);
    if (Low > High) {
      At.End = 0;
      return SQLITE_OK;
    }
    if (Finder.ascending() || Finder.askedOften()) {
      At.Order = Finder.byValue();
      std::tie(At.Position, At.End) = Finder.range(Low, High);
    }
  }
  At.settle();
  return SQLITE_OK;
}

void resultText(sqlite3_context *Out, StringRef Text) {
  sqlite3_result_text64(Out, Text.empty() ? "" : Text.data(), Text.size(),
                        SQLITE_STATIC, SQLITE_UTF8);
}

void resultList(sqlite3_context *Out, ArrayRef<int64_t> List) {
  if (List.empty())
    return sqlite3_result_null(Out);
  std::string Text = "[";
  for (int64_t Value : List)
    Text += (Text.size() > 1 ? "," : "") + itostr(Value);
  Text += "]";
  sqlite3_result_text64(Out, Text.data(), Text.size(), SQLITE_TRANSIENT,
                        SQLITE_UTF8);
}

/// What a number is that SQLite would show as NULL or not let one compare.
StringRef kindOf(double Value) {
  return std::isnan(Value)   ? "nan"
         : std::isinf(Value) ? (Value > 0 ? "inf" : "-inf")
                             : "finite";
}

int column(sqlite3_vtab_cursor *V, sqlite3_context *Out, int Number) {
  Cursor &At = *static_cast<Cursor *>(V);
  CaseTable &T = At.table();
  const Table &Rows = T.rows();
  unsigned Column = static_cast<unsigned>(Number);
  if (Column == T.pathColumn()) {
    std::string Path = T.C.cite(T.Id, At.Row).Path;
    if (!Path.empty())
      sqlite3_result_text64(Out, Path.data(), Path.size(), SQLITE_TRANSIENT,
                            SQLITE_UTF8);
    return SQLITE_OK;
  }
  if (Column > T.pathColumn()) {
    const ColumnView &View =
        Rows.columns()[T.Numbers[Column - T.pathColumn() - 1]];
    if (!View.isNull(At.Row))
      resultText(Out, kindOf(View.getDouble(At.Row)));
    return SQLITE_OK;
  }
  const ColumnView &View = Rows.columns()[Column];
  if (View.isNull(At.Row))
    return SQLITE_OK; // a result not set is NULL
  switch (View.type()) {
  case ColumnType::Int:
    sqlite3_result_int64(Out, View.getInt(At.Row));
    break;
  case ColumnType::Bool:
    sqlite3_result_int(Out, View.Data->bools()[View.row(At.Row)]);
    break;
  case ColumnType::Double:
    sqlite3_result_double(Out, View.getDouble(At.Row));
    break;
  case ColumnType::String:
    resultText(Out, Rows.pool()->text(View.getString(At.Row)));
    break;
  case ColumnType::IntList:
    resultList(Out, View.Data->list(View.row(At.Row)));
    break;
  }
  return SQLITE_OK;
}

//===-- Life and death ----------------------------------------------------===//

int connect(sqlite3 *D, void *Context, int, const char *const *Arguments,
            sqlite3_vtab **Out, char **) {
  // Arguments: module, database, table.
  std::optional<TableId> Id = findTable(Arguments[2]);
  if (!Id)
    return SQLITE_ERROR;
  auto T = std::make_unique<CaseTable>(*static_cast<const Case *>(Context),
                                       *Id);
  if (int Code = sqlite3_declare_vtab(D, declaration(*T).c_str()))
    return Code;
  *Out = T.release();
  return SQLITE_OK;
}

int disconnect(sqlite3_vtab *V) {
  delete static_cast<CaseTable *>(V);
  return SQLITE_OK;
}

int openCursor(sqlite3_vtab *, sqlite3_vtab_cursor **Out) {
  *Out = new Cursor();
  return SQLITE_OK;
}

int closeCursor(sqlite3_vtab_cursor *V) {
  delete static_cast<Cursor *>(V);
  return SQLITE_OK;
}

int next(sqlite3_vtab_cursor *V) {
  static_cast<Cursor *>(V)->next();
  return SQLITE_OK;
}

int atEnd(sqlite3_vtab_cursor *V) {
  return static_cast<Cursor *>(V)->Row == RowFinder::NoRow;
}

int rowId(sqlite3_vtab_cursor *V, sqlite3_int64 *Out) {
  *Out = static_cast<Cursor *>(V)->Row;
  return SQLITE_OK;
}

sqlite3_module makeModule() {
  sqlite3_module M = {};
  M.xCreate = connect;
  M.xConnect = connect;
  M.xBestIndex = bestIndex;
  M.xDisconnect = disconnect;
  M.xDestroy = disconnect;
  M.xOpen = openCursor;
  M.xClose = closeCursor;
  M.xFilter = filter;
  M.xNext = next;
  M.xEof = atEnd;
  M.xColumn = column;
  M.xRowid = rowId;
  return M;
}

} // namespace

Error addCaseTables(sqlite3 *D, const Case &C) {
  static const sqlite3_module Module = makeModule();
  int Code = sqlite3_create_module(D, "case_table", &Module,
                                   const_cast<Case *>(&C));
  for (const TableSchema &T : schemas()) {
    if (Code != SQLITE_OK)
      break;
    std::string Sql =
        "CREATE VIRTUAL TABLE " + quoted(T.Name) + " USING case_table";
    Code = sqlite3_exec(D, Sql.c_str(), nullptr, nullptr, nullptr);
  }
  if (Code != SQLITE_OK)
    return failure(Twine("the tables cannot be opened for SQL: ") +
                   sqlite3_errmsg(D));
  return Error::success();
}

} // namespace culprit
