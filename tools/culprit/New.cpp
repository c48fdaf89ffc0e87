//===- New.cpp - culprit new ------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Author/Project.h"
#include "Author/Scaffold.h"
#include "Commands.h"
#include "Detectors.h"
#include "Knowledge.h"
#include "Settings.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"

using namespace llvm;

namespace culprit {

static cl::SubCommand NewCommand("new", "Write a detector and its test to "
                                        "begin with");
static cl::opt<std::string> Id(cl::Positional, cl::sub(NewCommand),
                               cl::desc("GROUP/NAME"));
static cl::opt<std::string>
    NewFolder("plugins", cl::sub(NewCommand), cl::value_desc("DIR"),
              cl::desc("Write into DIR, not .culprit/plugins of the project"));
static cl::opt<std::string>
    NewSymptom("symptom", cl::sub(NewCommand), cl::value_desc("ID"),
               cl::desc("What it reports ('culprit list symptoms')"));
static cl::opt<std::string> NewTable(
    "table", cl::sub(NewCommand), cl::value_desc("NAME"),
    cl::desc("What it looks at (gpu_work, or what suits the symptom)"));
static ConfigOption NewConfig(NewCommand);

namespace {

/// Where a new detector goes.
struct Target {
  std::string Lua, Test;
  std::string Project; ///< Where the editor looks for its settings, or empty.
  bool InCheckout = false;
};

} // namespace

static Expected<Target> findTarget() {
  Target T;
  auto In = [](const Twine &Folder, const Twine &Extension) {
    return (Folder + "/" + Id + Extension).str();
  };
  if (!NewFolder.empty()) {
    std::string Dir = StringRef(NewFolder).rtrim('/').str();
    T.Lua = In(Dir, ".lua");
    T.Test = In(Dir, ".test");
    return T;
  }
  Expected<const Project *> P = project();
  if (!P)
    return P.takeError();
  SmallString<256> Here;
  if (std::error_code EC = sys::fs::current_path(Here))
    return failure("new: the working folder: " + EC.message());
  std::string Checkout = findCheckout(Here);
  auto From = [](StringRef Root, const Twine &Path) {
    return Root == "." ? Path.str() : (Root + "/" + Path).str();
  };
  if (!Checkout.empty() && (*P)->Folder.empty()) {
    T.InCheckout = true;
    T.Lua = In(From(Checkout, "plugins"), ".lua");
    T.Test = In(From(Checkout, "test/lit/detectors"), ".test");
    return T;
  }
  T.Project = (*P)->Folder.empty() ? "." : (*P)->Folder;
  T.Lua = In(From(T.Project, ".culprit/plugins"), ".lua");
  T.Test = In(From(T.Project, ".culprit/plugins"), ".test");
  return T;
}

/// The table that detectors of \p Symptom look at, of those that have a
/// scaffold of their own.
static std::string tableFor(StringRef Symptom, const DetectorSet &Set) {
  std::vector<std::string> Known = scaffoldTables();
  for (const auto &D : Set.all()) {
    if (!is_contained(D->info().Symptoms, Symptom))
      continue;
    for (const Need &N : D->info().Needs.All)
      if (is_contained(Known, schema(N.Table).Name))
        return schema(N.Table).Name.str();
  }
  return Known.front();
}

/// Writes \p Text to \p Path, which must not be there.
static Error write(StringRef Path, StringRef Text) {
  StringRef Parent = sys::path::parent_path(Path);
  std::error_code EC;
  if (!Parent.empty())
    EC = sys::fs::create_directories(Parent);
  if (EC)
    return failure(Parent + ": " + EC.message(),
                   "name a folder that can be written: --plugins DIR");
  raw_fd_ostream OS(Path, EC, sys::fs::CD_CreateNew);
  if (!EC) {
    OS << Text;
    OS.close();
    EC = OS.error();
    OS.clear_error();
  }
  if (EC)
    return failure(Path + ": " + EC.message());
  outs() << "wrote " << Path << '\n';
  return Error::success();
}

/// The types for editors, where \p Root has no such settings yet. That they
/// cannot be written stops nothing.
static void writeEditorSettings(StringRef Root) {
  std::string Path = Root == "." ? ".luarc.json" : (Root + "/.luarc.json").str();
  Expected<std::string> Home = homeFolder();
  if (!Home || sys::fs::exists(Path)) {
    consumeError(Home.takeError());
    return;
  }
  SmallString<256> Plugins;
  if (sys::fs::real_path(*Home + "/plugins", Plugins))
    return;
  std::vector<std::string> Modules = {".culprit/plugins/lib"};
  if (sys::fs::is_directory(Plugins + "/lib"))
    Modules.push_back((Plugins + "/lib").str());
  consumeError(
      write(Path, editorSettings((Plugins + "/meta").str(), Modules)));
}

int runNew() {
  if (Id.empty())
    return report(failure("new: no detector named",
                          "culprit new GROUP/NAME, as in: culprit new my/idle"));
  if (Error E = checkDetectorId(Id))
    return report(addContext("new", std::move(E)));
  Expected<Vocabulary> Words = openVocabulary();
  if (!Words)
    return report(Words.takeError());
  if (!NewSymptom.empty() && !Words->symptom(NewSymptom)) {
    std::string Close = Words->closestSymptom(NewSymptom);
    return report(failure("new: there is no symptom '" + NewSymptom + "'",
                          (Close.empty() ? "'culprit list symptoms' names them "
                                           "all;"
                                         : "did you mean '" + Close + "'?") +
                              " one of your own is a line of "
                              ".culprit/symptoms.md: - `" +
                              NewSymptom + "`: what was observed"));
  }
  std::vector<std::string> More;
  if (!NewFolder.empty() && sys::fs::is_directory(NewFolder))
    More.push_back(NewFolder);
  Expected<DetectorSet> Set = openDetectors(More, *Words);
  if (!Set)
    return report(Set.takeError());
  reportBroken(*Set);
  Expected<Target> T = findTarget();
  if (!T)
    return report(T.takeError());
  for (const std::string &Path : {T->Lua, T->Test})
    if (sys::fs::exists(Path))
      return report(failure("new: " + Path + " is there already",
                            "choose another name, or remove it first"));
  if (const Detector *D = Set->find(Id))
    return report(failure("new: there is a detector " + Id + " already, " +
                              D->info().File,
                          "choose another name; to change that one, copy the "
                          "file to " +
                              T->Lua));
  std::string From = NewTable;
  if (From.empty())
    From = NewSymptom.empty() ? scaffoldTables().front()
                              : tableFor(NewSymptom, *Set);
  Expected<Scaffold> S = makeScaffold(Id, From, NewSymptom, T->InCheckout);
  if (!S)
    return report(addContext("new", S.takeError()));
  if (Error E = write(T->Lua, S->Lua))
    return report(std::move(E));
  if (Error E = write(T->Test, S->Test))
    return report(std::move(E));
  if (!T->Project.empty())
    writeEditorSettings(T->Project);

  std::string Also = NewFolder.empty() ? "" : " --plugins " + NewFolder;
  std::pair<std::string, StringRef> Next[] = {
      {"test" + Also + " " + Id, "run its cases; they pass as they are"},
      {"check" + Also + " " + Id, "what is still to be said and mended"},
      {"diagnose" + Also + " --only " + Id + " PATH...",
       "run it on files that a run left"}};
  outs() << "\nnext:\n";
  for (const auto &[Command, What] : Next)
    outs() << "  " << left_justify("culprit " + Command,
                                   Next[2].first.size() + 10)
           << What << '\n';
  return ExitDone;
}

} // namespace culprit
