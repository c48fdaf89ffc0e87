//===- LuaDetector.cpp ------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Script/LuaDetector.h"
#include "Script/CaseValue.h"
#include "Script/Declaration.h"
#include "Script/DetectorStore.h"
#include "Script/DocComment.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Path.h"

using namespace llvm;

namespace culprit {

namespace {

class LuaDetector : public Detector {
public:
  LuaDetector(DetectorInfo Info, std::string Source,
              std::unique_ptr<const ByteCode> Code,
              std::shared_ptr<const ModuleSet> Modules)
      : Detector(std::move(Info)), Source(std::move(Source)),
        Code(std::move(Code)), Modules(std::move(Modules)) {}

  void run(const Case &C, ArrayRef<Scalar> Options, const Limits &Bounds,
           Outcome &Result) const override;

private:
  std::string Source;
  std::unique_ptr<const ByteCode> Code;
  std::shared_ptr<const ModuleSet> Modules;
};

} // namespace

/// Sets what \p Result is by what it holds, once \p Info's detector has run.
static void settle(const DetectorInfo &Info, Outcome &Result) {
  llvm::erase_if(Result.Unjudged, [&](const UnjudgedSymptom &U) {
    return llvm::any_of(Result.Reports, [&](const Report &R) {
      return R.Symptom == U.Symptom;
    });
  });
  if (!Result.Reports.empty()) {
    Result.Kind = OutcomeKind::Matched;
    // skip() without a symptom speaks of those that were not reported.
    for (const std::string &Needed : Result.Missing)
      for (const std::string &Symptom : Info.Symptoms)
        if (!Result.unjudged(Symptom) &&
            llvm::none_of(Result.Reports, [&](const Report &R) {
              return R.Symptom == Symptom;
            }))
          Result.Unjudged.push_back({Symptom, Needed});
    Result.Missing.clear();
    return;
  }
  if (Result.Missing.empty()) {
    if (Result.Unjudged.size() < Info.Symptoms.size())
      return; // clear of the others
    for (const UnjudgedSymptom &U : Result.Unjudged)
      if (!is_contained(Result.Missing, U.Needed))
        Result.Missing.push_back(U.Needed);
  }
  Result.Kind = OutcomeKind::Skipped;
}

void LuaDetector::run(const Case &C, ArrayRef<Scalar> Options,
                      const Limits &Bounds, Outcome &Result) const {
  Host H(info().File, Bounds);
  H.Evidence = &C;
  H.Info = &info();
  H.Options = Options;
  H.Result = &Result;
  H.Modules = Modules.get();
  H.setTableLimit(Bounds.Tables + 4 * C.bytes());
  bool Done = H.run([&](lua_State *L) {
    H.load(L, Source, *Code);
    lua_getfield(L, -1, "run");
    pushCase(L);
    lua_call(L, 1, 0);
  });
  Result.PeakBytes = H.peakBytes();
  Result.Costs = H.costList();
  if (!Done) {
    // What it reported before it failed may be wrong as well.
    Result.Kind = OutcomeKind::Failed;
    Result.Reports.clear();
    Result.Missing.clear();
    Result.Unjudged.clear();
    Result.Error = H.error();
  } else {
    settle(info(), Result);
  }
}

/// The first line of \p Source that has \p Word as a word of its own; 0 when
/// there is none.
static unsigned lineOf(StringRef Source, StringRef Word) {
  auto IsPart = [](char C) { return isAlnum(C) || C == '_' || C == '-'; };
  unsigned Line = 1;
  for (size_t At = 0; At < Source.size(); ++At) {
    if (Source[At] == '\n') {
      ++Line;
      continue;
    }
    if (Word.empty() || !Source.substr(At).starts_with(Word) ||
        (At > 0 && IsPart(Source[At - 1])))
      continue;
    size_t End = At + Word.size();
    if (End == Source.size() || !IsPart(Source[End]))
      return Line;
  }
  return 0;
}

/// Comments of whole lines blanked, so that words in them are not found.
static std::string withoutComments(StringRef Source) {
  std::string Out;
  for (StringRef Line : split(Source, '\n')) {
    if (!Line.ltrim().starts_with("--"))
      Out += Line;
    Out += '\n';
  }
  return Out;
}

static BrokenDetector broken(StringRef Id, StringRef File, StringRef Message) {
  DetectorError E;
  E.Message = Message.str();
  E.File = File.str();
  return {Id.str(), std::move(E)};
}

/// The detector that \p Info declares with \p Source, or the mistake in it.
static std::variant<std::unique_ptr<Detector>, BrokenDetector>
declared(DetectorInfo Info, std::optional<DeclarationMistake> Mistake,
         StringRef Source, std::unique_ptr<const ByteCode> Code,
         const LoadSettings &Settings) {
  if (!Mistake)
    return std::make_unique<LuaDetector>(std::move(Info), Source.str(),
                                         std::move(Code), Settings.Modules);
  DetectorError E;
  for (Diagnostic &D : toDiagnostics(std::move(Mistake->What))) {
    E.Message = failureText(D.Message);
    E.Hint = failureText(D.Hint);
  }
  E.File = Info.File;
  E.Line = lineOf(withoutComments(Source), Mistake->Word);
  return BrokenDetector{Info.Id, std::move(E)};
}

static DetectorInfo infoOf(StringRef Id, StringRef File, StringRef Source) {
  DetectorInfo Info;
  Info.Id = Id.str();
  Info.File = File.str();
  Info.Doc = readDoc(Source);
  return Info;
}

std::variant<std::unique_ptr<Detector>, BrokenDetector>
loadDetector(StringRef Id, StringRef File, StringRef Source,
             const LoadSettings &Settings) {
  DetectorInfo Info = infoOf(Id, File, Source);
  Host H(File.str(), Settings.Bounds);
  H.Modules = Settings.Modules.get();
  std::optional<DeclarationMistake> Mistake;
  auto Code = std::make_unique<const ByteCode>();
  bool Done = H.run([&](lua_State *L) {
    H.load(L, Source, *Code);
    Mistake = readDeclaration(L, Settings.Symptoms, Info);
  });
  if (!Done)
    return BrokenDetector{Id.str(), H.error()};
  return declared(std::move(Info), std::move(Mistake), Source, std::move(Code),
                  Settings);
}

/// Loads \p T as \p Store has it; by its text where the store has nothing.
static std::variant<std::unique_ptr<Detector>, BrokenDetector>
loadStored(Host &H, const DetectorText &T, const DetectorStore &Store,
           const LoadSettings &Settings) {
  DetectorInfo Info = infoOf(T.Id, T.File, T.Text);
  std::optional<DeclarationMistake> Mistake;
  bool Has = false;
  bool Done = H.run([&](lua_State *L) {
    Has = Store.pushDeclaration(L, T.Id);
    if (Has)
      Mistake = readDeclaration(L, Settings.Symptoms, Info);
  });
  if (!Done || !Has)
    return loadDetector(T.Id, T.File, T.Text, Settings);
  return declared(std::move(Info), std::move(Mistake), T.Text,
                  std::make_unique<const ByteCode>(Store.code(T.Id)), Settings);
}

static void addTo(DetectorSet &Into,
                  std::variant<std::unique_ptr<Detector>, BrokenDetector> D) {
  if (auto *Whole = std::get_if<std::unique_ptr<Detector>>(&D))
    Into.add(std::move(*Whole));
  else
    Into.add(std::move(std::get<BrokenDetector>(D)));
}

/// \p Settings with the modules of \p Folder before its own.
static Expected<std::shared_ptr<ModuleSet>>
modulesWith(StringRef Folder, const LoadSettings &Settings) {
  auto Modules = std::make_shared<ModuleSet>();
  if (Settings.Modules)
    *Modules = *Settings.Modules;
  if (Error E = Modules->addFolder((Folder + "/lib").str()))
    return E;
  return Modules;
}

void loadDetectorFile(StringRef File, const LoadSettings &Settings,
                      DetectorSet &Into) {
  StringRef Name = sys::path::stem(File);
  StringRef Group = sys::path::filename(sys::path::parent_path(File));
  std::string Id = Group.empty() ? Name.str() : (Group + "/" + Name).str();
  StringRef Folder = sys::path::parent_path(sys::path::parent_path(File));
  LoadSettings Own = Settings;
  Expected<std::shared_ptr<ModuleSet>> Modules =
      modulesWith(Folder.empty() ? "." : Folder, Settings);
  if (!Modules)
    return Into.add(broken(Id, File, toString(Modules.takeError())));
  Own.Modules = std::move(*Modules);
  ErrorOr<std::string> Text = luaText(File);
  if (!Text)
    return Into.add(broken(Id, File, Text.getError().message()));
  addTo(Into, loadDetector(Id, File, *Text, Own));
}

namespace {
/// What lies in a folder of detectors.
struct DetectorFolder {
  std::shared_ptr<ModuleSet> Modules; ///< Its own go before the settings'.
  std::vector<DetectorText> Texts;    ///< By id.
  std::vector<DetectorText> Unread;   ///< With the reason as their text.
};
} // namespace

static Expected<DetectorFolder> readFolder(StringRef Folder,
                                           const LoadSettings &Settings) {
  Expected<std::shared_ptr<ModuleSet>> Modules = modulesWith(Folder, Settings);
  if (!Modules)
    return Modules.takeError();
  DetectorFolder Out;
  Out.Modules = std::move(*Modules);
  ErrorOr<std::vector<std::string>> Files = luaFiles(Folder);
  if (!Files)
    return failure(Folder + ": " + Files.getError().message(),
                   "give a folder of detectors: <group>/<name>.lua");
  for (const std::string &File : *Files) {
    StringRef Id = File;
    Id = Id.drop_front(Folder.size()).ltrim('/');
    Id.consume_back(".lua");
    if (Id.starts_with("meta/") || Id.starts_with("lib/"))
      continue;
    ErrorOr<std::string> Text = luaText(File);
    if (Text)
      Out.Texts.push_back({Id.str(), File, std::move(*Text)});
    else
      Out.Unread.push_back({Id.str(), File, Text.getError().message()});
  }
  return Out;
}

Error loadDetectors(StringRef Folder, const LoadSettings &Settings,
                    DetectorSet &Into) {
  Expected<DetectorFolder> Found = readFolder(Folder, Settings);
  if (!Found)
    return Found.takeError();
  for (const DetectorText &T : Found->Unread)
    Into.add(broken(T.Id, T.File, T.Text));
  std::optional<DetectorStore> Store;
  if (!Settings.Store.empty())
    Store = DetectorStore::open(Settings.Store, Found->Texts, *Found->Modules);
  if (Store)
    for (const auto &[Name, M] : Found->Modules->all())
      Found->Modules->setCode(Name, Store->moduleCode(Name));
  LoadSettings Own = Settings;
  Own.Modules = Found->Modules;
  Host Reader(Folder.str(), Settings.Bounds);
  for (const DetectorText &T : Found->Texts)
    addTo(Into, Store ? loadStored(Reader, T, *Store, Own)
                      : loadDetector(T.Id, T.File, T.Text, Own));
  return Error::success();
}

Expected<bool> isStored(StringRef Folder, const LoadSettings &Settings) {
  Expected<DetectorFolder> Found = readFolder(Folder, Settings);
  if (!Found)
    return Found.takeError();
  return DetectorStore::open(Settings.Store, Found->Texts, *Found->Modules)
      .has_value();
}

Expected<std::string> makeDetectorStore(StringRef Folder,
                                        const LoadSettings &Settings) {
  Expected<DetectorFolder> Found = readFolder(Folder, Settings);
  if (!Found)
    return Found.takeError();
  return makeDetectorStore(Found->Texts, Found->Modules);
}

} // namespace culprit
