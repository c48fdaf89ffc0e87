//===- Selection.h - Which hypotheses a page shows in full ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// A page shows the first hypotheses in full, and every one that is more
/// likely than not, wherever it stands. One that rests on nothing but the
/// evidence of a hypothesis already shown is a rival of that one: a line of it
/// says all that is new.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_REPORT_SELECTION_H
#define CULPRIT_REPORT_SELECTION_H

#include "Rank/Diagnosis.h"

namespace culprit {

/// A hypothesis shown in full and those that its evidence fits as well.
struct ShownHypothesis {
  const Hypothesis *What;
  std::vector<const Hypothesis *> Rivals; ///< All below 0.5.
};

struct Selection {
  std::vector<ShownHypothesis> Full;
  std::vector<const Hypothesis *> Others; ///< Named only.
};

/// \p Top hypotheses of \p D in full, and all from 0.5 or seen before; in the
/// order of \p D.
/// None where \p Top is 0.
Selection selectHypotheses(const Diagnosis &D, unsigned Top);

/// "dataloader-bound 24 %, cpu-contention 14 %".
std::string nameHypotheses(llvm::ArrayRef<const Hypothesis *> All);

/// The leads of \p D that a page tells: those from 0.05, and of a run that
/// shows nothing only where the first is likely enough to doubt it.
std::vector<const Hypothesis *> tellLeads(const Diagnosis &D);

/// The same in words: what recorded runs that look like this one had and why
/// they do, then how to tell the first. Empty where no lead is told.
std::vector<std::string> describeLeads(const Diagnosis &D);

/// What recorded runs say of \p H; empty where they have no say.
llvm::StringRef recordedText(const Hypothesis &H);

/// What is seen and left open: the sights, then what to record to tell causes
/// apart, as one sentence each. Empty where nothing is.
std::vector<std::string>
describeUnexplained(const Diagnosis &D,
                    llvm::ArrayRef<SymptomEvidence> Symptoms);

} // namespace culprit

#endif // CULPRIT_REPORT_SELECTION_H
