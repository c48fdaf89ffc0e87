//===- LogSettings.h - Settings that a program printed ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// The settings of a run as its log has them: Megatron-LM's block of arguments,
/// vLLM's and SGLang's arguments, argparse's Namespace(...), the
/// TrainingArguments of Transformers. They are what counted in the end, where a
/// file of settings is only what was asked for. Keys of secrets are left out.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_LOGSETTINGS_H
#define CULPRIT_READERS_LOGSETTINGS_H

#include "Readers/ConfigRows.h"
#include "llvm/ADT/StringMap.h"

namespace culprit {

/// Fills `config` from the lines of one log, in order. Ranks print the same
/// settings each; what is there already makes no row.
/// What print(vars(args)) leaves, with or without words in front: the inside of
/// a dict of which three keys at least are those of settings and of nothing
/// that is measured, or nothing. A loss among them is the name of one.
llvm::StringRef printedSettings(llvm::StringRef Text);

class LogSettings {
public:
  explicit LogSettings(Source &S) : Rows(S) {}

  /// Whether \p Text is one of settings.
  bool line(llvm::StringRef Text, int64_t Number);
  void finish() { Rows.finish(); }

private:
  enum class Block { None, Dotted, Arguments };

  bool inBlock(llvm::StringRef Text, int64_t Number);
  void fields(llvm::StringRef List, char Equals, int64_t Number);
  void add(llvm::StringRef Key, llvm::StringRef Value, int64_t Number);

  ConfigRows Rows;
  llvm::StringMap<std::string> Known;
  Block Open = Block::None;
  unsigned OpenFor = 0; ///< Lines since the block began.
};

} // namespace culprit

#endif // CULPRIT_READERS_LOGSETTINGS_H
