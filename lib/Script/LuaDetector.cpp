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
  LuaDetector(DetectorInfo Info, std::string Source)
      : Detector(std::move(Info)), Source(std::move(Source)) {}

  void run(const Case &C, ArrayRef<Scalar> Options, const Limits &Bounds,
           Outcome &Result) const override;

private:
  std::string Source;
};

} // namespace

void LuaDetector::run(const Case &C, ArrayRef<Scalar> Options,
                      const Limits &Bounds, Outcome &Result) const {
  Host H(info().File, Bounds);
  H.Evidence = &C;
  H.Info = &info();
  H.Options = Options;
  H.Result = &Result;
  H.setTableLimit(Bounds.Tables + 4 * C.bytes());
  bool Done = H.run([&](lua_State *L) {
    H.load(L, Source);
    lua_getfield(L, -1, "run");
    pushCase(L);
    lua_call(L, 1, 0);
  });
  Result.PeakBytes = H.peakBytes();
  if (!Done) {
    // What it reported before it failed may be wrong as well.
    Result.Kind = OutcomeKind::Failed;
    Result.Reports.clear();
    Result.Missing.clear();
    Result.Error = H.error();
  } else if (!Result.Reports.empty()) {
    Result.Kind = OutcomeKind::Matched;
    Result.Missing.clear();
  } else if (!Result.Missing.empty()) {
    Result.Kind = OutcomeKind::Skipped;
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
  std::optional<DeclarationMistake> Mistake;
  bool Done = H.run([&](lua_State *L) {
    H.load(L, Source);
    Mistake = readDeclaration(L, Settings.Symptoms, Info);
  });
  if (!Done)
    return BrokenDetector{Id.str(), H.error()};
  if (!Mistake)
    return std::make_unique<LuaDetector>(std::move(Info), Source.str());
  DetectorError E;
  for (Diagnostic &D : toDiagnostics(std::move(Mistake->What))) {
    E.Message = std::move(D.Message);
    E.Hint = std::move(D.Hint);
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

void loadDetectorFile(StringRef File, const LoadSettings &Settings,
                      DetectorSet &Into) {
  StringRef Name = sys::path::stem(File);
  StringRef Group = sys::path::filename(sys::path::parent_path(File));
  std::string Id = Group.empty() ? Name.str() : (Group + "/" + Name).str();
  loadAs(Id, File, Settings, Into);
}

Error loadDetectors(StringRef Folder, const LoadSettings &Settings,
                    DetectorSet &Into) {
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
    if (!Id.starts_with("meta/")) // type annotations for editors
      loadAs(Id, File, Settings, Into);
  }
  return Error::success();
}

} // namespace culprit
