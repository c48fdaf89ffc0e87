//===- SettingSide.h - Settings of one side ---------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// The settings of one side of a comparison, and what counts for the keys that
/// it lacks: the defaults of the library that reads it, told by its other keys,
/// and what is computed from them.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_CASE_SETTINGSIDE_H
#define CULPRIT_CASE_SETTINGSIDE_H

#include "Case/SettingChanges.h"

namespace culprit {

/// A setting of one side while partners are sought.
struct Entry {
  const std::string *Key;
  const SettingValues *Value;
  std::string Plain;
  KeyFacts Facts;
  bool Paired = false;
};

/// A side and whose defaults count in it.
struct Side {
  std::vector<Entry> Entries;
  std::set<llvm::StringRef> Libraries;

  explicit Side(const Settings &S);
  std::string defaultOf(const KeyFacts &Facts) const;
  std::string derived(llvm::StringRef Plain) const;

private:
  std::optional<double> numberOf(llvm::StringRef Plain) const;
};

} // namespace culprit

#endif // CULPRIT_CASE_SETTINGSIDE_H
