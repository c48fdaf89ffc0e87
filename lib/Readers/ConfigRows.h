//===- ConfigRows.h - Rows of settings --------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// What the readers of JSON and YAML configurations share.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_CONFIGROWS_H
#define CULPRIT_READERS_CONFIGROWS_H

#include "Case/Source.h"
#include "Readers/ScalarRows.h"
#include "Readers/TextLines.h"
#include "Support/LooseJson.h"

namespace culprit {

/// Fills the `config` table of one Source. Not thread-safe.
class ConfigRows {
public:
  /// A vocabulary or an index of weights is no configuration; of such a file
  /// only the first settings are kept.
  static constexpr size_t MaxRows = 20'000;

  /// What a key of the file is called in the table; empty leaves it out.
  using Naming = std::string (*)(llvm::StringRef Key);

  /// \p Prefix is put before every key: "tokenizer.". It must be a literal.
  explicit ConfigRows(Source &S, llvm::StringRef Prefix = "",
                      Naming Name = nullptr);

  void add(llvm::StringRef Key, llvm::StringRef Value, int64_t Line);
  /// Tells, if it was so, how much was left out.
  void finish();
  size_t rows() const { return Added; }

private:
  Source &S;
  llvm::StringRef Prefix;
  Naming Name;
  StringId File, Run;
  size_t Added = 0, Dropped = 0;
};

/// An option as argparse would call what it sets: --batch-size as batch_size.
/// Variables of the environment keep their capitals.
std::string optionName(llvm::StringRef Key);

/// Likewise of a key of a JSON or YAML file, and one in capitals throughout, as
/// yacs has them (SOLVER.BASE_LR), in small letters: one setting has one name
/// in the table.
std::string settingName(llvm::StringRef Key);

/// Walks the JSON object that \p In has just begun. Its leaves become settings,
/// keys joined by dots; a list of step records, as Transformers' log_history,
/// becomes scalars. False when the text breaks off or is broken.
bool readSettings(LooseJson &In, llvm::StringRef Text, ConfigRows &Config,
                  ScalarRows &Scalars, LineCounter &Lines);

/// Walks the list that \p In has just begun as records. Likewise.
bool readRecordList(LooseJson &In, ScalarRows &Scalars, LineCounter &Lines);

/// Says where the text that \p In read breaks off and that \p Read values were
/// before it: an error when there were none, else a warning in \p Into.
llvm::Error brokenOff(const LooseJson &In, LineCounter &Lines, size_t Read,
                      Source &Into);

/// Whether the list that \p In has just begun starts with a step record.
bool isRecordList(const LooseJson &In, llvm::StringRef Text);

} // namespace culprit

#endif // CULPRIT_READERS_CONFIGROWS_H
