//===- ConfigKeys.h - What settings mean ------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// What is known of the keys of configurations: which names are one setting,
/// whether another value can change results, and which symptoms it can bring
/// about. The list is ConfigKeys.def.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_CASE_CONFIGKEYS_H
#define CULPRIT_CASE_CONFIGKEYS_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <string>

namespace culprit {

enum class KeyEffect {
  Results, ///< May change what is computed, or whether an answer arrives.
  Cost,    ///< Time and memory alone.
  None     ///< Names, places, logging.
};
/// "results", "cost", "none".
llvm::StringRef toString(KeyEffect E);

/// A row of ConfigKeys.def. All texts live as long as the program.
struct ConfigKey {
  llvm::StringRef Names;
  llvm::StringRef Kind; ///< seed, lr, batch-size, tokens, data, tokenizer,
                        ///< eval, hardware, schedule, precision, optimizer,
                        ///< loss, model, checkpoint, decoding, serving,
                        ///< systems, software, other, bookkeeping,
                        ///< outcome.
  KeyEffect Effect;
  llvm::StringRef Causes; ///< With blanks between.
  llvm::StringRef Default;
  bool OneSetting; ///< The names are aliases of each other.
  bool IsSet;      ///< The order of its list means nothing.

  /// The first of its names.
  llvm::StringRef name() const { return Names.split('|').first; }
};

llvm::ArrayRef<ConfigKey> configKeys();

/// What is known of one key. Where the list lacks it, Row is null, the kind is
/// guessed from words in it, and it counts as one that may change results.
struct KeyFacts {
  const ConfigKey *Row = nullptr;
  llvm::StringRef Kind;
  KeyEffect Effect = KeyEffect::Results;
};

/// What is known of the key path \p Path: "optimizer.lr", "--max-tokens",
/// "sampling.maxTokens". The `.value` that W&B puts behind it is passed over.
KeyFacts aboutKey(llvm::StringRef Path);

/// model, tokenizer, data, optimisation, numerics, decoding, serving, systems,
/// software, other or bookkeeping.
llvm::StringRef groupOfKind(llvm::StringRef Kind);

/// \p Path in lower case, with _ for - and before capitals, without leading
/// dashes and W&B's `.value`.
std::string plainKey(llvm::StringRef Path);

/// Whether another version of package \p Name may change what is computed.
bool isNumericalPackage(llvm::StringRef Name);

} // namespace culprit

#endif // CULPRIT_CASE_CONFIGKEYS_H
