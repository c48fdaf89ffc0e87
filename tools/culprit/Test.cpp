//===- Test.cpp - culprit test ----------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "Evidence.h"
#include "Knowledge.h"
#include "Options.h"
#include "Settings.h"
#include "Support/Parallel.h"
#include "TestRuns.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/WithColor.h"
#include <chrono>
#include <set>
#include <thread>

using namespace llvm;

namespace culprit {

static cl::SubCommand TestCommand("test", "Run the cases of detectors");
static cl::list<std::string>
    TestWhat(cl::Positional, cl::sub(TestCommand),
             cl::desc("[ID|FILE.lua|FILE.test|FOLDER...]"));
static cl::opt<bool>
    Watch("watch", cl::sub(TestCommand),
          cl::desc("Run again whenever a file of theirs changes"));
static cl::opt<bool>
    Verbose("verbose", cl::sub(TestCommand),
            cl::desc("Name every case and what it logged (-v)"));
static cl::alias VerboseShort("v", cl::aliasopt(Verbose),
                              cl::desc("As --verbose"));
static cl::opt<std::string>
    Filter("filter", cl::sub(TestCommand), cl::value_desc("GLOB"),
           cl::desc("Run only the cases so named: '*idle*'"));
static cl::list<std::string>
    TestPlugins("plugins", cl::sub(TestCommand), cl::value_desc("DIR"),
                cl::desc("Also know the detectors of DIR (repeatable)"));
static cl::opt<OutputFormat, false, ChoiceParser<OutputFormat>> TestFormat(
    "format", cl::sub(TestCommand), cl::init(OutputFormat::Text),
    cl::value_desc("text|json"), cl::desc("Form of the results"),
    cl::values(clEnumValN(OutputFormat::Text, "text", "For people"),
               clEnumValN(OutputFormat::Json, "json", "For programs")));
static cl::opt<unsigned, false, CountParser>
    TestJobs("jobs", cl::sub(TestCommand), cl::init(0), cl::value_desc("N"),
             cl::desc("Threads (one a core)"));
static ConfigOption TestConfig(TestCommand);

namespace {
/// The results of one go, and the files that they depend on.
struct Results {
  std::vector<TestRun> Runs;
  std::vector<Diagnostic> Problems; ///< It could not begin.
  std::set<std::string> Files;
};
} // namespace

/// Adds \p Path, and what lies in it if it is a folder.
static void addFiles(StringRef Path, std::set<std::string> &Into) {
  Into.insert(Path.str());
  constexpr size_t Most = 10'000; // a folder of dumps needs no more
  std::error_code EC;
  sys::fs::recursive_directory_iterator I(Path, EC), End;
  for (; I != End && !EC && Into.size() < Most; I.increment(EC))
    Into.insert(I->path());
}

static Results runAll(const Vocabulary &Words) {
  Results Out;
  std::vector<std::string> Folders(TestPlugins.begin(), TestPlugins.end());
  auto Held = std::make_unique<KnownDetectors>(Folders, Words);
  KnownDetectors &Known = *Held;
  std::vector<std::string> Arguments(TestWhat.begin(), TestWhat.end());
  for (const std::string &Given : Arguments)
    if (sys::fs::exists(Given))
      addFiles(Given, Out.Files);
  Expected<std::vector<TestTarget>> Targets = testTargets(Arguments, Known);
  if (!Targets) {
    Out.Problems = toDiagnostics(Targets.takeError());
    return Out;
  }
  Out.Runs.resize(Targets->size());
  inParallel(Targets->size(), threadCount(TestJobs), [&](size_t I) {
    Out.Runs[I] = runTarget((*Targets)[I], Filter, Known);
  });
  if (llvm::any_of(Out.Runs, [](const TestRun &R) { return R.abandoned(); }))
    static_cast<void>(Held.release()); // a thread goes on with one of them
  if (!Watch)
    return Out;
  for (const TestRun &R : Out.Runs) {
    Out.Files.insert(R.Files.begin(), R.Files.end());
    // Its folder tells of files that are new, and modules lie beside it.
    StringRef Folder = sys::path::parent_path(R.Lua);
    Out.Files.insert(Folder.empty() ? "." : Folder.str());
    SmallString<256> Modules(sys::path::parent_path(Folder));
    sys::path::append(Modules, "lib");
    if (sys::fs::is_directory(Modules))
      addFiles(Modules, Out.Files);
  }
  return Out;
}

static int print(const Results &All) {
  if (!All.Problems.empty()) {
    report(All.Problems);
    return ExitBadUse;
  }
  TestStyle Style;
  Style.Width = outputWidth();
  Style.Verbose = Verbose;
  Style.Color = WithColor(outs()).colorsEnabled();
  int Exit = TestFormat == OutputFormat::Json ? printRunsAsJson(All.Runs)
                                              : printRuns(All.Runs, Style);
  outs().flush();
  return Exit;
}

/// Changes when one of \p Files does.
static std::string stateOf(const std::set<std::string> &Files) {
  std::string Out;
  for (const std::string &File : Files) {
    sys::fs::file_status Status;
    if (sys::fs::status(File, Status)) {
      Out += "-;";
      continue;
    }
    Out += std::to_string(
               Status.getLastModificationTime().time_since_epoch().count()) +
           "," + std::to_string(Status.getSize()) + "," +
           std::to_string(Status.getUniqueID().getFile()) + ";";
  }
  return Out;
}

/// Runs until interrupted, if there is anything to watch.
static int watch(const Vocabulary &Words) {
  constexpr auto Pause = std::chrono::milliseconds(200);
  // What changed while the last go ran must start another, so the state is
  // taken before it.
  std::set<std::string> Files;
  for (;;) {
    std::string Before = stateOf(Files);
    Results All = runAll(Words);
    if (sys::Process::StandardOutIsDisplayed())
      outs() << "\033[H\033[2J\033[3J";
    print(All);
    // Where the arguments name nothing any more, what was there may come back.
    if (!All.Problems.empty())
      All.Files.insert(Files.begin(), Files.end());
    if (All.Files.empty())
      return ExitBadUse;
    if (All.Files != Files) {
      Files = std::move(All.Files);
      Before = stateOf(Files);
    }
    errs() << "watching " << Files.size() << " files; Ctrl-C ends\n";
    while (stateOf(Files) == Before)
      std::this_thread::sleep_for(Pause);
    // An editor may be halfway through.
    for (std::string Now = stateOf(Files);;) {
      std::this_thread::sleep_for(Pause / 4);
      std::string Then = stateOf(Files);
      if (Then == Now)
        break;
      Now = std::move(Then);
    }
    if (!sys::Process::StandardOutIsDisplayed())
      outs() << '\n';
  }
}

int runTest() {
  Expected<Vocabulary> Words = openVocabulary();
  if (!Words)
    return report(Words.takeError());
  if (Watch && TestFormat == OutputFormat::Json)
    return report(failure("test: --watch and --format=json do not go together",
                          "leave one of them out"));
  if (Watch)
    return watch(*Words);
  Results All = runAll(*Words);
  int Exit = print(All);
  if (llvm::any_of(All.Runs, [](const TestRun &R) { return R.abandoned(); }))
    exitAtOnce(Exit);
  return Exit;
}

} // namespace culprit
