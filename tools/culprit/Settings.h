//===- Settings.h - The project that commands work for ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Finds the `.culprit.yaml` and `.culprit/` of the working folder's project,
/// and joins its options with those of the command line.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_TOOL_SETTINGS_H
#define CULPRIT_TOOL_SETTINGS_H

#include "Author/Project.h"
#include "llvm/Support/CommandLine.h"

namespace culprit {

/// What --config says; empty when it was not given.
std::string &configFile();

/// `--config FILE|none` of one command:
///
///   static ConfigOption ListConfig(ListCommand);
struct ConfigOption : llvm::cl::opt<std::string, true> {
  explicit ConfigOption(llvm::cl::SubCommand &Command)
      : opt("config", llvm::cl::sub(Command), llvm::cl::location(configFile()),
            llvm::cl::value_desc("FILE|none"),
            llvm::cl::desc("Settings of the project ('help config')")) {}
};

/// The project at hand, an empty one where there is none or `--config none`
/// was given. Read once, when first asked for; fails for a mistake in its
/// settings.
llvm::Expected<const Project *> project();

/// The settings of the project, then those of \p CommandLine (ID.NAME=VALUE),
/// which win. Fails for one that no detector of \p Set knows, with its origin.
/// Those for detectors that did not load are left out.
llvm::Expected<std::vector<OptionSetting>>
optionSettings(const DetectorSet &Set,
               llvm::ArrayRef<std::string> CommandLine);

/// As RunSettings::Options wants them.
std::vector<std::string> asTexts(llvm::ArrayRef<OptionSetting> Settings);

} // namespace culprit

#endif // CULPRIT_TOOL_SETTINGS_H
