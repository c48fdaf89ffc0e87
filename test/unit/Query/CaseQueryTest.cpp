//===- CaseQueryTest.cpp ----------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Query/CaseQuery.h"
#include "gtest/gtest.h"

using namespace culprit;

namespace {

/// 300 kernels, k0 to k6 in turn, each 10 long. Work I starts at 7 * I mod
/// 300, so rows are not in the order of time; its correlation is I; every
/// tenth has no stream.
Case makeCase() {
  CaseBuilder Builder;
  auto S = std::make_unique<Source>("run/p.json", Builder.pool());
  for (int64_t I = 0; I != 300; ++I) {
    TableBuilder &B = S->table(TableId::gpu_work);
    B.addRow();
    B.set(gpu_work::name, llvm::StringRef("k" + std::to_string(I % 7)));
    B.set(gpu_work::start, 7 * I % 300);
    B.set(gpu_work::stop, 7 * I % 300 + 10);
    B.set(gpu_work::correlation, I);
    if (I % 10)
      B.set(gpu_work::stream, I % 3);
    TableBuilder &H = S->table(TableId::host_calls);
    H.addRow();
    H.set(host_calls::start, I);
    H.set(host_calls::correlation, 299 - I);
  }
  Builder.add(std::move(S));
  return Builder.build();
}

/// All cells, "1,k0;2,k1", or the error.
std::string ask(CaseQuery &Q, llvm::StringRef Sql) {
  llvm::Expected<QueryRows> Rows = Q.run(Sql);
  if (!Rows)
    return llvm::toString(Rows.takeError());
  std::string Out;
  while (true) {
    llvm::Expected<bool> More = Rows->next();
    if (!More)
      return llvm::toString(More.takeError());
    if (!*More)
      return Out;
    Out += Out.empty() ? "" : ";";
    for (unsigned I = 0; I != Rows->columns().size(); ++I) {
      QueryValue V = Rows->value(I);
      Out += I ? "," : "";
      Out += V.Kind == QueryValue::Null      ? "NULL"
             : V.Kind == QueryValue::Integer ? std::to_string(V.Int)
             : V.Kind == QueryValue::Real    ? std::to_string(V.Number)
                                             : V.String.str();
    }
  }
}

struct CaseQueryTest : testing::Test {
  Case C = makeCase();
  std::unique_ptr<CaseQuery> Q = llvm::cantFail(CaseQuery::open(C));
};

// A unary plus keeps a column from the planner: what comes out must not depend
// on how it was found. The fourth time an index answers.
TEST_F(CaseQueryTest, FiltersAgreeWithSQLite) {
  const char *Conditions[] = {
      "%start < 50",           "%start <= 50.5",
      "%start > 290.5",        "%start >= 290",
      "%start BETWEEN 10 AND 12", "%stream IS NULL",
      "%stream IS NOT NULL",   "%stream = 2",
      "%stream = 2.0",         "%stream = 2.5",
      "%name = 'k3'",
      "%name = 'K3' COLLATE NOCASE", "%name = 'none'",
      "%name > 'k4'",          "%start = NULL",
      "%name IN ('k1', 'k2', 'x')", "%correlation IN (1, 2, 3, 4, 5, 6)",
      "%start < -9223372036854775807", "%start > 9223372036854775807",
      "%start < 1e300",        "%start >= x'00'",
      "%rowid = 5",            "%rowid = 5.5",
      "%rowid IN (1, 299, 300, -1)"};
  for (std::string Condition : Conditions) {
    auto with = [&](llvm::StringRef Sign) {
      std::string Out = Condition;
      Out.replace(Out.find('%'), 1, Sign.str());
      return "SELECT rowid FROM gpu_work WHERE " + Out + " ORDER BY +rowid";
    };
    std::string Expected = ask(*Q, with("+"));
    for (int Time = 0; Time != 5; ++Time)
      EXPECT_EQ(ask(*Q, with("")), Expected) << Condition;
  }
}

// A text that reads as a number is one beside an INTEGER column: streams 0, 1
// and 2 share the 270 works that have one.
TEST_F(CaseQueryTest, TextConvertsAsInSQLite) {
  EXPECT_EQ(ask(*Q, "SELECT count(*) FROM gpu_work WHERE stream = '2'"), "90");
}

// Call I launched work 299 - I, each once.
TEST_F(CaseQueryTest, JoinsByIndex) {
  EXPECT_EQ(ask(*Q, "SELECT count(*), sum(w.correlation), sum(w.start - "
                    "c.start) FROM gpu_work w JOIN host_calls c ON "
                    "c.correlation = w.correlation"),
            ask(*Q, "SELECT count(*), sum(w.correlation), sum(w.start - "
                    "c.start) FROM gpu_work w JOIN host_calls c ON "
                    "+c.correlation = +w.correlation"));
  EXPECT_EQ(ask(*Q, "SELECT count(*) FROM gpu_work w JOIN host_calls c ON "
                    "c.start BETWEEN w.start AND w.stop"),
            ask(*Q, "SELECT count(*) FROM gpu_work w JOIN host_calls c ON "
                    "+c.start BETWEEN +w.start AND +w.stop"));
  EXPECT_EQ(ask(*Q, "SELECT count(*) FROM host_calls c JOIN gpu_work w ON "
                    "w.start BETWEEN c.start AND c.start + 3"),
            ask(*Q, "SELECT count(*) FROM host_calls c JOIN gpu_work w ON "
                    "+w.start BETWEEN +c.start AND c.start + 3"));
}

TEST_F(CaseQueryTest, OrdersAndGroups) {
  // host_calls is in the order of start, gpu_work is not.
  EXPECT_EQ(ask(*Q, "SELECT start FROM host_calls ORDER BY start LIMIT 3"),
            "0;1;2");
  EXPECT_EQ(ask(*Q, "SELECT start FROM gpu_work ORDER BY start LIMIT 3"),
            "0;1;2");
  EXPECT_EQ(ask(*Q, "SELECT start FROM gpu_work WHERE start > 5 ORDER BY "
                    "rowid LIMIT 2"),
            "7;14");
  EXPECT_EQ(ask(*Q, "SELECT start FROM host_calls ORDER BY start DESC LIMIT 2"),
            "299;298");
  // 300 = 7 * 42 + 6: k0 to k5 are there 43 times.
  EXPECT_EQ(ask(*Q, "SELECT name, count(*) FROM gpu_work GROUP BY name "
                    "ORDER BY name"),
            "k0,43;k1,43;k2,43;k3,43;k4,43;k5,43;k6,42");
  EXPECT_EQ(ask(*Q, "SELECT stream, count(*) FROM gpu_work GROUP BY stream "
                    "ORDER BY 1"),
            ask(*Q, "SELECT +stream, count(*) FROM gpu_work GROUP BY +stream "
                    "ORDER BY 1"));
}

TEST_F(CaseQueryTest, ReadsOnly) {
  for (const char *Sql :
       {"DELETE FROM gpu_work", "CREATE TABLE t(x)", "DROP TABLE gpu_work",
        "ATTACH 'x' AS y", "PRAGMA writable_schema = 1", "BEGIN",
        "VACUUM INTO 'x'", "INSERT INTO gpu_work(name) VALUES ('x')",
        "UPDATE gpu_work SET name = 'x' RETURNING name",
        "UPDATE sqlite_schema SET sql = ''", "SELECT load_extension('x')"})
    EXPECT_NE(ask(*Q, Sql).find("query: "), std::string::npos) << Sql;
  EXPECT_EQ(ask(*Q, "SELECT count(*) FROM gpu_work"), "300");
}

} // namespace
