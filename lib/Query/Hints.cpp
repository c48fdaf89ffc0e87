//===- Hints.cpp ------------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Query/Hints.h"
#include "Case/Schema.h"
#include "Query/Functions.h"
#include "Support/Glob.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <vector>

using namespace llvm;

namespace culprit {

/// The tables whose names are words of \p Sql, in the order of the schema.
static std::vector<const TableSchema *> tablesIn(StringRef Sql) {
  std::vector<std::string> Words;
  std::string Word;
  for (char C : (Sql + " ").str()) {
    if (isAlnum(C) || C == '_') {
      Word += toLower(C);
      continue;
    }
    if (!Word.empty())
      Words.push_back(std::move(Word));
    Word.clear();
  }
  std::vector<const TableSchema *> Out;
  for (const TableSchema &T : schemas())
    if (is_contained(Words, T.Name.str()))
      Out.push_back(&T);
  return Out;
}

static std::string tableHint(StringRef Unknown) {
  std::vector<std::string> Names;
  for (const TableSchema &T : schemas())
    Names.push_back(T.Name.str());
  std::string Close = closestName(Unknown, Names);
  return (Close.empty() ? "" : "did you mean '" + Close + "'? ") +
         "'culprit sql PATH' lists the tables";
}

static std::string columnHint(StringRef Sql, StringRef Unknown) {
  if (Sql.contains("\"" + Unknown.str() + "\""))
    return "text stands in single quotes: '" + Unknown.str() + "'";
  StringRef Name = Unknown.contains('.') ? Unknown.rsplit('.').second : Unknown;
  std::vector<std::string> Names;
  std::vector<const TableSchema *> Tables = tablesIn(Sql);
  for (const TableSchema *T : Tables)
    for (const ColumnSchema &C : T->Columns)
      Names.push_back(C.Name.str());
  Names.push_back("path");
  Names.push_back("rowid");
  std::string Close = closestName(Name, Names);
  if (!Close.empty())
    return "did you mean '" + Close + "'?";
  if (Tables.size() != 1)
    return "'culprit list tables' has the columns of every table";
  Names.resize(Tables[0]->Columns.size());
  return "columns of " + Tables[0]->Name.str() + ": " + join(Names, ", ");
}

static std::string functionHint(StringRef Unknown) {
  std::vector<std::string> Names, Calls;
  for (const SqlFunction &F : sqlFunctions()) {
    Names.push_back(F.name().str());
    Calls.push_back(F.Call.str());
  }
  for (StringRef Known :
       {"count", "sum", "avg", "min", "max", "total", "group_concat", "round",
        "abs", "coalesce", "iif", "instr", "length", "lower", "upper",
        "replace", "substr", "printf", "json_extract", "row_number", "lag",
        "lead", "rank", "trim"})
    Names.push_back(Known.str());
  std::string Close = closestName(Unknown, Names);
  return (Close.empty() ? "" : "did you mean '" + Close + "'? ") +
         "culprit adds " + join(Calls, ", ");
}

/// A column whose name is a word of SQL stops the parser.
static std::string syntaxHint(StringRef Message) {
  StringRef Word = Message.split('"').second.split('"').first;
  for (const TableSchema &T : schemas())
    if (T.find(Word.lower()))
      return "'" + Word.str() + "' is a word of SQL: as a column, write it \"" +
             Word.lower() + "\"";
  std::vector<std::string> Keywords = {"SELECT", "FROM",  "WHERE", "GROUP",
                                       "ORDER",  "LIMIT", "JOIN",  "HAVING",
                                       "WITH",   "ON",    "BY",    "DISTINCT"};
  std::string Close = closestName(Word.upper(), Keywords);
  return Close.empty() || Close == Word.upper() ? ""
                                                : "did you mean " + Close + "?";
}

Error describeSqlError(StringRef Sql, StringRef Message, int Offset) {
  std::string Place;
  if (Offset >= 0 && static_cast<size_t>(Offset) <= Sql.size()) {
    StringRef Before = Sql.take_front(static_cast<size_t>(Offset));
    size_t Line = Before.count('\n') + 1;
    size_t Column = Before.size() - (Before.rfind('\n') + 1) + 1;
    if (Before.rfind('\n') == StringRef::npos)
      Column = Before.size() + 1;
    Place = (Line > 1 ? "line " + std::to_string(Line) + ", " : "") +
            "column " + std::to_string(Column) + ": ";
  }
  std::string Hint;
  StringRef Unknown = Message.rsplit(": ").second;
  if (Message.starts_with("no such table"))
    Hint = tableHint(Unknown);
  else if (Message.starts_with("no such column"))
    Hint = columnHint(Sql, Unknown);
  else if (Message.starts_with("no such function"))
    Hint = functionHint(Unknown);
  else if (Message.ends_with("may not be modified"))
    Hint = "a case is read-only: start with SELECT or WITH";
  else if (Message.starts_with("near "))
    Hint = syntaxHint(Message);
  return failure("query: " + Place + Message, Hint);
}

} // namespace culprit
