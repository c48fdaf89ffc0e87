//===- GoodRuns.h - diagnose --good -----------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// The runs given with --good: read, run through the detectors, and compared
/// with the run that is diagnosed. One that cannot be used is told and stops
/// nothing.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_TOOL_GOODRUNS_H
#define CULPRIT_TOOL_GOODRUNS_H

#include "Detect/Runner.h"
#include "KB/KnowledgeBase.h"
#include "Rank/GoodRun.h"
#include "Report/GoodText.h"

namespace culprit {

class GoodRuns {
public:
  /// Reads \p Given. \p Bad are the paths that are diagnosed.
  GoodRuns(llvm::ArrayRef<std::string> Given, llvm::ArrayRef<std::string> Bad,
           unsigned Jobs);

  /// What a diagnosis of \p Evidence rests on, beside the good runs: takes out
  /// of \p Symptoms and \p Quotes what these show too, and adds what the
  /// settings tell.
  void weigh(const DetectorSet &Detectors, RunSettings Settings,
             const KnowledgeBase &KB, const Case &Evidence,
             llvm::ArrayRef<Outcome> Outcomes,
             std::vector<SymptomEvidence> &Symptoms,
             std::vector<LogEvidence> &Quotes, Weights &W);

  Diagnosis diagnose(llvm::ArrayRef<SymptomEvidence> Symptoms,
                     llvm::ArrayRef<LogEvidence> Quotes,
                     const KnowledgeBase &KB, const Weights &W,
                     const ShapeFigures &Shape) const;

  /// Says in \p D and \p Symptoms what is known of them beside the good runs,
  /// and takes off the end of \p Symptoms what weigh() put there.
  void tell(Diagnosis &D, std::vector<SymptomEvidence> &Symptoms) const;

  const GoodReport &report() const { return Told; }
  /// A detector still runs on a good run; see Outcome::Abandoned.
  bool isAbandoned() const { return Abandoned; }

private:
  struct Run {
    std::string Path;
    Case Evidence;
  };

  void look(const Run &R, const DetectorSet &Detectors,
            const RunSettings &Settings, const KnowledgeBase &KB,
            const Weights &W);
  SettingFindings compare(const Case &Evidence);

  std::vector<std::string> Bad;
  std::vector<Run> Runs;
  std::vector<GoodFindings> Findings; ///< One a run that detectors looked at.
  /// The likeliest cause of those that look broken themselves, by path.
  std::vector<std::pair<std::string, Hypothesis>> Doubts;
  std::optional<SettingEvidence> Settings;
  GoodReport Told;
  bool Abandoned = false;
};

} // namespace culprit

#endif // CULPRIT_TOOL_GOODRUNS_H
