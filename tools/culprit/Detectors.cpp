//===- Detectors.cpp --------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Detectors.h"
#include "Commands.h"
#include "Script/LuaDetector.h"

using namespace llvm;

namespace culprit {

Expected<DetectorSet> openDetectors(ArrayRef<std::string> Folders,
                                    const Vocabulary &Words) {
  Expected<std::string> Home = homeFolder();
  if (!Home)
    return Home.takeError();
  LoadSettings Settings;
  for (const SymptomTerm &S : Words.symptoms())
    Settings.Symptoms.push_back(S.Id);
  DetectorSet Set;
  if (Error E = loadDetectors(*Home + "/plugins", Settings, Set))
    return E;
  for (const std::string &Folder : Folders)
    if (Error E = loadDetectors(Folder, Settings, Set))
      return E;
  return Set;
}

} // namespace culprit
