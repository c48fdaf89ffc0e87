//===- Detectors.cpp --------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Detectors.h"
#include "Commands.h"
#include "Script/LuaDetector.h"
#include "Settings.h"

using namespace llvm;

namespace culprit {

Expected<LoadSettings> loadSettings(const Vocabulary &Words) {
  Expected<std::string> Home = homeFolder();
  if (!Home)
    return Home.takeError();
  LoadSettings Settings;
  // A project's detectors may use the shipped modules; its own go first.
  auto Modules = std::make_shared<ModuleSet>();
  if (Error E = Modules->addFolder(*Home + "/plugins/lib"))
    return E;
  Settings.Modules = std::move(Modules);
  for (const SymptomTerm &S : Words.symptoms())
    Settings.Symptoms.push_back(S.Id);
  return Settings;
}

Expected<std::string> shippedStore() {
  Expected<std::string> Home = homeFolder();
  if (!Home)
    return Home.takeError();
  return *Home + "/detectors.store";
}

Expected<std::vector<std::string>>
detectorFolders(ArrayRef<std::string> More) {
  Expected<std::string> Home = homeFolder();
  if (!Home)
    return Home.takeError();
  Expected<const Project *> P = project();
  if (!P)
    return P.takeError();
  std::vector<std::string> Folders = {*Home + "/plugins"};
  llvm::append_range(Folders, (*P)->Plugins);
  llvm::append_range(Folders, More);
  return Folders;
}

Expected<DetectorSet> openDetectors(ArrayRef<std::string> More,
                                    const Vocabulary &Words) {
  Expected<std::vector<std::string>> Folders = detectorFolders(More);
  if (!Folders)
    return Folders.takeError();
  Expected<LoadSettings> Settings = loadSettings(Words);
  if (!Settings)
    return Settings.takeError();
  Expected<std::string> Store = shippedStore();
  if (!Store)
    return Store.takeError();
  DetectorSet Set;
  for (size_t I = 0; I != Folders->size(); ++I) {
    Settings->Store = I == 0 ? *Store : ""; // the shipped ones come first
    if (Error E = loadDetectors((*Folders)[I], *Settings, Set))
      return E;
  }
  return Set;
}

std::string originOf(StringRef File, ArrayRef<std::string> Folders) {
  for (size_t I = Folders.size(); I-- != 0;)
    if (File.starts_with(Folders[I]) &&
        File.drop_front(Folders[I].size()).starts_with("/"))
      return I == 0 ? "shipped" : Folders[I];
  return "";
}

int reportBroken(const DetectorSet &Set,
                 function_ref<bool(StringRef Id)> Wanted) {
  int Exit = ExitDone;
  for (const BrokenDetector &B : Set.broken()) {
    if (!Wanted(B.Id))
      continue;
    Outcome O;
    O.Detector = B.Id;
    O.Error = B.Error;
    Exit = report(failure("detector " + describeFailure(O)));
  }
  return Exit;
}

} // namespace culprit
