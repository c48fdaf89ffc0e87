//===- Kb.cpp - culprit kb --------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "KB/Check.h"
#include "KB/KnowledgeBase.h"
#include "KB/LogFix.h"
#include "KB/Store.h"
#include "KbVerbs.h"
#include "Knowledge.h"
#include "Options.h"
#include "Settings.h"
#include "Support/Glob.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"

using namespace llvm;

namespace culprit {

cl::SubCommand &kbCommand() {
  static cl::SubCommand Command(
      "kb", "Search, show, check, build and write the knowledge base");
  return Command;
}

static cl::list<std::string> KbWords(cl::Positional, cl::sub(kbCommand()),
                                     cl::desc("VERB [...]"));
static cl::list<std::string>
    KbPaths("kb", cl::sub(kbCommand()), cl::value_desc("PATH"),
            cl::desc("Also read PATH: a log, a folder of logs, or a built "
                     "store (repeatable)"));
static ConfigOption KbConfig(kbCommand());
static cl::opt<unsigned, false, CountParser>
    Limit("limit", cl::sub(kbCommand()), cl::init(5), cl::value_desc("N"),
          cl::desc("search: results"));
static cl::opt<std::string> KbOutput(
    "o", cl::sub(kbCommand()), cl::value_desc("FILE"),
    cl::desc("build: the store; rules, export: where the result goes"));
static cl::opt<bool> Curated("curated", cl::sub(kbCommand()),
                             cl::desc("check: ask for the sections of a "
                                      "curated entry too"));
static cl::opt<bool> KbFix("fix", cl::sub(kbCommand()),
                           cl::desc("check: bring labels, statuses, dates and "
                                    "line ends to the common form first"));
static cl::opt<std::string>
    Layer("layer", cl::sub(kbCommand()), cl::value_desc("LAYER"),
          cl::desc("Only entries of this layer, such as numerics"));
static cl::opt<std::string>
    KbClass("class", cl::sub(kbCommand()), cl::value_desc("CLASS"),
            cl::desc("Only entries of this class; add: its class"));
static cl::opt<KbFormat, false, ChoiceParser<KbFormat>> KbOutputFormat(
    "format", cl::sub(kbCommand()), cl::init(KbFormat::Text),
    cl::desc("Form of the result"),
    cl::values(clEnumValN(KbFormat::Text, "text", "For people"),
               clEnumValN(KbFormat::Json, "json", "For programs"),
               clEnumValN(KbFormat::Markdown, "markdown", "For a repository"),
               clEnumValN(KbFormat::Tsv, "tsv", "For a spreadsheet"),
               clEnumValN(KbFormat::Index, "index",
                          "export: pages by layer, symptom and error text, "
                          "into the folder -o")));

const KbOptions &kbOptions() {
  static const KbOptions Options = {KbPaths,  KbOutputFormat, Limit,
                                    KbOutput, Layer,          KbClass};
  return Options;
}

Error checkFormat(StringRef Verb, ArrayRef<KbFormat> Allowed) {
  static constexpr StringRef Names[] = {"text", "json", "markdown", "tsv",
                                         "index"};
  if (is_contained(Allowed, KbOutputFormat))
    return Error::success();
  std::vector<StringRef> Known;
  for (KbFormat F : Allowed)
    Known.push_back(Names[static_cast<size_t>(F)]);
  return failure("kb " + Verb + ": there is no form '" +
                     Names[static_cast<size_t>(KbOutputFormat.getValue())] +
                     "' of it",
                 "one of " + join(Known, ", "));
}

static int show(ArrayRef<std::string> Arguments) {
  if (Error E = checkFormat("show", {KbFormat::Text, KbFormat::Json}))
    return report(std::move(E));
  Expected<KnowledgeBase> KB = openKnowledge(KbPaths);
  if (!KB)
    return report(KB.takeError());
  if (Arguments.empty())
    return report(failure("kb show: no entry named",
                          "'culprit list entries' names them all"));
  int Exit = ExitDone;
  json::Array All;
  for (const std::string &Id : Arguments) {
    std::vector<const Entry *> Entries = KB->find(Id);
    if (Entries.empty()) {
      std::string Close = KB->closest(Id);
      Exit = report(failure("no entry or class '" + Id + "'",
                            Close.empty() ? "'culprit list entries' names them "
                                            "all"
                                          : "did you mean '" + Close + "'?"));
    }
    for (const Entry *E : Entries) {
      if (KbOutputFormat == KbFormat::Json)
        All.push_back(entryJson(*E));
      else
        printEntryText(outs(), *E);
    }
  }
  if (KbOutputFormat == KbFormat::Json)
    outs() << formatv("{0:2}", json::Value(std::move(All))) << '\n';
  return Exit;
}

/// Rewrites the logs \p Paths in the common form and prints what changed.
static Error fixLogs(ArrayRef<std::string> Paths) {
  Expected<std::vector<std::string>> Files = expandLogs(Paths);
  if (!Files)
    return Files.takeError();
  for (const std::string &File : *Files) {
    Expected<LogFix> Fixed = fixLogFile(File);
    if (!Fixed)
      return Fixed.takeError();
    for (const LineChange &C : Fixed->Changes)
      outs() << File << ':' << C.Line << ": " << C.From << "\n  now: " << C.To
             << '\n';
    if (Fixed->Plainer)
      outs() << File << ": line ends are plain now, without a byte-order mark\n";
  }
  return Error::success();
}

/// What check and build read: \p Arguments and --kb, else the markdown among
/// the project's logs; nothing where there is none.
static Expected<std::vector<std::string>>
logsToRead(ArrayRef<std::string> Arguments) {
  std::vector<std::string> Paths = Arguments;
  Paths.insert(Paths.end(), KbPaths.begin(), KbPaths.end());
  if (!Paths.empty())
    return Paths;
  Expected<std::vector<std::string>> Logs = projectLogs();
  if (Logs)
    erase_if(*Logs, [](StringRef Path) {
      return Path.ends_with(".sqlite") || Path.ends_with(".db");
    });
  return Logs;
}

static int check(ArrayRef<std::string> Arguments) {
  Expected<Vocabulary> V = openVocabulary();
  if (!V)
    return report(V.takeError());
  Expected<std::vector<std::string>> Given = logsToRead(Arguments);
  if (!Given)
    return report(Given.takeError());
  std::vector<std::string> Paths = std::move(*Given);
  if (Paths.empty()) {
    // Nobody means to rewrite the installation.
    if (KbFix)
      return report(failure("kb check --fix: no log of a project here",
                            "name it: culprit kb check --fix ISSUES.md"));
    Expected<std::string> Home = homeFolder();
    if (!Home)
      return report(Home.takeError());
    Paths.push_back(*Home + "/kb");
    noteShipped();
  }
  if (KbFix)
    if (Error E = fixLogs(Paths))
      return report(std::move(E));
  CheckOptions Options;
  Options.Curated = Curated;
  Expected<CheckReport> Report = checkLogs(Paths, *V, Options);
  if (!Report)
    return report(Report.takeError());
  report(Report->Diagnostics);
  printCheckSummary(outs(), *Report);
  return Report->refused() ? ExitRefused : ExitDone;
}

static int build(ArrayRef<std::string> Arguments) {
  if (KbOutput.empty())
    return report(failure("kb build: no store named",
                          "say where to write it: culprit kb build -o "
                          "team.sqlite ISSUES.md"));
  Expected<Vocabulary> V = openVocabulary();
  if (!V)
    return report(V.takeError());
  Expected<std::vector<std::string>> Given = logsToRead(Arguments);
  if (!Given)
    return report(Given.takeError());
  std::vector<std::string> Paths = std::move(*Given);
  std::string Root; // the shipped entries are cited as kb/..., wherever it is
  if (Paths.empty()) {
    Expected<std::string> Home = homeFolder();
    if (!Home)
      return report(Home.takeError());
    Root = *Home;
    Paths.push_back(Root + "/kb");
    if (configFile() != "none") // Our own build asks for them.
      noteShipped();
  }
  Expected<std::vector<std::string>> Files = expandLogs(Paths);
  if (!Files)
    return report(Files.takeError());
  Expected<BuildResult> Built = buildStore(*Files, KbOutput, *V, Root);
  if (!Built)
    return report(Built.takeError());
  report(Built->Remarks);
  outs() << KbOutput << ": " << (Built->Written ? "built" : "up to date")
         << ", " << Built->Entries
         << (Built->Entries == 1 ? " entry" : " entries") << " of "
         << Built->Files << (Built->Files == 1 ? " file, " : " files, ")
         << Built->Parsed << " of them read\n";
  return ExitDone;
}

namespace {

struct Verb {
  StringRef Name;
  int (*Run)(ArrayRef<std::string> Arguments);
  StringRef Arguments, Summary;
};

constexpr Verb Verbs[] = {
    {"search", kbSearch, "WORDS...|- [--log FILE]",
     "Find causes by what one sees, an error message or a log"},
    {"show", show, "ENTRY|CLASS...", "Print entries in full"},
    {"check", check, "[PATH...]", "Lint logs, with reasons and lines"},
    {"add", kbAdd, "TITLE... [--from REPORT]", "Add an entry to a log"},
    {"import", kbImport, "FILE|FOLDER...",
     "Drafts of GitHub issues (JSON) and post-mortems"},
    {"similar", kbSimilar, "[PATH...]", "Find near duplicates"},
    {"strategy", kbStrategy, "[PATH...] [--tests DIR]",
     "What to test first, by what went wrong"},
    {"rules", kbRules, "[PATH...]",
     "Preventions as rules for people and coding agents"},
    {"stats", kbStats, "[PATH...]", "Count entries, gaps and coverage"},
    {"export", kbExport, "[PATH...] --format FORM",
     "Entries as json, markdown or tsv, or pages that lead to them"},
    {"build", build, "-o STORE [PATH...]", "Make a store of logs"},
};

} // namespace

static std::string verbNames() {
  std::string Out;
  for (const Verb &V : Verbs)
    Out += (Out.empty() ? "" : ", ") + V.Name.str();
  return Out;
}

int runKb() {
  if (KbWords.empty())
    return report(failure("kb: nothing to do",
                          "one of these follows: " + verbNames() +
                              "; 'culprit kb help' says what they do"));
  std::vector<std::string> Arguments(KbWords.begin() + 1, KbWords.end());
  StringRef Name = KbWords[0];
  if (Name == "help") {
    for (const Verb &V : Verbs)
      outs() << formatv("culprit kb {0,-9}{1,-26} {2}\n", V.Name, V.Arguments,
                        V.Summary);
    outs() << "\nwithout PATH: the logs of the project ('kb:' of "
              ".culprit.yaml, or ISSUES.md),\nelse the entries that culprit "
              "comes with. 'culprit help kb' lists the options.\n";
    return ExitDone;
  }
  std::vector<std::string> Known;
  for (const Verb &V : Verbs) {
    if (V.Name == Name)
      return V.Run(Arguments);
    Known.push_back(V.Name.str());
  }
  std::string Close = closestName(Name, Known);
  return report(failure("kb: unknown verb '" + Name + "'",
                        Close.empty() ? "one of " + verbNames()
                                      : "did you mean '" + Close + "'?"));
}

} // namespace culprit
