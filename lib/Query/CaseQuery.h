//===- CaseQuery.h - SQL over a case ----------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// One read-only SQL statement at a time over the tables of a case. Nothing
/// can be written: the database is in memory and empty but for the virtual
/// tables, and an authorizer refuses all but reading. A statement can be given
/// a time limit, and SQLite's own memory is bounded.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_QUERY_CASEQUERY_H
#define CULPRIT_QUERY_CASEQUERY_H

#include "Case/Case.h"
#include <chrono>
#include <memory>
#include <string>
#include <vector>

struct sqlite3;
struct sqlite3_stmt;

namespace culprit {

/// A cell of a result. Text lives until the next row.
struct QueryValue {
  enum { Null, Integer, Real, Text, Bytes } Kind = Null;
  int64_t Int = 0;
  double Number = 0;
  llvm::StringRef String; ///< Text; Bytes as they are.
};

/// The rows of a running statement, one at a time. Must not outlive its query
/// database.
class QueryRows {
public:
  llvm::ArrayRef<std::string> columns() const { return Columns; }
  /// Steps to the next row; false when there is none.
  llvm::Expected<bool> next();
  /// The cell of the current row.
  QueryValue value(unsigned Column) const;

private:
  friend class CaseQuery;
  struct Finalizer {
    void operator()(sqlite3_stmt *S) const;
  };
  std::unique_ptr<sqlite3_stmt, Finalizer> Handle;
  std::vector<std::string> Columns;
  const class CaseQuery *Owner = nullptr;
};

/// A connection to a case, used by one thread at a time.
class CaseQuery {
public:
  /// \p C outlives the result.
  static llvm::Expected<std::unique_ptr<CaseQuery>> open(const Case &C);
  ~CaseQuery();

  /// Statements run from now on stop after \p Limit of wall time each.
  void setTimeout(std::chrono::milliseconds Limit) { Timeout = Limit; }

  /// Starts the one statement that \p Sql holds. Fails with the place and,
  /// where there is one, a did-you-mean.
  llvm::Expected<QueryRows> run(llvm::StringRef Sql);

private:
  friend class QueryRows;
  CaseQuery() = default;

  static int authorize(void *Self, int Action, const char *A, const char *B,
                       const char *, const char *);
  static int checkTime(void *Self);
  /// What SQLite complains about in \p Sql, in our words.
  llvm::Error problem(llvm::StringRef Sql) const;

  struct Closer {
    void operator()(sqlite3 *D) const;
  };
  std::unique_ptr<sqlite3, Closer> Handle;
  std::string Refused; ///< What the authorizer refused last.
  std::optional<std::chrono::milliseconds> Timeout;
  std::chrono::steady_clock::time_point Deadline;
};

} // namespace culprit

#endif // CULPRIT_QUERY_CASEQUERY_H
