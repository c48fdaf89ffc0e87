//===- JsonRecords.h - Logged JSON objects ----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Objects that a logger wrote, whatever file or line they stand in.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_JSONRECORDS_H
#define CULPRIT_READERS_JSONRECORDS_H

#include "Readers/ScalarRows.h"
#include "Support/LooseJson.h"

namespace culprit {

/// Puts the fields of the object that \p In has just begun into the record of
/// \p Rows; nested keys are joined by '/', behind \p Prefix if there is one,
/// and arrays left out. False when the text breaks before the object's end.
bool readRecord(LooseJson &In, ScalarRows &Rows, llvm::StringRef Prefix = "");

/// Adds the key paths of the numbers of the object that \p Text begins with to
/// \p Keys, each once.
void collectKeys(llvm::StringRef Text, std::vector<std::string> &Keys);

/// What the keys of an object say about it.
struct RecordShape {
  bool Object = false;   ///< An object, complete.
  unsigned Numbers = 0;  ///< Leaves that are numbers or nulls.
  unsigned Texts = 0;    ///< Leaves that are other strings.
  bool Step = false;     ///< Has a step.
  bool Known = false;    ///< Has a scalar of ScalarNames.def.
  bool LossLike = false; ///< Has a loss, an accuracy or a reward.
  bool Layer = false;    ///< Names a layer or a metric.
  bool Planned = false;  ///< The step may be how many there are to be: "iters".

  /// Whether it is a row of metrics.
  bool isMetrics() const {
    return Object && Numbers > 0 && (Step || Known || LossLike);
  }
};

/// Looks at the object that \p Text begins with; \p End receives the offset
/// behind it.
RecordShape shapeOf(llvm::StringRef Text, size_t *End = nullptr);

} // namespace culprit

#endif // CULPRIT_READERS_JSONRECORDS_H
