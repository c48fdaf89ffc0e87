//===- ScalarUnits.h - Times and rates by how they are named ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Loggers put the unit of a time behind its name, and a word for how it was
/// averaged before or behind it: avg_batch_cost, data_time_ms, step time (s).
/// A rate says what is counted: tokens/s, samples_per_second_per_gpu. What is
/// left without these is looked up; ScalarNames.def need not list them all.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_SCALARUNITS_H
#define CULPRIT_READERS_SCALARUNITS_H

#include "llvm/ADT/StringRef.h"
#include <optional>
#include <string>

namespace culprit {

/// A name without its unit and the word for an average.
struct BareName {
  std::string Name;  ///< Never empty.
  double Factor = 1; ///< From its unit to seconds.
  bool Unit = false; ///< Whether a unit was there.
};

/// \p Normal (as of ScalarNames) without a unit of time and without a word for
/// an average; none where it has neither.
std::optional<BareName> withoutUnit(llvm::StringRef Normal);

/// Whether \p Normal is a number of pieces of work in a second, of the whole
/// run or of a device, and of training: no count of bytes or operations, and
/// no tokens that are generated.
bool isWorkRate(llvm::StringRef Normal);

} // namespace culprit

#endif // CULPRIT_READERS_SCALARUNITS_H
