//===- List.cpp - culprit list ----------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "DetectorText.h"
#include "Detectors.h"
#include "KB/TextWrap.h"
#include "Knowledge.h"
#include "Options.h"
#include "Readers/Reader.h"
#include "Report/DetectorPage.h"
#include "Script/DocComment.h"
#include "Settings.h"
#include "Support/Glob.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/WithColor.h"

using namespace llvm;

namespace culprit {

static cl::SubCommand ListCommand("list", "List detectors, symptoms, classes, "
                                          "tables, formats, entries or modules");
static cl::opt<std::string> ListWhat(
    cl::Positional, cl::sub(ListCommand), cl::init("detectors"),
    cl::desc("[detectors|symptoms|classes|tables|formats|entries|modules]"));
static cl::list<std::string>
    ListPlugins("plugins", cl::sub(ListCommand), cl::value_desc("DIR"),
                cl::desc("Also list the detectors of DIR (repeatable)"));
static cl::opt<std::string>
    ListOnly("only", cl::sub(ListCommand), cl::value_desc("GLOBS"),
             cl::desc("These detectors: 'gpu/*,-gpu/idle'"));
static cl::opt<std::string>
    OfGroup("group", cl::sub(ListCommand), cl::value_desc("NAME"),
            cl::desc("Detectors of a group: gpu, training, ..."));
static cl::opt<std::string>
    OfSymptom("symptom", cl::sub(ListCommand), cl::value_desc("ID"),
              cl::desc("Detectors that may report a symptom"));
static cl::opt<std::string>
    OfTable("table", cl::sub(ListCommand), cl::value_desc("NAME"),
            cl::desc("Detectors that need a table"));
static ConfigOption ListConfig(ListCommand);
static cl::list<std::string>
    ListKbPaths("kb", cl::sub(ListCommand), cl::value_desc("PATH"),
                cl::desc("Also list the entries of PATH (repeatable)"));
static cl::opt<OutputFormat, false, ChoiceParser<OutputFormat>> ListFormat(
    "format", cl::sub(ListCommand), cl::init(OutputFormat::Text),
    cl::value_desc("text|json|markdown"), cl::desc("Form of the list"),
    cl::values(clEnumValN(OutputFormat::Text, "text", "For people"),
               clEnumValN(OutputFormat::Json, "json", "For programs"),
               clEnumValN(OutputFormat::Markdown, "markdown",
                          "For docs (tables, detectors)")));

namespace {

struct Row {
  std::string Name, Text;
};

} // namespace

static int print(ArrayRef<Row> Rows) {
  if (ListFormat == OutputFormat::Json) {
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

/// Fails for a value of a filter that is none of \p Known.
static Error checkFilter(StringRef Option, StringRef Kind, StringRef Value,
                         ArrayRef<std::string> Known, StringRef All) {
  if (Value.empty() || is_contained(Known, Value))
    return Error::success();
  std::string Close = closestName(Value, Known);
  return failure("--" + Option + ": there is no " + Kind + " '" + Value + "'",
                 Close.empty() ? All : "did you mean '" + Close + "'?");
}

static Error checkFilters(const DetectorSet &Set, const Vocabulary &V) {
  std::vector<std::string> Symptoms, Tables, Groups;
  for (const SymptomTerm &S : V.symptoms())
    Symptoms.push_back(S.Id);
  for (const TableSchema &T : schemas())
    Tables.push_back(T.Name.str());
  for (const std::string &Id : Set.ids())
    if (std::string G = StringRef(Id).split('/').first.str();
        !is_contained(Groups, G))
      Groups.push_back(G);
  if (Error E = checkFilter("symptom", "symptom", OfSymptom, Symptoms,
                            "'culprit list symptoms' names them all"))
    return E;
  if (Error E = checkFilter("table", "table", OfTable, Tables,
                            "tables: " + join(Tables, ", ")))
    return E;
  return checkFilter("group", "group", OfGroup, Groups,
                     "groups: " + join(Groups, ", "));
}

static bool needsTable(const Needs &N, StringRef Table) {
  auto IsOf = [&](const Need &One) { return schema(One.Table).Name == Table; };
  return llvm::any_of(N.All, IsOf) ||
         llvm::any_of(N.AnyOf, [&](const std::vector<Need> &Alternatives) {
           return llvm::any_of(Alternatives, IsOf);
         });
}

/// The detectors that the filters leave.
static std::vector<const DetectorInfo *> wanted(const DetectorSet &Set) {
  std::optional<GlobList> Globs;
  if (!ListOnly.empty())
    Globs.emplace(ListOnly);
  std::vector<const DetectorInfo *> Out;
  for (const auto &D : Set.all()) {
    const DetectorInfo &I = D->info();
    if ((!Globs || Globs->contains(I.Id)) &&
        (OfGroup.empty() || StringRef(I.Id).starts_with(OfGroup + "/")) &&
        (OfSymptom.empty() || is_contained(I.Symptoms, OfSymptom)) &&
        (OfTable.empty() || needsTable(I.Needs, OfTable)))
      Out.push_back(&I);
  }
  return Out;
}

static int listDetectors() {
  Expected<Vocabulary> V = openVocabulary();
  if (!V)
    return report(V.takeError());
  Expected<DetectorSet> Set = openDetectors(ListPlugins, *V);
  if (!Set)
    return report(Set.takeError());
  if (Error E = checkFilters(*Set, *V))
    return report(std::move(E));
  std::vector<std::string> Folders = cantFail(detectorFolders(ListPlugins));
  Expected<std::vector<OptionSetting>> Settings = optionSettings(*Set, {});
  if (!Settings)
    return report(Settings.takeError());
  std::vector<const DetectorInfo *> Wanted = wanted(*Set);
  if (ListFormat == OutputFormat::Markdown) {
    printDetectorIndex(outs(), Set->all());
  } else if (ListFormat == OutputFormat::Json) {
    json::Array Out;
    for (const DetectorInfo *I : Wanted)
      Out.push_back(detectorJson(*I, cantFail(chooseOptions(*I, *Settings)),
                                 originOf(I->File, Folders)));
    outs() << formatv("{0:2}", json::Value(std::move(Out))) << '\n';
  } else {
    std::vector<Row> Rows;
    for (const DetectorInfo *I : Wanted) {
      std::string Origin = originOf(I->File, Folders);
      Rows.push_back({I->Id, Origin == "shipped"
                                 ? I->Summary
                                 : I->Summary + " [" + Origin + "]"});
    }
    print(Rows);
    if (Rows.empty())
      WithColor::note(errs()) << "no detector is so: 'culprit list' names all "
                              << Set->all().size() << '\n';
  }
  return reportBroken(*Set);
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
  Expected<KnowledgeBase> KB = openKnowledge(ListKbPaths);
  if (!KB)
    return report(KB.takeError());
  std::vector<Row> Rows;
  for (const Entry &E : KB->entries())
    Rows.push_back({E.Id, E.Title});
  return print(Rows);
}

/// What detectors may require, with the first words of each file.
static int listModules() {
  Expected<std::vector<std::string>> Folders = detectorFolders(ListPlugins);
  if (!Folders)
    return report(Folders.takeError());
  ModuleSet Modules;
  for (const std::string &Folder : *Folders)
    if (Error E = Modules.addFolder(Folder + "/lib"))
      return report(std::move(E));
  std::vector<Row> Rows;
  for (const auto &[Name, M] : Modules.all()) {
    std::vector<DocSection> Doc = readDoc(M.Source);
    std::string Origin = originOf(M.File, *Folders);
    Rows.push_back({Name, (Doc.empty() ? "" : Doc.front().Text) +
                              (Origin == "shipped" ? "" : " [" + Origin + "]")});
  }
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
  if (ListFormat == OutputFormat::Markdown)
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
  StringRef Kind = ListWhat;
  if (Kind == "detectors")
    return listDetectors();
  for (const cl::opt<std::string> *Filter :
       {&ListOnly, &OfGroup, &OfSymptom, &OfTable})
    if (!Filter->empty())
      return report(failure("list: --" + Filter->ArgStr +
                                " chooses detectors, not " + Kind,
                            "leave it out, or: culprit list detectors --" +
                                Filter->ArgStr + " " + *Filter));
  if (Kind == "symptoms" || Kind == "classes")
    return listVocabulary(Kind == "symptoms");
  if (Kind == "entries")
    return listEntries();
  if (Kind == "tables")
    return listTables();
  if (Kind == "formats")
    return listFormats();
  if (Kind == "modules")
    return listModules();
  std::vector<std::string> Known = {"detectors", "symptoms", "classes",
                                    "tables",    "formats",  "entries",
                                    "modules"};
  std::string Close = closestName(Kind, Known);
  return report(failure("list: unknown kind '" + Kind + "'",
                        (Close.empty() ? "" : "did you mean '" + Close +
                                                  "'? ") +
                            "one of " + join(Known, ", ")));
}

} // namespace culprit
