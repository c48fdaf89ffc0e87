//===- Kb.cpp - culprit kb --------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "KB/Check.h"
#include "KB/KnowledgeBase.h"
#include "KB/Store.h"
#include "Knowledge.h"
#include "Options.h"
#include "Settings.h"
#include "Support/Glob.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace llvm;

namespace culprit {

static cl::SubCommand KbCommand("kb", "Build, search, show or check the "
                                      "knowledge base");
static cl::list<std::string> Words(cl::Positional, cl::sub(KbCommand),
                                   cl::desc("build|search|show|check [...]"));
static cl::list<std::string>
    KbPaths("kb", cl::sub(KbCommand), cl::value_desc("PATH"),
            cl::desc("Also search PATH: a log, a folder of logs, or a built "
                     "store (repeatable)"));
static ConfigOption Config(KbCommand);
static cl::opt<unsigned, false, CountParser>
    Limit("limit", cl::sub(KbCommand), cl::init(5), cl::value_desc("N"),
          cl::desc("Results of a search"));
static cl::opt<std::string> Output("o", cl::sub(KbCommand),
                                   cl::value_desc("FILE"),
                                   cl::desc("Store that 'build' writes"));
static cl::opt<bool> Curated("curated", cl::sub(KbCommand),
                             cl::desc("Check for the sections of a curated "
                                      "entry too"));
static cl::opt<OutputFormat, false, ChoiceParser<OutputFormat>>
    Format("format", cl::sub(KbCommand), cl::init(OutputFormat::Text),
           cl::desc("Form of the result"),
           cl::values(clEnumValN(OutputFormat::Text, "text", "For people"),
                      clEnumValN(OutputFormat::Json, "json", "For programs")));

static int search(ArrayRef<std::string> Arguments) {
  Expected<KnowledgeBase> KB = openKnowledge(KbPaths);
  if (!KB)
    return report(KB.takeError());
  std::string Query = join(Arguments, " ");
  if (Query == "-") {
    ErrorOr<std::unique_ptr<MemoryBuffer>> Input = MemoryBuffer::getSTDIN();
    if (!Input)
      return report(failure("standard input: " + Input.getError().message()));
    Query = (*Input)->getBuffer().str();
  }
  if (StringRef(Query).trim().empty())
    return report(failure("kb search: no query",
                          "say what you see: culprit kb search 'loss is nan "
                          "after warm-up', or pipe a log into 'kb search -'"));
  Expected<SearchResult> Found = KB->search(Query, Limit);
  if (!Found)
    return report(Found.takeError());
  if (Format == OutputFormat::Json)
    outs() << formatv("{0:2}", searchJson(*Found)) << '\n';
  else
    printSearchText(outs(), *Found);
  return ExitDone;
}

static int show(ArrayRef<std::string> Arguments) {
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
      if (Format == OutputFormat::Json)
        All.push_back(entryJson(*E));
      else
        printEntryText(outs(), *E);
    }
  }
  if (Format == OutputFormat::Json)
    outs() << formatv("{0:2}", json::Value(std::move(All))) << '\n';
  return Exit;
}

static int check(ArrayRef<std::string> Arguments) {
  Expected<Vocabulary> V = openVocabulary();
  if (!V)
    return report(V.takeError());
  std::vector<std::string> Paths = Arguments;
  if (Paths.empty()) {
    Expected<std::string> Home = homeFolder();
    if (!Home)
      return report(Home.takeError());
    Paths.push_back(*Home + "/kb");
  }
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
  if (Output.empty())
    return report(failure("kb build: no store named",
                          "say where to write it: culprit kb build -o "
                          "team.sqlite ISSUES.md"));
  Expected<Vocabulary> V = openVocabulary();
  if (!V)
    return report(V.takeError());
  std::vector<std::string> Paths = Arguments;
  std::string Root; // the shipped entries are cited as kb/..., wherever it is
  if (Paths.empty()) {
    Expected<std::string> Home = homeFolder();
    if (!Home)
      return report(Home.takeError());
    Root = *Home;
    Paths.push_back(Root + "/kb");
  }
  Expected<std::vector<std::string>> Files = expandLogs(Paths);
  if (!Files)
    return report(Files.takeError());
  Expected<BuildResult> Built = buildStore(*Files, Output, *V, Root);
  if (!Built)
    return report(Built.takeError());
  report(Built->Remarks);
  outs() << Output << ": "
         << (Built->Written ? "built" : "up to date") << ", "
         << Built->Entries << " entries of " << Built->Files << " files, "
         << Built->Parsed << " of them read\n";
  return ExitDone;
}

int runKb() {
  if (Words.empty())
    return report(failure("kb: nothing to do",
                          "one of 'build', 'search', 'show', 'check' follows"));
  std::vector<std::string> Arguments(Words.begin() + 1, Words.end());
  StringRef Verb = Words[0];
  if (Verb == "search")
    return search(Arguments);
  if (Verb == "show")
    return show(Arguments);
  if (Verb == "check")
    return check(Arguments);
  if (Verb == "build")
    return build(Arguments);
  std::vector<std::string> Known = {"build", "search", "show", "check"};
  std::string Close = closestName(Verb, Known);
  return report(failure("kb: unknown verb '" + Verb + "'",
                        Close.empty() ? "one of build, search, show, check"
                                      : "did you mean '" + Close + "'?"));
}

} // namespace culprit
