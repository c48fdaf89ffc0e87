//===- TestTargets.cpp ------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "TestTargets.h"
#include "Commands.h"
#include "Settings.h"
#include "Support/Glob.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include <set>

using namespace llvm;

namespace culprit {

Expected<const DetectorSet *> KnownDetectors::all() {
  std::call_once(Opened, [&] {
    if (Expected<DetectorSet> Found = openDetectors(Folders, Words))
      Set = std::move(*Found);
    else
      Problems = toDiagnostics(Found.takeError());
  });
  if (Problems.empty())
    return &Set;
  return failure(Problems[0].Message, Problems[0].Hint);
}

Error KnownDetectors::load(StringRef File, DetectorSet &Into) const {
  Expected<LoadSettings> Settings = loadSettings(Words);
  if (!Settings)
    return Settings.takeError();
  loadDetectorFile(File, *Settings, Into);
  return Error::success();
}

/// \p Path without the working folder before it.
static std::string shortPath(StringRef Path) {
  SmallString<256> Here;
  if (!sys::fs::current_path(Here) && Path.consume_front(Here))
    Path = Path.ltrim('/');
  return Path.str();
}

/// Whether \p Folder is a checkout of culprit.
static bool isCheckout(StringRef Folder) {
  return sys::fs::exists(Folder + "/kb/symptoms.md") &&
         sys::fs::is_directory(Folder + "/plugins") &&
         sys::fs::is_directory(Folder + "/test/lit/detectors");
}

/// The checkout that the working folder is in; empty for none.
static std::string checkoutHere() {
  SmallString<256> Here;
  if (sys::fs::current_path(Here))
    return "";
  for (StringRef Folder = Here; !Folder.empty();
       Folder = sys::path::parent_path(Folder))
    if (isCheckout(Folder))
      return Folder.str();
  return "";
}

std::string testPlace(StringRef Lua) {
  SmallString<256> Test(Lua);
  sys::path::replace_extension(Test, ".test");
  SmallString<256> Real;
  if (sys::fs::exists(Test) || sys::fs::real_path(Lua, Real))
    return Test.str().str();
  StringRef Group = sys::path::parent_path(Real);
  StringRef Plugins = sys::path::parent_path(Group);
  StringRef Root = sys::path::parent_path(Plugins);
  if (sys::path::filename(Plugins) != "plugins" || !isCheckout(Root))
    return Test.str().str();
  Test = Root;
  sys::path::append(Test, "test", "lit", "detectors");
  sys::path::append(Test, sys::path::filename(Group),
                    sys::path::stem(Lua) + ".test");
  return shortPath(Test);
}

/// The test of the detector \p Lua; empty when there is none.
static std::string testOf(StringRef Lua) {
  std::string Test = testPlace(Lua);
  return sys::fs::exists(Test) ? Test : "";
}

/// Adds the detectors and tests of \p Folder, in the order of their names.
static Error addFolder(StringRef Folder, std::vector<TestTarget> &Into) {
  std::set<std::string> Files;
  std::error_code EC;
  sys::fs::recursive_directory_iterator I(Folder, EC), End;
  for (; I != End && !EC; I.increment(EC)) {
    StringRef Name = sys::path::filename(I->path());
    if (sys::fs::is_directory(I->path())) {
      // Modules and types are no detectors; Inputs are what tests read.
      if (Name == "lib" || Name == "meta" || Name == "Inputs" ||
          Name.starts_with("."))
        I.no_push();
      continue;
    }
    if (Name.ends_with(".lua") || Name.ends_with(".test"))
      Files.insert(I->path());
  }
  if (EC)
    return failure(Folder + ": " + EC.message());
  std::set<std::string> Taken;
  size_t Before = Into.size();
  for (const std::string &File : Files)
    if (StringRef(File).ends_with(".lua")) {
      Into.push_back({File, testOf(File), false});
      Taken.insert(Into.back().Test);
    }
  for (const std::string &File : Files)
    if (StringRef(File).ends_with(".test") && !Taken.count(File))
      Into.push_back({"", File, false});
  if (Into.size() == Before)
    return failure(Folder + ": no detector and no test in it",
                   "'culprit new group/name' writes both");
  auto Key = [](const TestTarget &T) {
    return T.Lua.empty() ? T.Test : T.Lua;
  };
  llvm::sort(Into.begin() + Before, Into.end(),
             [&](const TestTarget &A, const TestTarget &B) {
               return Key(A) < Key(B);
             });
  return Error::success();
}

/// Adds what is not a file: an id, or a glob of ids.
static Error addId(StringRef Id, KnownDetectors &Known,
                   std::vector<TestTarget> &Into) {
  Expected<const DetectorSet *> Set = Known.all();
  if (!Set)
    return Set.takeError();
  auto Add = [&](StringRef File) {
    std::string Lua = shortPath(File);
    Into.push_back({Lua, testOf(Lua), true});
  };
  if (Id.contains('*') || Id.contains('?')) {
    size_t Before = Into.size();
    for (const auto &D : (*Set)->all())
      if (globMatch(Id, D->id()))
        Add(D->info().File);
    for (const BrokenDetector &B : (*Set)->broken())
      if (globMatch(Id, B.Id))
        Add(B.Error.File);
    if (Into.size() == Before)
      return failure("no detector matches '" + Id + "'",
                     "'culprit list' names all of them");
    return Error::success();
  }
  for (const BrokenDetector &B : (*Set)->broken())
    if (B.Id == Id) {
      Add(B.Error.File);
      return Error::success();
    }
  if (Id.ends_with(".lua") || Id.ends_with(".test") || Id.starts_with("/") ||
      Id.starts_with("."))
    return failure(Id + ": there is no such file",
                   "name a .lua or .test file, a folder, or the id of a "
                   "detector such as gpu/idle");
  Expected<const Detector *> D = (*Set)->get(Id);
  if (!D)
    return D.takeError();
  Add((*D)->info().File);
  return Error::success();
}

Expected<std::vector<TestTarget>>
testTargets(ArrayRef<std::string> Arguments, KnownDetectors &Known) {
  std::vector<TestTarget> Out;
  std::vector<std::string> Own;
  if (Arguments.empty()) {
    Expected<const Project *> P = project();
    if (!P)
      return P.takeError();
    Own = (*P)->Plugins;
    if (std::string Root = Own.empty() ? checkoutHere() : ""; !Root.empty())
      Own.push_back(shortPath(Root + "/test/lit/detectors"));
    for (const std::string &Folder : Known.folders())
      if (!is_contained(Own, Folder))
        Own.push_back(Folder);
    if (Own.empty())
      return failure("test: there are no detectors of your own here",
                     "they are in .culprit/plugins, where 'culprit new "
                     "group/name' writes the first; or name a .lua or .test "
                     "file, a folder, or an id");
    Arguments = Own;
  }
  for (const std::string &Given : Arguments) {
    StringRef Path = Given;
    if (sys::fs::is_directory(Path)) {
      if (Error E = addFolder(Path.rtrim('/'), Out))
        return E;
    } else if (!sys::fs::exists(Path)) {
      if (Error E = addId(Path, Known, Out))
        return E;
    } else if (Path.ends_with(".lua")) {
      Out.push_back({Given, testOf(Path), true});
    } else if (Path.ends_with(".test")) {
      Out.push_back({"", Given, true});
    } else {
      return failure(Given + ": neither a detector nor a test",
                     "detectors end in .lua and their tests in .test");
    }
  }
  return Out;
}

Expected<const Detector *> detectorOf(const TestTarget &Target,
                                      const TestFile *Test,
                                      KnownDetectors &Known,
                                      DetectorSet &Own) {
  std::string Lua = Target.Lua;
  if (Lua.empty() && Test && Test->Detector.empty()) {
    SmallString<256> Beside(Target.Test);
    sys::path::replace_extension(Beside, ".lua");
    if (sys::fs::exists(Beside))
      Lua = Beside.str().str();
  }
  if (!Lua.empty()) {
    if (Error E = Known.load(Lua, Own))
      return E;
    return Own.all().empty() ? nullptr : Own.all().front().get();
  }
  Expected<const DetectorSet *> Set = Known.all();
  if (!Set)
    return Set.takeError();
  std::string Id = Test->Detector;
  if (Id.empty()) {
    StringRef Group = sys::path::filename(sys::path::parent_path(Target.Test));
    Id = (Group + "/" + sys::path::stem(Target.Test)).str();
    if (!(*Set)->find(Id))
      return failure(Target.Test + ": it does not say whose test it is",
                     "write 'detector: group/name' into its first case, or "
                     "put it beside the detector");
  }
  for (const BrokenDetector &B : (*Set)->broken())
    if (B.Id == Id) {
      Own.add(B);
      return nullptr;
    }
  Expected<const Detector *> D = (*Set)->get(Id);
  if (!D)
    return addContext(Target.Test + ":" + Twine(Test->DetectorLine),
                      D.takeError());
  return D;
}

} // namespace culprit
