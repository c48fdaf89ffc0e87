//===- PlainTablesTest.cpp - Case tables beside plain ones ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// The tables of a case promise SQLite orders and filters that it then leaves
/// out. Random queries over them and over plain tables of the same rows must
/// agree, whatever SQLite made of the promises.
///
//===----------------------------------------------------------------------===//

#include "Query/CaseQuery.h"
#include "gtest/gtest.h"
#include <algorithm>
#include <cmath>
#include <sqlite3.h>

using namespace culprit;

namespace {

using Rows = std::vector<std::string>;

/// The same numbers on every machine.
class Random {
public:
  unsigned below(unsigned Limit) {
    State = State * 6364136223846793005u + 1442695040888963407u;
    return static_cast<unsigned>(State >> 33) % Limit;
  }
  bool one(unsigned In) { return below(In) == 0; }
  template <size_t N> std::string of(const char *const (&Texts)[N]) {
    return Texts[below(N)];
  }

private:
  uint64_t State = 13;
};

/// Rows go into a case and into a database at once.
class Both {
public:
  Both() {
    sqlite3_open(":memory:", &Plain);
    // gpu_work: no order, values repeat, some are missing. memory_events: in
    // the order of at. requests: Double and Bool.
    exec("CREATE TABLE gpu_work(name TEXT, start INTEGER, stop INTEGER, "
         "stream INTEGER, correlation INTEGER, bytes INTEGER);"
         "CREATE TABLE memory_events(at INTEGER, bytes INTEGER, "
         "device INTEGER);"
         "CREATE TABLE requests(model TEXT, prompt_tokens INTEGER, "
         "ttft REAL, correct INTEGER);");
    auto S = std::make_unique<Source>("run/p.json", Builder.pool());
    static const char *const Names[] = {"a", "A", "b", "", "ab", "\xc3\xa9",
                                        "1", "-1", "zz"};
    Random R;
    for (int64_t I = 0; I != 120; ++I) {
      begin(*S, TableId::gpu_work, "gpu_work", I);
      text(gpu_work::name, R.one(9) ? nullptr : Names[R.below(9)]);
      int64_t Start = R.below(90); // A case counts from its first time, 0.
      number(gpu_work::start, Start);
      number(gpu_work::stop, Start + R.below(9));
      number(gpu_work::stream, R.one(5) ? NullInt : int64_t(R.below(4)) - 1);
      number(gpu_work::correlation, R.one(8) ? NullInt : int64_t(R.below(60)));
      number(gpu_work::bytes, R.one(6)   ? NullInt
                              : R.one(9) ? INT64_MAX - int64_t(R.below(2))
                                         : int64_t(R.below(5)) - 2);
      end();
    }
    for (int64_t I = 0; I != 80; ++I) {
      begin(*S, TableId::memory_events, "memory_events", I);
      number(memory_events::at, I / 3);
      number(memory_events::bytes, I < 40 ? 1048576 : -1048576);
      number(memory_events::device, R.one(4) ? NullInt : int64_t(R.below(3)));
      end();
    }
    static constexpr double Values[] = {0.5, 0, 1, -2.25, INFINITY, 3e300};
    for (int64_t I = 0; I != 60; ++I) {
      begin(*S, TableId::requests, "requests", I);
      text(requests::model, Names[R.below(3)]);
      number(requests::prompt_tokens, int64_t(R.below(20)));
      double Value = R.one(6) ? NAN : Values[R.below(6)];
      To->set(requests::ttft, Value);
      sqlite3_bind_double(Insert, ++Bound, Value); // NaN is null.
      bool Correct = R.one(2);
      To->setBool(requests::correct, Correct);
      sqlite3_bind_int(Insert, ++Bound, Correct);
      end();
    }
    Builder.add(std::move(S));
    C = Builder.build();
    Asked = llvm::cantFail(CaseQuery::open(*C));
  }
  ~Both() { sqlite3_close(Plain); }

  Rows ofCase(const std::string &Sql) {
    llvm::Expected<QueryRows> Q = Asked->run(Sql);
    if (!Q)
      return {"error: " + llvm::toString(Q.takeError())};
    Rows Out;
    while (llvm::cantFail(Q->next())) {
      std::string Line;
      for (unsigned I = 0; I != Q->columns().size(); ++I) {
        QueryValue V = Q->value(I);
        Line += V.Kind == QueryValue::Null      ? "NULL|"
                : V.Kind == QueryValue::Integer ? std::to_string(V.Int) + "|"
                : V.Kind == QueryValue::Real ? std::to_string(V.Number) + "r|"
                                             : "'" + V.String.str() + "'|";
      }
      Out.push_back(Line);
    }
    return Out;
  }

  Rows ofPlain(const std::string &Sql) {
    sqlite3_stmt *Q = nullptr;
    if (sqlite3_prepare_v2(Plain, Sql.c_str(), -1, &Q, nullptr))
      return {std::string("refused: ") + sqlite3_errmsg(Plain)};
    Rows Out;
    while (sqlite3_step(Q) == SQLITE_ROW) {
      std::string Line;
      for (int I = 0; I != sqlite3_column_count(Q); ++I) {
        int Type = sqlite3_column_type(Q, I);
        auto Text = [&] {
          return std::string(
              reinterpret_cast<const char *>(sqlite3_column_text(Q, I)));
        };
        Line += Type == SQLITE_NULL ? "NULL|"
                : Type == SQLITE_INTEGER
                    ? std::to_string(sqlite3_column_int64(Q, I)) + "|"
                : Type == SQLITE_FLOAT
                    ? std::to_string(sqlite3_column_double(Q, I)) + "r|"
                    : "'" + Text() + "'|";
      }
      Out.push_back(Line);
    }
    sqlite3_finalize(Q);
    return Out;
  }

private:
  void exec(const char *Sql) {
    ASSERT_EQ(sqlite3_exec(Plain, Sql, nullptr, nullptr, nullptr), SQLITE_OK)
        << sqlite3_errmsg(Plain);
  }
  /// Columns are set in the order of the CREATE TABLE.
  void begin(Source &S, TableId Id, const char *Name, int64_t Row) {
    To = &S.table(Id);
    To->addRow();
    bool Work = Id == TableId::gpu_work, Memory = Id == TableId::memory_events;
    std::string Columns = Work     ? "name, start, stop, stream, correlation, "
                                     "bytes) VALUES (?, ?, ?, ?, ?, ?, ?)"
                          : Memory ? "at, bytes, device) VALUES (?, ?, ?, ?)"
                                   : "model, prompt_tokens, ttft, correct) "
                                     "VALUES (?, ?, ?, ?, ?)";
    std::string Sql =
        std::string("INSERT INTO ") + Name + "(rowid, " + Columns;
    ASSERT_EQ(sqlite3_prepare_v2(Plain, Sql.c_str(), -1, &Insert, nullptr),
              SQLITE_OK)
        << sqlite3_errmsg(Plain);
    sqlite3_bind_int64(Insert, 1, Row);
    Bound = 1;
  }
  void number(unsigned Column, int64_t Value) {
    ++Bound;
    if (Value == NullInt)
      return;
    To->set(Column, Value);
    sqlite3_bind_int64(Insert, Bound, Value);
  }
  void text(unsigned Column, const char *Value) {
    ++Bound;
    if (!Value)
      return;
    To->set(Column, llvm::StringRef(Value));
    sqlite3_bind_text(Insert, Bound, Value, -1, SQLITE_STATIC);
  }
  void end() {
    ASSERT_EQ(sqlite3_step(Insert), SQLITE_DONE) << sqlite3_errmsg(Plain);
    sqlite3_finalize(Insert);
  }

  CaseBuilder Builder;
  std::optional<Case> C;
  std::unique_ptr<CaseQuery> Asked;
  sqlite3 *Plain = nullptr;
  sqlite3_stmt *Insert = nullptr;
  int Bound = 0;
  TableBuilder *To = nullptr;
};

/// Queries of which each part is drawn.
class Queries {
public:
  /// Whether the rows come in a given order; else any will do.
  bool Ordered = false;

  std::string next() {
    static const char *const Tables[] = {"gpu_work", "memory_events",
                                         "requests"};
    Table = R.below(3);
    std::string From = " FROM " + std::string(Tables[Table]) + " t";
    Ordered = true;
    std::string A = column(), B = column();
    std::string Limit = R.one(3) ? " LIMIT 7 OFFSET 3" : "";
    std::string Down = R.one(2) ? " DESC" : "";
    switch (R.below(9)) {
    case 0: // Ties are left to the order of rows, or not shown.
      return "SELECT rowid, " + A + ", " + B + From + where() + " ORDER BY " +
             A + Down + ", rowid" + Limit;
    case 1:
      return "SELECT " + A + From + where() + " ORDER BY " + A + Down + Limit;
    case 2:
      Ordered = false;
      return "SELECT " + A + ", " + uses(A) + From + where() + " GROUP BY " +
             A + having();
    case 3:
      return "SELECT " + A + ", " + uses(A) + From + where() + " GROUP BY " +
             A + having() + " ORDER BY " + A + Down + Limit;
    case 4:
      Ordered = false;
      return "SELECT " + A + ", " + B + ", count(*)" + From + where() +
             " GROUP BY " + A + ", " + B;
    case 5:
      Ordered = false;
      return "SELECT DISTINCT " + A + (R.one(2) ? ", " + B : "") + From +
             where();
    case 6:
      return "SELECT DISTINCT " + A + From + where() + " ORDER BY " + A + Down;
    case 7:
      return join(A, Down);
    default:
      Ordered = false;
      return "SELECT rowid, row_number() OVER (PARTITION BY " + A +
             " ORDER BY rowid), count(*) OVER (ORDER BY " + A + ")" + From +
             where();
    }
  }

private:
  std::string column() {
    static const char *const Work[] = {"name",   "start",       "stop",
                                       "stream", "correlation", "bytes"};
    static const char *const Memory[] = {"at", "bytes", "device"};
    static const char *const Requests[] = {"model", "prompt_tokens",
                                           "ttft", "correct"};
    return "t." + (Table == 0   ? R.of(Work)
                   : Table == 1 ? R.of(Memory)
                                : R.of(Requests));
  }
  /// What may be said of a group by \p A.
  std::string uses(const std::string &A) {
    static const char *const Forms[] = {
        "count(*), abs(%), % < 0",   "count(*), -%, % IS NULL, % || ''",
        "count(%), min(%), max(%)",  "count(DISTINCT %), typeof(%)",
        "min(t.rowid), max(t.rowid)", "% + 1, % * 2, count(*), % = 1"};
    std::string Out = R.of(Forms);
    // abs() of the smallest integer and sums beyond 64 bits are errors; the
    // largest plus one is a real number in both.
    for (size_t At; (At = Out.find('%')) != std::string::npos;)
      Out.replace(At, 1, A);
    return Out;
  }
  std::string condition() {
    static const char *const Operators[] = {" = ", " < ",  " <= ",  " > ",
                                            " >= ", " <> ", " IS ", " IS NOT "};
    static const char *const Constants[] = {
        "0",    "1",   "-1",  "3",    "2.5", "'a'",  "'1'",
        "NULL", "''",  "7",   "1e300", "9223372036854775807", "-0.0",
        "'A' COLLATE NOCASE", "1048576"};
    std::string A = column();
    switch (R.below(6)) {
    case 0:
      return A + " IN (1, 'a', NULL, -1, 2, 1048576)";
    case 1:
      return A + " BETWEEN -1 AND 5";
    case 2:
      return A + (R.one(2) ? " IS NULL" : " IS NOT NULL");
    case 3:
      return "t.rowid" + R.of(Operators) + R.of(Constants);
    default:
      return A + R.of(Operators) + R.of(Constants);
    }
  }
  std::string where() {
    if (R.one(3))
      return "";
    std::string Out = " WHERE " + condition();
    while (R.one(2))
      Out += (R.one(3) ? " OR " : " AND ") + condition();
    return Out;
  }
  std::string having() { return R.one(4) ? " HAVING count(*) > 2" : ""; }
  std::string join(const std::string &A, const std::string &Down) {
    static const char *const With[] = {
        "gpu_work u ON u.correlation = ", "gpu_work u ON u.stream = ",
        "gpu_work u ON u.start BETWEEN t.rowid AND 2 + ",
        "memory_events u ON u.at = ", "requests u ON u.prompt_tokens >= ",
        "memory_events u ON u.rowid = ", "gpu_work u ON u.name = "};
    static const char *const Tables[] = {"gpu_work", "memory_events",
                                         "requests"};
    std::string Out = std::string(R.one(2) ? " JOIN " : " LEFT JOIN ") +
                      R.of(With) + column() + where();
    Out = " FROM " + std::string(Tables[Table]) + " t" + Out;
    if (R.one(2))
      return "SELECT " + A + ", count(*), count(u.rowid), min(u.rowid)" + Out +
             " GROUP BY " + A + " ORDER BY " + A + Down;
    return "SELECT t.rowid, u.rowid" + Out + " ORDER BY " + A + Down +
           ", t.rowid, u.rowid LIMIT 50";
  }

  Random R;
  unsigned Table = 0;
};

void expectSame(Both &B, const std::string &Sql, bool Ordered) {
  Rows Has = B.ofCase(Sql), Wants = B.ofPlain(Sql);
  if (!Ordered) {
    std::sort(Has.begin(), Has.end());
    std::sort(Wants.begin(), Wants.end());
  }
  // An error has words of our own.
  if (Wants.size() == 1 && Wants[0].rfind("refused", 0) == 0)
    ADD_FAILURE() << Sql << ": " << Wants[0];
  EXPECT_EQ(Has, Wants) << Sql;
}

TEST(PlainTablesTest, RandomQueriesAgree) {
  Both B;
  Queries Q;
  for (int I = 0; I != 1500 && !testing::Test::HasFailure(); ++I) {
    std::string Sql = Q.next();
    expectSame(B, Sql, Q.Ordered);
  }
}

// 40 allocations of 1 MiB and their ends: two groups.
TEST(PlainTablesTest, ExpressionsOfTheGroup) {
  Both B;
  std::string Sql = "SELECT bytes, count(*), abs(bytes), bytes < 0 FROM "
                    "memory_events GROUP BY bytes";
  EXPECT_EQ(B.ofCase(Sql),
            (Rows{"-1048576|40|1048576|1|", "1048576|40|1048576|0|"}));
  expectSame(B, Sql, /*Ordered=*/true);
}

} // namespace
