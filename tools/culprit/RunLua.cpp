//===- RunLua.cpp - culprit run-lua -----------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "Detect/Watchdog.h"
#include "Detectors.h"
#include "Evidence.h"
#include "Knowledge.h"
#include "Options.h"
#include "Script/Snippet.h"
#include "Settings.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

using namespace llvm;

namespace culprit {

static cl::SubCommand RunLuaCommand("run-lua",
                                    "Try a piece of Lua on a case");
static cl::list<std::string> RunLuaWords(cl::Positional, cl::sub(RunLuaCommand),
                                         cl::desc("FILE|-e CODE [PATH...]"));
static cl::opt<std::string>
    Code("e", cl::sub(RunLuaCommand), cl::value_desc("CODE"),
         cl::desc("Run CODE and print what it gives: -e 'case'"));
static cl::list<std::string>
    CasePaths("case", cl::sub(RunLuaCommand), cl::value_desc("PATH"),
              cl::desc("Read the case from PATH (repeatable)"));
static cl::opt<unsigned, false, CountParser>
    RunLuaJobs("jobs", cl::sub(RunLuaCommand), cl::init(0), cl::value_desc("N"),
               cl::desc("Threads (one a core)"));
static ConfigOption RunLuaConfig(RunLuaCommand);

/// The snippet that was given, and the paths of the case.
static Expected<Snippet> readSnippet(std::vector<std::string> &Paths) {
  if (Code.getNumOccurrences()) {
    Paths.insert(Paths.begin(), RunLuaWords.begin(), RunLuaWords.end());
    return Snippet{"-e", Code, /*Typed=*/true};
  }
  if (RunLuaWords.empty())
    return failure("run-lua: nothing to run",
                   "give a file of Lua, or code: culprit run-lua -e "
                   "'case.gpu_work:top(3, \"dur\")' trace.json");
  Paths.insert(Paths.begin(), RunLuaWords.begin() + 1, RunLuaWords.end());
  ErrorOr<std::unique_ptr<MemoryBuffer>> Text =
      MemoryBuffer::getFileOrSTDIN(RunLuaWords.front(), /*IsText=*/true);
  if (!Text)
    return failure(RunLuaWords.front() + ": " + Text.getError().message(),
                   "give a file of Lua, or code with -e");
  return Snippet{RunLuaWords.front(), (*Text)->getBuffer().str()};
}

/// Adds the modules that lie in `lib` beside the detectors of the project and
/// beside the snippet.
static Error addModules(StringRef File, LoadSettings &Settings) {
  Expected<std::vector<std::string>> Folders = detectorFolders({});
  if (!Folders)
    return Folders.takeError();
  Folders->push_back(sys::path::parent_path(File).str());
  auto Modules = std::make_shared<ModuleSet>();
  if (Settings.Modules)
    *Modules = *Settings.Modules;
  for (StringRef Folder : *Folders)
    if (Error E = Modules->addFolder(Folder.empty() ? "lib"
                                                    : (Folder + "/lib").str()))
      return E;
  Settings.Modules = std::move(Modules);
  return Error::success();
}

/// Runs \p What under the eye of the watchdog, whose Outcome holds the error.
static Outcome runUnderWatch(Snippet What, Case Evidence,
                             SnippetSettings Settings) {
  // Where it hangs, its thread goes on with all of these.
  struct Used {
    Snippet What;
    Case Evidence;
    SnippetSettings Settings;
  };
  auto U = std::make_shared<const Used>(
      Used{std::move(What), std::move(Evidence), std::move(Settings)});
  auto Failed = [](DetectorError E) {
    Outcome Out;
    Out.Error = std::move(E);
    return Out;
  };
  WatchedJobs Job;
  Job.Count = 1;
  Job.Limit = hangsAfter(U->Settings.Load.Bounds);
  Job.Do = [U, Failed](size_t) {
    std::optional<DetectorError> E =
        runSnippet(U->What, U->Evidence, U->Settings, outs());
    return E ? Failed(std::move(*E)) : Outcome();
  };
  Job.GiveUp = [U, Failed](size_t) {
    return Failed(hangs(U->What.Name, U->Settings.Load.Bounds,
                        "this is a fault of culprit, not of the code; report "
                        "it with both"));
  };
  return std::move(runWatched(std::move(Job), 1).front());
}

int runRunLua() {
  std::vector<std::string> Paths(CasePaths.begin(), CasePaths.end());
  Expected<Snippet> What = readSnippet(Paths);
  if (!What)
    return report(What.takeError());
  Expected<Vocabulary> Symptoms = openVocabulary();
  if (!Symptoms)
    return report(Symptoms.takeError());
  Expected<LoadSettings> Load = loadSettings(*Symptoms);
  if (!Load)
    return report(Load.takeError());
  if (Error E = addModules(What->Name, *Load))
    return report(std::move(E));

  Case Evidence = CaseBuilder().build();
  if (Paths.empty()) {
    report({{Severity::Note, "the case is empty", "--case PATH reads one"}});
  } else {
    if (Error E = checkPaths("run-lua", Paths))
      return report(std::move(E));
    Expected<Case> Read = readEvidence(Paths, RunLuaJobs);
    if (!Read)
      return report(Read.takeError());
    if (!reportUnread(*Read))
      return ExitBadUse;
    const InputSummary &First = Read->inputs().front();
    if (Read->inputs().size() == 1 && First.Format.empty() && !First.Failed)
      return report(failure(First.Path + ": no reader knows this format",
                            "'culprit list formats' names those it knows"));
    Evidence = std::move(*Read);
  }
  const Outcome Result =
      runUnderWatch(std::move(*What), std::move(Evidence),
                    SnippetSettings{std::move(*Load), outputWidth()});
  const std::optional<DetectorError> &Failed = Result.Error;
  if (!Failed)
    return ExitDone;
  outs().flush();
  // As of a detector, without a name before it.
  std::string Text = Failed->File;
  if (Failed->Line)
    Text += ":" + std::to_string(Failed->Line);
  Text += ": " + Failed->Message;
  for (const CodePlace &Caller : Failed->CalledFrom)
    Text += "\nnote: called from " +
            (Caller.File == Failed->File ? "line " : Caller.File + ":") +
            std::to_string(Caller.Line);
  int Exit = report(failure(Text, Failed->Hint));
  if (Result.Abandoned)
    exitAtOnce(Exit);
  return Exit;
}

} // namespace culprit
