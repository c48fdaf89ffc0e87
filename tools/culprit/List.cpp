//===- List.cpp - culprit list ----------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "Detectors.h"
#include "KB/TextWrap.h"
#include "Knowledge.h"
#include "Options.h"
#include "Readers/Reader.h"
#include "Support/Glob.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

using namespace llvm;

namespace culprit {

static cl::SubCommand ListCommand("list", "List detectors, symptoms, classes, "
                                          "tables, formats or entries");
static cl::opt<std::string>
    What(cl::Positional, cl::sub(ListCommand), cl::init("detectors"),
         cl::desc("[detectors|symptoms|classes|tables|formats|entries]"));
static cl::list<std::string>
    Plugins("plugins", cl::sub(ListCommand), cl::value_desc("DIR"),
            cl::desc("Also list the detectors of DIR (repeatable)"));
static cl::list<std::string>
    KbPaths("kb", cl::sub(ListCommand), cl::value_desc("PATH"),
            cl::desc("Also list the entries of PATH (repeatable)"));
static cl::opt<OutputFormat, false, ChoiceParser<OutputFormat>>
    Format("format", cl::sub(ListCommand), cl::init(OutputFormat::Text),
           cl::value_desc("text|json|markdown"), cl::desc("Form of the list"),
           cl::values(clEnumValN(OutputFormat::Text, "text", "For people"),
                      clEnumValN(OutputFormat::Json, "json", "For programs"),
                      clEnumValN(OutputFormat::Markdown, "markdown",
                                 "For docs (tables only)")));

namespace {

struct Row {
  std::string Name, Text;
};

} // namespace

static int print(ArrayRef<Row> Rows) {
  if (Format == OutputFormat::Json) {
    json::Array Out;
    for (const Row &R : Rows)
      Out.push_back(json::Object{{"name", R.Name}, {"text", R.Text}});
    outs() << formatv("{0:2}", json::Value(std::move(Out))) << '\n';
    return ExitDone;
  }
  size_t Width = 0;
  for (const Row &R : Rows)
    Width = std::max(Width, R.Name.size());
  for (const Row &R : Rows)
    printWrapped(outs(), R.Text, R.Name + std::string(Width + 2 - R.Name.size(), ' '),
                 std::string(Width + 2, ' '), outputWidth());
  return ExitDone;
}

static int listDetectors() {
  Expected<Vocabulary> V = openVocabulary();
  if (!V)
    return report(V.takeError());
  Expected<DetectorSet> Set = openDetectors(Plugins, *V);
  if (!Set)
    return report(Set.takeError());
  std::vector<Row> Rows;
  for (const auto &D : Set->all())
    Rows.push_back({D->id(), D->info().Summary});
  print(Rows);
  int Exit = ExitDone;
  for (const BrokenDetector &B : Set->broken()) {
    Outcome O;
    O.Detector = B.Id;
    O.Error = B.Error;
    Exit = report(failure("detector " + describeFailure(O)));
  }
  return Exit;
}

static int listVocabulary(bool Symptoms) {
  Expected<Vocabulary> V = openVocabulary();
  if (!V)
    return report(V.takeError());
  std::vector<Row> Rows;
  if (Symptoms)
    for (const SymptomTerm &S : V->symptoms())
      Rows.push_back({S.Id, S.Text});
  else
    for (const ClassTerm &C : V->classes())
      Rows.push_back({C.Id, C.Layer + ": " + C.Definition});
  return print(Rows);
}

static int listEntries() {
  Expected<KnowledgeBase> KB = openKnowledge(KbPaths);
  if (!KB)
    return report(KB.takeError());
  std::vector<Row> Rows;
  for (const Entry &E : KB->entries())
    Rows.push_back({E.Id, E.Title});
  return print(Rows);
}

static int listFormats() {
  std::vector<Row> Rows;
  for (const Reader *R : readers())
    Rows.push_back({R->name().str(), R->about().str()});
  return print(Rows);
}

/// docs/tables.md, from the schema.
static int listTablesAsMarkdown() {
  outs() << "# Tables of a case\n\n"
            "Generated from `lib/Case/Tables.def` by `culprit list tables "
            "--format markdown`.\n\n"
            "Times are int64 nanoseconds since the start of the case. A value "
            "that was not recorded is null. Recorded\ntables come from files, "
            "derived ones are computed from them.\n";
  for (const TableSchema &T : schemas()) {
    outs() << "\n## " << T.Name << "\n\nOne row is " << T.RowIs << ". "
           << (T.Kind == TableSchema::Origin::Recorded ? "Recorded."
                                                       : "Derived.")
           << "\n\n| column | type | unit | meaning |\n|---|---|---|---|\n";
    for (const ColumnSchema &C : T.Columns)
      outs() << "| `" << C.Name << "` | " << toString(C.Type) << " | "
             << (C.Unit == "time" ? "ns, a point in time" : C.Unit) << " | "
             << C.Doc << " |\n";
  }
  return ExitDone;
}

static int listTables() {
  if (Format == OutputFormat::Markdown)
    return listTablesAsMarkdown();
  std::vector<Row> Rows;
  for (const TableSchema &T : schemas()) {
    std::vector<std::string> Names;
    for (const ColumnSchema &C : T.Columns)
      Names.push_back(C.Name.str());
    Rows.push_back({T.Name.str(), "one row is " + T.RowIs.str() + ": " +
                                      join(Names, ", ")});
  }
  return print(Rows);
}

int runList() {
  StringRef Kind = What;
  if (Kind == "detectors")
    return listDetectors();
  if (Kind == "symptoms" || Kind == "classes")
    return listVocabulary(Kind == "symptoms");
  if (Kind == "entries")
    return listEntries();
  if (Kind == "tables")
    return listTables();
  if (Kind == "formats")
    return listFormats();
  std::vector<std::string> Known = {"detectors", "symptoms", "classes",
                                    "tables",    "formats",  "entries"};
  std::string Close = closestName(Kind, Known);
  return report(failure("list: unknown kind '" + Kind + "'",
                        (Close.empty() ? "" : "did you mean '" + Close +
                                                  "'? ") +
                            "one of " + join(Known, ", ")));
}

} // namespace culprit
