//===- SettingChanges.h - What was changed in a configuration ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Two configurations compared by meaning: notation, aliases (lr and
/// learning_rate), defaults that somebody wrote down, and batch sizes whose
/// product stays the same are no changes. What remains is told with what each
/// key can bring about, and whether an effect can be attributed to it: of two
/// things changed at once, neither can be credited.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_CASE_SETTINGCHANGES_H
#define CULPRIT_CASE_SETTINGCHANGES_H

#include "Case/ConfigKeys.h"
#include "Table/Table.h"
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace culprit {

/// One setting of a side. A side of several runs may have several values; ""
/// stands for a run that lacks it.
struct SettingValues {
  std::set<std::string> Values;
  int64_t Row = -1; ///< Of the table the side was read from.

  /// "1, 2"; "" for none.
  std::string text() const;
  /// Whether none of the values is one: null, None, or absent.
  bool isUnset() const;
};

using Settings = std::map<std::string, SettingValues>; ///< By key path.

/// The settings of \p T, which has the columns key and value, or name and
/// version. A later row replaces an earlier one of its key; elements of a list
/// that have a row each are one value. Null where the columns are missing.
std::optional<Settings> settingsOf(const Table &T);

struct SettingChange {
  std::string Key, OtherKey; ///< Other than Key where the sides name it so.
  std::string Before, After; ///< "" for absent.
  KeyFacts Facts;
  /// Where a side lacks the key: the value that counts then, where known.
  std::string DefaultBefore, DefaultAfter;
  /// Why it is no change of results although its value is another one: the
  /// product of a batch stays. Empty for none.
  std::string Compensated;
  int64_t BeforeRow = -1, AfterRow = -1;
  bool Package = false;
  /// One side says auto, so that another setting decides: it may be no change.
  bool Filled = false;

  KeyEffect effect() const {
    return Compensated.empty() ? Facts.Effect : KeyEffect::Cost;
  }
  /// "top_p 0.9 -> - (default 1)", long values cut.
  std::string text() const;
};

/// What differs, those that may change results first, the kinds that explain
/// most before others, then by name.
std::vector<SettingChange> compareSettings(const Settings &A,
                                           const Settings &B);

/// Installed packages that differ. Only those that compute may change results.
std::vector<SettingChange> comparePackages(const Settings &A,
                                           const Settings &B);

/// How many things \p Changes are of those that may change results: factors of
/// one batch size are one thing, packages are one, seeds are one, values in
/// the place of auto are one, and so are fp16 and bf16.
size_t countThings(llvm::ArrayRef<SettingChange> Changes);

/// Which of the usual confounders of a comparison differ, are equal and are
/// not recorded: seed, tokens, learning rate, batch, data, tokenizer,
/// evaluation, hardware, packages. Empty lists say nothing.
struct Confounders {
  std::vector<std::string> Differ, Equal, Unknown;

  /// "differ: seed, batch; equal: data; not recorded: tokens".
  std::string text() const;
};
Confounders confoundersOf(const Settings &A, const Settings &B,
                          const Settings &PackagesA, const Settings &PackagesB,
                          llvm::ArrayRef<SettingChange> Changes);

} // namespace culprit

#endif // CULPRIT_CASE_SETTINGCHANGES_H
