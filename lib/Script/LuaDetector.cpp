//===- LuaDetector.cpp ------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Script/LuaDetector.h"
#include "Script/CaseValue.h"
#include "Script/Declaration.h"
#include "Script/DocComment.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include <algorithm>

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

std::variant<std::unique_ptr<Detector>, BrokenDetector>
loadDetector(StringRef Id, StringRef File, StringRef Source,
             const LoadSettings &Settings) {
  DetectorInfo Info;
  Info.Id = Id.str();
  Info.File = File.str();
  Info.Doc = readDoc(Source);
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
  if (!Mistake)
    return std::make_unique<LuaDetector>(std::move(Info), Source.str(),
                                         std::move(Code), Settings.Modules);
  DetectorError E;
  for (Diagnostic &D : toDiagnostics(std::move(Mistake->What))) {
    E.Message = failureText(D.Message);
    E.Hint = failureText(D.Hint);
  }
  E.File = File.str();
  E.Line = lineOf(withoutComments(Source), Mistake->Word);
  return BrokenDetector{Id.str(), std::move(E)};
}

/// Loads \p File as \p Id.
static void loadAs(StringRef Id, StringRef File, const LoadSettings &Settings,
                   DetectorSet &Into) {
  ErrorOr<std::unique_ptr<MemoryBuffer>> Text =
      MemoryBuffer::getFile(File, /*IsText=*/true);
  if (!Text) {
    DetectorError E;
    E.Message = Text.getError().message();
    E.File = File.str();
    Into.add(BrokenDetector{Id.str(), std::move(E)});
    return;
  }
  auto Loaded = loadDetector(Id, File, (*Text)->getBuffer(), Settings);
  if (auto *D = std::get_if<std::unique_ptr<Detector>>(&Loaded))
    Into.add(std::move(*D));
  else
    Into.add(std::move(std::get<BrokenDetector>(Loaded)));
}

/// \p Settings with the modules of \p Folder before its own.
static Expected<LoadSettings> withModules(StringRef Folder,
                                          const LoadSettings &Settings) {
  LoadSettings Out = Settings;
  auto Modules = std::make_shared<ModuleSet>();
  if (Settings.Modules)
    *Modules = *Settings.Modules;
  if (Error E = Modules->addFolder((Folder + "/lib").str()))
    return E;
  Out.Modules = std::move(Modules);
  return Out;
}

void loadDetectorFile(StringRef File, const LoadSettings &Settings,
                      DetectorSet &Into) {
  StringRef Name = sys::path::stem(File);
  StringRef Group = sys::path::filename(sys::path::parent_path(File));
  std::string Id = Group.empty() ? Name.str() : (Group + "/" + Name).str();
  StringRef Folder = sys::path::parent_path(sys::path::parent_path(File));
  Expected<LoadSettings> Own =
      withModules(Folder.empty() ? "." : Folder, Settings);
  if (Own)
    return loadAs(Id, File, *Own, Into);
  DetectorError E;
  E.Message = toString(Own.takeError());
  E.File = File.str();
  Into.add(BrokenDetector{std::move(Id), std::move(E)});
}

Error loadDetectors(StringRef Folder, const LoadSettings &Settings,
                    DetectorSet &Into) {
  Expected<LoadSettings> Own = withModules(Folder, Settings);
  if (!Own)
    return Own.takeError();
  std::vector<std::string> Files;
  std::error_code EC;
  sys::fs::recursive_directory_iterator I(Folder, EC), End;
  for (; I != End && !EC; I.increment(EC))
    if (sys::path::extension(I->path()) == ".lua")
      Files.push_back(I->path());
  if (EC)
    return failure(Folder + ": " + EC.message(),
                   "give a folder of detectors: <group>/<name>.lua");
  std::sort(Files.begin(), Files.end());
  for (const std::string &File : Files) {
    StringRef Id = File;
    Id = Id.drop_front(Folder.size()).ltrim('/');
    Id.consume_back(".lua");
    if (!Id.starts_with("meta/") && !Id.starts_with("lib/"))
      loadAs(Id, File, *Own, Into);
  }
  return Error::success();
}

} // namespace culprit
