//===- Weights.h - The numbers of the ranking -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// kb/ranking.yaml: priors, leaks, and what the words of an entry's Signals
/// are worth. A reviewed data file, so that no weight hides in code.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_RANK_WEIGHTS_H
#define CULPRIT_RANK_WEIGHTS_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <map>
#include <string>
#include <vector>

namespace culprit {

struct Weights {
  double Always = 0.95, Often = 0.7, Sometimes = 0.3, Never = 0.01;
  double Prior = 0.05;
  std::map<std::string, double> Priors; ///< By class.
  double Leak = 0.02;
  std::map<std::string, double> Leaks; ///< By symptom.
  /// Symptoms that many causes share and that name none by themselves.
  std::vector<std::string> Generic;
  double LogTextCause = 0.6, LogTextLeak = 0.005;
  /// LogTextLeak where a `log-` symptom of the same cause was seen.
  double LogTextLeakBeside = 0.1;

  double prior(llvm::StringRef Class) const;
  double leak(llvm::StringRef Symptom) const;
  bool isGeneric(llvm::StringRef Symptom) const;

  /// Loads the file \p Path. Fails on what is no YAML, an unknown key, or a
  /// number that is no probability strictly between 0 and 1.
  static llvm::Expected<Weights> load(llvm::StringRef Path);
  /// The same from text; \p Name stands for the file in messages.
  static llvm::Expected<Weights> parse(llvm::StringRef Yaml,
                                       llvm::StringRef Name);
};

} // namespace culprit

#endif // CULPRIT_RANK_WEIGHTS_H
