//===- CaseQuery.cpp --------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Query/CaseQuery.h"
#include "Query/CaseModule.h"
#include "Query/Functions.h"
#include "Query/Hints.h"
#include "Support/Units.h"
#include "llvm/ADT/StringSwitch.h"
#include <sqlite3.h>

using namespace llvm;

namespace culprit {

/// SQLite's own memory: sorts and groups of a query, all of it in memory.
static constexpr int64_t MemoryLimit = int64_t(4) << 30;
/// The longest text or blob a function may make.
static constexpr int ValueLimit = 64 << 20;

void QueryRows::Finalizer::operator()(sqlite3_stmt *S) const {
  sqlite3_finalize(S);
}

void CaseQuery::Closer::operator()(sqlite3 *D) const { sqlite3_close_v2(D); }

CaseQuery::~CaseQuery() = default;

Expected<std::unique_ptr<CaseQuery>> CaseQuery::open(const Case &C) {
  std::unique_ptr<CaseQuery> Q(new CaseQuery());
  sqlite3 *Raw = nullptr;
  int Code = sqlite3_open_v2(":memory:", &Raw,
                             SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX,
                             nullptr);
  Q->Handle.reset(Raw);
  if (Code != SQLITE_OK)
    return failure(Twine("SQLite does not start: ") + sqlite3_errstr(Code));
  // Sorts that outgrow the cache must not go to a file. The heap limit is one
  // of the whole process; nothing else in it comes near.
  Code = sqlite3_exec(Raw, "PRAGMA temp_store = memory", nullptr, nullptr,
                      nullptr);
  sqlite3_hard_heap_limit64(MemoryLimit);
  sqlite3_limit(Raw, SQLITE_LIMIT_LENGTH, ValueLimit);
  sqlite3_limit(Raw, SQLITE_LIMIT_ATTACHED, 0);
  // "text" in double quotes is a column or an error, never silently a string.
  sqlite3_db_config(Raw, SQLITE_DBCONFIG_DQS_DML, 0, nullptr);
  if (Code == SQLITE_OK)
    Code = addFunctions(Raw);
  if (Code != SQLITE_OK)
    return failure(Twine("SQLite does not start: ") + sqlite3_errmsg(Raw));
  if (Error E = addCaseTables(Raw, C))
    return E;
  // From here on the database is for reading.
  sqlite3_set_authorizer(Raw, authorize, Q.get());
  sqlite3_progress_handler(Raw, 10000, checkTime, Q.get());
  return Q;
}

int CaseQuery::authorize(void *Self, int Action, const char *A, const char *B,
                         const char *, const char *) {
  std::string &Refused = static_cast<CaseQuery *>(Self)->Refused;
  StringRef First = A ? A : "", Second = B ? B : "";
  switch (Action) {
  case SQLITE_SELECT:
  case SQLITE_READ:
  case SQLITE_RECURSIVE:
    return SQLITE_OK;
  case SQLITE_FUNCTION:
    if (Second != "load_extension")
      return SQLITE_OK;
    Refused = "load_extension()";
    return SQLITE_DENY;
  case SQLITE_PRAGMA:
    // Those that describe a table and change nothing.
    if (StringSwitch<bool>(First)
            .Cases("table_info", "table_xinfo", "table_list", true)
            .Default(false))
      return SQLITE_OK;
    Refused = "PRAGMA " + First.str();
    return SQLITE_DENY;
  case SQLITE_ATTACH:
    Refused = "ATTACH";
    return SQLITE_DENY;
  case SQLITE_DETACH:
    Refused = "DETACH";
    return SQLITE_DENY;
  case SQLITE_TRANSACTION:
  case SQLITE_SAVEPOINT:
    Refused = "a transaction";
    return SQLITE_DENY;
  default:
    // CREATE, DROP, INSERT, UPDATE, DELETE, ALTER, ANALYZE, REINDEX ...
    Refused = "a change of the database";
    return SQLITE_DENY;
  }
}

int CaseQuery::checkTime(void *Self) {
  const CaseQuery &Q = *static_cast<CaseQuery *>(Self);
  return Q.Timeout && std::chrono::steady_clock::now() >= Q.Deadline;
}

Error CaseQuery::problem(StringRef Sql) const {
  sqlite3 *D = Handle.get();
  if (!Refused.empty())
    return failure("query: " + Refused + " is not allowed",
                   "a case is read-only: start with SELECT or WITH");
  switch (sqlite3_errcode(D)) {
  case SQLITE_INTERRUPT:
    return failure("query: stopped after " +
                       formatNumber(static_cast<double>(Timeout->count()) /
                                    1000) +
                       " s",
                   "give it longer with --timeout, or look at fewer rows");
  case SQLITE_NOMEM:
    return failure("query: it needs more than " + Twine(MemoryLimit >> 30) +
                       " GiB of memory",
                   "filter rows first, or group by fewer columns");
  }
  return describeSqlError(Sql, sqlite3_errmsg(D), sqlite3_error_offset(D));
}

Expected<QueryRows> CaseQuery::run(StringRef Sql) {
  // A statement may wait on a derived table to be computed; that counts.
  if (Timeout)
    Deadline = std::chrono::steady_clock::now() + *Timeout;
  sqlite3 *D = Handle.get();
  QueryRows Rows;
  Rows.Owner = this;
  if (Sql.size() > 1000000)
    return failure("query: it is longer than a megabyte");
  if (Sql.contains('\0'))
    return failure("query: it holds a zero byte", "is it a text file?");
  std::string Text = Sql.str();
  const char *Rest = Text.c_str();
  while (*Rest) {
    Refused.clear();
    sqlite3_stmt *Raw = nullptr;
    const char *Start = Rest;
    int Code = sqlite3_prepare_v3(D, Start, -1, 0, &Raw, &Rest);
    std::unique_ptr<sqlite3_stmt, QueryRows::Finalizer> Made(Raw);
    bool Second = Rows.Handle != nullptr;
    // What is no statement is space, a comment or a lone semicolon.
    if (Second && (Code != SQLITE_OK || Raw))
      return failure("query: there is more than one statement",
                     "run one at a time: culprit sql PATH... \"SELECT ...\"");
    if (Code != SQLITE_OK)
      return problem(Start);
    if (Raw)
      Rows.Handle = std::move(Made);
  }
  sqlite3_stmt *S = Rows.Handle.get();
  if (!S)
    return failure("query: it is empty",
                   "for example: SELECT count(*) FROM gpu_work");
  if (!sqlite3_stmt_readonly(S) || sqlite3_column_count(S) == 0)
    return failure("query: it gives no rows",
                   "a case is read-only: start with SELECT or WITH");
  if (sqlite3_bind_parameter_count(S))
    return failure(Twine("query: ") + sqlite3_bind_parameter_name(S, 1) +
                       " is a parameter, and there is nothing to bind to it",
                   "write the value itself");
  for (int I = 0; I != sqlite3_column_count(S); ++I)
    Rows.Columns.push_back(sqlite3_column_name(S, I));
  return Rows;
}

Expected<bool> QueryRows::next() {
  switch (sqlite3_step(Handle.get())) {
  case SQLITE_ROW:
    return true;
  case SQLITE_DONE:
    return false;
  default:
    return Owner->problem("");
  }
}

QueryValue QueryRows::value(unsigned Column) const {
  QueryValue Out;
  sqlite3_stmt *S = Handle.get();
  int I = static_cast<int>(Column);
  switch (sqlite3_column_type(S, I)) {
  case SQLITE_INTEGER:
    Out.Kind = QueryValue::Integer;
    Out.Int = sqlite3_column_int64(S, I);
    break;
  case SQLITE_FLOAT:
    Out.Kind = QueryValue::Real;
    Out.Number = sqlite3_column_double(S, I);
    break;
  case SQLITE_TEXT: {
    Out.Kind = QueryValue::Text;
    const unsigned char *Text = sqlite3_column_text(S, I);
    Out.String = StringRef(reinterpret_cast<const char *>(Text),
                           static_cast<size_t>(sqlite3_column_bytes(S, I)));
    break;
  }
  case SQLITE_BLOB: {
    Out.Kind = QueryValue::Bytes;
    const void *Data = sqlite3_column_blob(S, I);
    Out.String = StringRef(static_cast<const char *>(Data),
                           static_cast<size_t>(sqlite3_column_bytes(S, I)));
    break;
  }
  }
  return Out;
}

} // namespace culprit
