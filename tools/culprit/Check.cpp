//===- Check.cpp - culprit check --------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Author/Lint.h"
#include "Author/Project.h"
#include "Commands.h"
#include "Detectors.h"
#include "Knowledge.h"
#include "Options.h"
#include "Settings.h"
#include "Support/Glob.h"
#include "Support/Text.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

using namespace llvm;

namespace culprit {

static cl::SubCommand CheckCommand("check", "Check detectors before they run");
static cl::list<std::string> Given(cl::Positional, cl::sub(CheckCommand),
                                   cl::desc("[PATH|ID...]"));
static cl::list<std::string>
    CheckPlugins("plugins", cl::sub(CheckCommand), cl::value_desc("DIR"),
                 cl::desc("Also know the detectors of DIR (repeatable)"));
static ConfigOption CheckConfig(CheckCommand);
static cl::opt<OutputFormat, false, ChoiceParser<OutputFormat>> CheckFormat(
    "format", cl::sub(CheckCommand), cl::init(OutputFormat::Text),
    cl::value_desc("text|json"), cl::desc("Form of the remarks"),
    cl::values(clEnumValN(OutputFormat::Text, "text", "For people"),
               clEnumValN(OutputFormat::Json, "json", "For programs")));

/// Adds the Lua files that \p Path is or has below it.
static Error addFiles(StringRef Path, std::vector<std::string> &Into) {
  if (!sys::fs::is_directory(Path)) {
    if (sys::path::extension(Path) != ".lua")
      return failure("check: " + Path + " is no Lua file",
                     "give a detector, GROUP/NAME.lua, or a folder of them");
    Into.push_back(Path.str());
    return Error::success();
  }
  std::vector<std::string> Found;
  std::error_code EC;
  sys::fs::recursive_directory_iterator I(Path, EC), End;
  for (; I != End && !EC; I.increment(EC))
    if (sys::path::extension(I->path()) == ".lua" &&
        sys::path::filename(sys::path::parent_path(I->path())) != "meta")
      Found.push_back(I->path());
  if (EC)
    return failure(Path + ": " + EC.message());
  llvm::sort(Found);
  llvm::append_range(Into, Found);
  return Error::success();
}

/// What is to be checked where nothing is named.
static Error addDefault(StringRef Checkout, std::vector<std::string> &Into) {
  Expected<const Project *> P = project();
  if (!P)
    return P.takeError();
  std::vector<std::string> Folders = (*P)->Plugins;
  if (!Checkout.empty() && (*P)->Folder.empty())
    Folders.push_back(Checkout == "." ? "plugins"
                                      : Checkout.str() + "/plugins");
  Folders.insert(Folders.end(), CheckPlugins.begin(), CheckPlugins.end());
  for (const std::string &Folder : Folders)
    if (Error E = addFiles(Folder, Into))
      return E;
  if (!Into.empty())
    return Error::success();
  return failure("check: there are no detectors of your own here",
                 "'culprit new GROUP/NAME' writes one into .culprit/plugins; "
                 "or name files, folders or ids");
}

static Expected<std::vector<std::string>> filesToCheck(const Vocabulary &Words,
                                                       StringRef Checkout) {
  std::vector<std::string> Files;
  if (Given.empty()) {
    if (Error E = addDefault(Checkout, Files))
      return E;
    return Files;
  }
  std::optional<DetectorSet> Set; // wanted for ids alone
  for (const std::string &What : Given) {
    if (sys::fs::exists(What)) {
      if (Error E = addFiles(What, Files))
        return E;
      continue;
    }
    if (!Set) {
      Expected<DetectorSet> Opened = openDetectors(CheckPlugins, Words);
      if (!Opened)
        return Opened.takeError();
      Set.emplace(std::move(*Opened));
    }
    auto Broken = llvm::find_if(
        Set->broken(), [&](const BrokenDetector &B) { return B.Id == What; });
    if (Broken != Set->broken().end()) {
      Files.push_back(Broken->Error.File);
      continue;
    }
    const Detector *D = Set->find(What);
    if (!D) {
      std::vector<std::string> Ids = Set->ids();
      for (const BrokenDetector &B : Set->broken())
        Ids.push_back(B.Id);
      std::string Close = closestName(What, Ids);
      return failure("check: no file and no detector is called '" + What + "'",
                     Close.empty() ? "'culprit list' names the detectors"
                                   : "did you mean '" + Close + "'?");
    }
    Files.push_back(D->info().File);
  }
  return Files;
}

/// The text of the test that belongs to the detector \p Id of \p File, and
/// its path, empty where there is none. \p Place is where it belongs.
static std::string findTest(StringRef File, StringRef Id, std::string &Path,
                            std::string &Place) {
  auto Read = [&](const std::string &At) -> std::optional<std::string> {
    ErrorOr<std::unique_ptr<MemoryBuffer>> Text =
        MemoryBuffer::getFile(At, /*IsText=*/true);
    if (!Text)
      return std::nullopt;
    Path = At;
    return (*Text)->getBuffer().str();
  };
  Place = (File.drop_back(4) + ".test").str();
  if (auto Text = Read(Place))
    return *Text;
  // The shipped ones of a checkout have theirs among its own tests.
  SmallString<256> Real;
  if (sys::fs::real_path(File, Real))
    return "";
  StringRef Plugins =
      sys::path::parent_path(sys::path::parent_path(Real.str()));
  SmallString<256> Tests(sys::path::parent_path(Plugins));
  sys::path::append(Tests, "test", "lit", "detectors");
  if (sys::path::filename(Plugins) != "plugins" ||
      !sys::fs::is_directory(Tests))
    return "";
  Place = ("test/lit/detectors/" + Id + ".test").str();
  if (auto Text = Read((Tests + "/" + Id + ".test").str())) {
    Path = Place;
    return *Text;
  }
  // One test may hold several detectors of a group.
  sys::path::append(Tests, Id.split('/').first);
  std::error_code EC;
  std::vector<std::string> Files;
  for (sys::fs::directory_iterator I(Tests, EC), End; I != End && !EC;
       I.increment(EC))
    if (sys::path::extension(I->path()) == ".test")
      Files.push_back(I->path());
  llvm::sort(Files);
  for (const std::string &Other : Files)
    if (auto Text = Read(Other); Text && StringRef(*Text).contains(Id)) {
      Path = ("test/lit/detectors/" + Id.split('/').first + "/" +
              sys::path::filename(Other))
                 .str();
      return *Text;
    }
  Path.clear();
  return "";
}

static Error checkFile(StringRef File, const LoadSettings &Settings,
                       std::vector<LintRemark> &Into) {
  ErrorOr<std::unique_ptr<MemoryBuffer>> Text =
      MemoryBuffer::getFile(File, /*IsText=*/true);
  if (!Text)
    return failure(File + ": " + Text.getError().message());
  StringRef Source = (*Text)->getBuffer();
  StringRef Group = sys::path::filename(sys::path::parent_path(File));
  ModuleSet Modules;
  if (Settings.Modules)
    Modules = *Settings.Modules;
  StringRef Folder = sys::path::parent_path(sys::path::parent_path(File));
  if (Error E = Modules.addFolder(
          Folder.empty() ? std::string("lib") : (Folder + "/lib").str()))
    return E;
  if (Group == "lib") {
    llvm::append_range(Into, lintModule(File, Source, &Modules));
    return Error::success();
  }
  DetectorSet Set;
  loadDetectorFile(File, Settings, Set);
  const DetectorInfo *Info =
      Set.all().empty() ? nullptr : &Set.all()[0]->info();
  const DetectorError *Problem =
      Set.broken().empty() ? nullptr : &Set.broken()[0].Error;
  llvm::append_range(Into,
                     lintDetector(File, Source, Info, Problem, &Modules));
  std::string Path, Place;
  std::string Id = (Group + "/" + sys::path::stem(File)).str();
  std::string Test = findTest(File, Id, Path, Place);
  llvm::append_range(Into, lintTest(File, Path, Test, Place));
  return Error::success();
}

static void printJson(size_t Files, ArrayRef<LintRemark> Remarks) {
  json::Array Out;
  for (const LintRemark &R : Remarks)
    Out.push_back(json::Object{{"file", jsonText(R.File)},
                               {"line", R.Line},
                               {"level", levelName(R.Level)},
                               {"text", jsonText(R.Text)},
                               {"hint", jsonText(R.Hint)},
                               {"check", R.Check}});
  outs() << formatv("{0:2}",
                    json::Value(json::Object{{"schema", 1},
                                             {"files", Files},
                                             {"remarks", std::move(Out)}}))
         << '\n';
}

/// "3 files: 1 error, 2 warnings"
static void printSummary(size_t Files, ArrayRef<LintRemark> Remarks) {
  std::string Counts;
  for (auto [Level, Word] :
       {std::pair(Severity::Error, "error"),
        std::pair(Severity::Warning, "warning"),
        std::pair(Severity::Note, "note")}) {
    size_t N = llvm::count_if(
        Remarks, [L = Level](const LintRemark &R) { return R.Level == L; });
    if (N)
      Counts += (Counts.empty() ? "" : ", ") + Twine(N).str() + " " + Word +
                (N == 1 ? "" : "s");
  }
  outs() << Files << (Files == 1 ? " file: " : " files: ")
         << (Counts.empty() ? "nothing to say against "
                                  + std::string(Files == 1 ? "it" : "them")
                            : Counts)
         << '\n';
}

int runCheck() {
  Expected<Vocabulary> Words = openVocabulary();
  if (!Words)
    return report(Words.takeError());
  Expected<LoadSettings> Settings = loadSettings(*Words);
  if (!Settings)
    return report(Settings.takeError());
  SmallString<256> Here;
  std::string Checkout;
  if (!sys::fs::current_path(Here))
    Checkout = findCheckout(Here);
  Expected<std::vector<std::string>> Files = filesToCheck(*Words, Checkout);
  if (!Files)
    return report(Files.takeError());

  std::vector<LintRemark> Remarks;
  for (const std::string &File : *Files)
    if (Error E = checkFile(File, *Settings, Remarks))
      return report(std::move(E));
  if (CheckFormat == OutputFormat::Json) {
    printJson(Files->size(), Remarks);
  } else {
    for (const LintRemark &R : Remarks)
      outs() << toString(R);
    printSummary(Files->size(), Remarks);
  }
  bool Refused = llvm::any_of(Remarks, [](const LintRemark &R) {
    return R.Level == Severity::Error;
  });
  return Refused ? ExitRefused : ExitDone;
}

} // namespace culprit
