//===- Sql.cpp - culprit sql ------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "Evidence.h"
#include "KB/TextWrap.h"
#include "Options.h"
#include "Query/CaseQuery.h"
#include "Query/Print.h"
#include "Support/Units.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace llvm;

namespace culprit {

namespace {
enum class RowFormat { Text, Csv, Json };
} // namespace

static cl::SubCommand SqlCommand("sql", "Ask the evidence in SQL, read-only");
static cl::list<std::string> SqlWords(cl::Positional, cl::sub(SqlCommand),
                                      cl::desc("PATH... [QUERY|-]"));
static cl::opt<std::string> File("file", cl::sub(SqlCommand),
                                 cl::value_desc("FILE"),
                                 cl::desc("Read the query from FILE"));
static cl::opt<RowFormat, false, ChoiceParser<RowFormat>>
    SqlFormat("format", cl::sub(SqlCommand), cl::init(RowFormat::Text),
              cl::value_desc("text|csv|json"), cl::desc("Form of the rows"),
              cl::values(clEnumValN(RowFormat::Text, "text", "For people"),
                         clEnumValN(RowFormat::Csv, "csv", "RFC 4180"),
                         clEnumValN(RowFormat::Json, "json", "For programs")));
static cl::opt<double, false, SecondsParser>
    SqlTimeout("timeout", cl::sub(SqlCommand), cl::init(0),
               cl::value_desc("SECONDS"),
               cl::desc("Stop the query after so long (never)"));
static cl::opt<unsigned, false, CountParser>
    SqlJobs("jobs", cl::sub(SqlCommand), cl::init(0), cl::value_desc("N"),
            cl::desc("Threads (one a core)"));

/// The text of the query file, or of standard input for "-".
static Expected<std::string> readQuery(StringRef Path) {
  ErrorOr<std::unique_ptr<MemoryBuffer>> Buffer =
      MemoryBuffer::getFileOrSTDIN(Path, /*IsText=*/true);
  if (!Buffer)
    return failure((Path == "-" ? "standard input" : Path) + ": " +
                       Buffer.getError().message(),
                   "--file names a file that holds one SQL statement");
  return (*Buffer)->getBuffer().str();
}

/// Takes the query off the end of \p Paths, where there is one: "-", or what
/// is no file and has a space, as every query has.
static Expected<std::optional<std::string>>
takeQuery(std::vector<std::string> &Paths) {
  if (!File.empty()) {
    Expected<std::string> Text = readQuery(File);
    if (!Text)
      return Text.takeError();
    return std::optional<std::string>(std::move(*Text));
  }
  if (Paths.empty())
    return std::nullopt;
  StringRef Last = Paths.back();
  if (Last != "-" && (sys::fs::exists(Last) ||
                      (!Last.empty() &&
                       Last.find_first_of(" \t\n;") == StringRef::npos)))
    return std::nullopt;
  std::string Text = Paths.back();
  Paths.pop_back();
  if (Text != "-")
    return std::optional<std::string>(std::move(Text));
  Expected<std::string> Piped = readQuery("-");
  if (!Piped)
    return Piped.takeError();
  return std::optional<std::string>(std::move(*Piped));
}

/// Queries that give something for a table that has rows.
static constexpr std::pair<TableId, StringLiteral> Examples[] = {
    {TableId::gpu_work,
     "SELECT name, count(*) AS n, ms(sum(dur)) AS ms FROM gpu_work "
     "GROUP BY name ORDER BY ms DESC LIMIT 10"},
    {TableId::gpu_work,
     "SELECT rank, state, ms(sum(dur)) AS idle_ms FROM gaps "
     "GROUP BY rank, state ORDER BY idle_ms DESC"},
    {TableId::host_calls,
     "SELECT name, count(*) AS n, us(median(dur)) AS us FROM host_calls "
     "GROUP BY name ORDER BY n DESC LIMIT 10"},
    {TableId::scalars,
     "SELECT step, value, path, place FROM scalars "
     "WHERE name = 'loss' AND \"primary\" ORDER BY step"},
    {TableId::tensors,
     "SELECT name, step, dtype, absmax FROM tensors WHERE nonfinite > 0 "
     "OR near_max_share > 0 ORDER BY step"},
    {TableId::errors,
     "SELECT path, line, type, code, message FROM errors ORDER BY path, line"},
    {TableId::log_lines,
     "SELECT level, count(*) AS lines FROM log_lines GROUP BY level"},
    {TableId::config, "SELECT key, value FROM config ORDER BY key"},
    {TableId::collectives,
     "SELECT op, count(*) AS n, ms(sum(dur)) AS ms FROM collectives "
     "GROUP BY op ORDER BY ms DESC"},
};

static void printTables(const Case &C) {
  size_t Width = 0;
  for (const TableSchema &T : schemas())
    Width = std::max(Width, T.Name.size());
  std::vector<std::string> Empty;
  for (unsigned I = 0; I != NumTables; ++I) {
    const TableSchema &T = schemas()[I];
    std::string Rows = "computed";
    if (T.Kind == TableSchema::Origin::Recorded) {
      size_t Count = C.table(static_cast<TableId>(I)).rows();
      if (Count == 0) {
        Empty.push_back(T.Name.str());
        continue;
      }
      Rows = formatCount(static_cast<int64_t>(Count));
    }
    std::vector<std::string> Names;
    for (const ColumnSchema &Column : T.Columns)
      Names.push_back(Column.Name.str());
    std::string First =
        formatv("{0}{1,12}  ", left_justify(T.Name, Width), Rows).str();
    printWrapped(outs(), join(Names, ", "), First,
                 std::string(First.size(), ' '), outputWidth());
  }
  if (!Empty.empty())
    printWrapped(outs(), join(Empty, ", "), "\nwithout rows here: ", "  ",
                 outputWidth());
  outs() << "\nThe rowid of a row is the number that reports cite; the hidden "
            "column path is its file.\nTables 'computed' are so when a query "
            "names them. Examples:\n\n";
  unsigned Shown = 0;
  auto show = [&](StringRef Query) {
    outs() << "  " << Query << '\n';
    ++Shown;
  };
  for (auto &[Id, Query] : Examples)
    if (Shown < 3 && C.has(Id))
      show(Query);
  for (unsigned I = 0; I != NumTables && Shown < 3; ++I)
    if (schemas()[I].Kind == TableSchema::Origin::Recorded &&
        C.has(static_cast<TableId>(I)))
      show(("SELECT rowid, * FROM " + schemas()[I].Name + " LIMIT 5").str());
  if (Shown < 3)
    show("SELECT name FROM sqlite_schema");
}

static int printRows(QueryRows &Rows) {
  Expected<size_t> Count =
      SqlFormat == RowFormat::Json  ? printRowsAsJson(outs(), Rows)
      : SqlFormat == RowFormat::Csv ? printRowsAsCsv(outs(), Rows)
                                    : printRowsAsText(outs(), Rows);
  outs().flush();
  if (!Count)
    return report(Count.takeError());
  if (SqlFormat == RowFormat::Text && outs().is_displayed())
    outs() << formatCount(static_cast<int64_t>(*Count))
           << (*Count == 1 ? " row\n" : " rows\n");
  return ExitDone;
}

int runSql() {
  std::vector<std::string> Paths(SqlWords.begin(), SqlWords.end());
  Expected<std::optional<std::string>> Sql = takeQuery(Paths);
  if (!Sql)
    return report(Sql.takeError());
  if (Paths.empty())
    return report(failure("sql: nothing to read",
                          "give files or folders, then the query: culprit sql "
                          "runs/42 \"SELECT count(*) FROM gpu_work\""));
  if (Error E = checkPaths("sql", Paths))
    return report(std::move(E));
  Expected<Case> C = readEvidence(Paths, SqlJobs);
  if (!C)
    return report(C.takeError());
  if (!reportUnread(*C))
    return ExitBadUse;
  if (!*Sql) {
    printTables(*C);
    return ExitDone;
  }
  Expected<std::unique_ptr<CaseQuery>> Query = CaseQuery::open(*C);
  if (!Query)
    return report(Query.takeError());
  if (SqlTimeout > 0)
    (*Query)->setTimeout(
        std::chrono::milliseconds(static_cast<int64_t>(SqlTimeout * 1000)));
  Expected<QueryRows> Rows = (*Query)->run(**Sql);
  if (!Rows)
    return report(Rows.takeError());
  return printRows(*Rows);
}

} // namespace culprit
