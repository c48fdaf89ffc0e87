//===- Settings.cpp ---------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Settings.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Process.h"

using namespace llvm;

namespace culprit {

std::string &configFile() {
  static std::string File;
  return File;
}

static Expected<Project> lookForProject() {
  if (configFile() == "none")
    return Project();
  if (!configFile().empty())
    return openProject(configFile());
  SmallString<256> Here;
  if (sys::fs::current_path(Here))
    return Project(); // a working folder that is gone has no project
  return findProject(Here, sys::Process::GetEnv("HOME").value_or(""));
}

Expected<const Project *> project() {
  struct Answer {
    Project Found;
    std::vector<Diagnostic> Problems;
  };
  static const Answer Once = [] {
    Answer A;
    if (Expected<Project> P = lookForProject())
      A.Found = std::move(*P);
    else
      A.Problems = toDiagnostics(P.takeError());
    return A;
  }();
  if (Once.Problems.empty())
    return &Once.Found;
  return failure(Once.Problems[0].Message, Once.Problems[0].Hint);
}

Expected<std::vector<OptionSetting>>
optionSettings(const DetectorSet &Set, ArrayRef<std::string> CommandLine) {
  Expected<const Project *> P = project();
  if (!P)
    return P.takeError();
  std::vector<OptionSetting> All = (*P)->Options;
  for (const std::string &Text : CommandLine) {
    Expected<OptionSetting> Setting = parseOptionSetting(Text);
    if (!Setting)
      return Setting.takeError();
    All.push_back(std::move(*Setting));
  }
  llvm::erase_if(All, [&](const OptionSetting &S) {
    return llvm::any_of(Set.broken(), [&](const BrokenDetector &B) {
      return B.Id == S.Detector;
    });
  });
  for (const OptionSetting &S : All) {
    Expected<const Detector *> D = Set.get(S.Detector);
    if (!D)
      return S.Origin.empty() ? D.takeError()
                              : addContext(S.Origin, D.takeError());
    if (auto Choices = chooseOptions((*D)->info(), S); !Choices)
      return Choices.takeError();
  }
  return All;
}

std::vector<std::string> asTexts(ArrayRef<OptionSetting> Settings) {
  std::vector<std::string> Texts;
  for (const OptionSetting &S : Settings)
    Texts.push_back(S.text());
  return Texts;
}

} // namespace culprit
