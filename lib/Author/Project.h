//===- Project.h - A project's own detectors and settings -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// A project keeps what it adds to culprit in `.culprit/` and `.culprit.yaml`:
///
///   plugins: [tools/checks]       # folders of detectors, from this file on
///   kb: [ISSUES.md]               # issues logs, likewise
///   options:
///     gpu/idle.min_idle: 0.2      # or nested: gpu/idle: {min_idle: 0.2}
///
/// Its folder is the nearest one upward that has either. Detectors in
/// `.culprit/plugins` need no setting.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_AUTHOR_PROJECT_H
#define CULPRIT_AUTHOR_PROJECT_H

#include "Detect/Options.h"

namespace culprit {

/// What a project adds. Paths are as the working folder sees them.
struct Project {
  std::string Folder; ///< Empty: there is none. "." is the working folder.
  std::string File;   ///< Its `.culprit.yaml`; empty: there is none.
  /// Folders of detectors, later ones win: `.culprit/plugins` if there is one,
  /// then those of the settings.
  std::vector<std::string> Plugins;
  std::vector<std::string> Kb;
  /// Its own symptoms, `.culprit/symptoms.md` in the form of the shipped
  /// `kb/symptoms.md`; empty: there are none.
  std::string Symptoms;
  /// In the order of the file, each with its line as origin.
  std::vector<OptionSetting> Options;
};

/// Reads the settings \p Text of \p File into \p Into: paths are taken from
/// the folder of \p File. Fails at the first mistake, with its line.
llvm::Error readSettings(llvm::StringRef File, llvm::StringRef Text,
                         Project &Into);

/// The project of \p From, an absolute path, looked for upward and not beyond
/// \p Home, if \p From lies in it. Empty if there is none.
llvm::Expected<Project> findProject(llvm::StringRef From,
                                    llvm::StringRef Home);

/// The checkout of culprit itself that \p From lies in, as the working folder
/// sees it; empty outside of one.
std::string findCheckout(llvm::StringRef From);

/// The project whose settings are \p File.
llvm::Expected<Project> openProject(llvm::StringRef File);

} // namespace culprit

#endif // CULPRIT_AUTHOR_PROJECT_H
