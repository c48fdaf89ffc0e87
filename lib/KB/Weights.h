//===- Weights.h - What a search counts how much ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// The numbers of the ranking in one place, so that they can be tried out.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_KB_WEIGHTS_H
#define CULPRIT_KB_WEIGHTS_H

#include "KB/Analyzer.h"
#include "KB/Fields.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <array>

namespace culprit {

struct SearchWeights {
  /// Of the fields, in the order of Fields.def.
  std::array<double, NumFields> Field = {
#define KB_FIELD(Name, Weight, Fails, Works) Weight,
#include "KB/Fields.def"
  };
  struct {
#define KB_WEIGHT(Name, Value) double Name = Value;
#include "KB/Weights.def"
  } Rank;

  /// The factor on terms of \p K.
  double kind(Term::Kind K) const;

  /// Takes `name=value,...`: names of Fields.def and Weights.def, values of 0
  /// to 1000.
  llvm::Error set(llvm::StringRef Text);
};

} // namespace culprit

#endif // CULPRIT_KB_WEIGHTS_H
