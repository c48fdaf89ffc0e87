//===- GoodRun.h - Evidence beside a run that worked ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// What a run that worked does to the evidence of one that did not:
///
/// - a symptom that the good run shows as much is not what broke the bad one:
///   its state becomes unknown;
/// - a setting that a cause is about speaks for the cause where it was
///   changed, and against it where it is the same. Each cause has a symptom of
///   its own for that, `setting-changed:CLASS`, shown `sometimes`;
/// - settings and packages make the symptoms of two configurations.
///
/// What is absent or unknown in the good run counts nothing.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_RANK_GOODRUN_H
#define CULPRIT_RANK_GOODRUN_H

#include "Detect/Outcome.h"
#include "Rank/Diagnosis.h"
#include <set>

namespace culprit {

/// Less than so much of a score more is as much.
inline constexpr double ScoreMargin = 0.15;
/// So many times the share, or of the log lines, is clearly more.
inline constexpr double ClearlyMore = 2;

/// What the detectors say of a good run.
struct GoodFindings {
  std::string Path;
  std::vector<SymptomEvidence> Symptoms;
  std::vector<LogEvidence> Quotes;
  std::vector<Outcome> Outcomes; ///< Behind Symptoms.
};

/// A symptom or quote of the bad run beside the good ones.
struct SymptomBeside {
  enum Kind {
    Shared,   ///< As much in Path: taken out of the ranking.
    Stronger, ///< In Path too, and clearly more here: kept.
    Own,      ///< Looked for in every good run and not there.
  };
  std::string Symptom; ///< `log-text` for a quote.
  Kind How = Own;
  double Score = 0, GoodScore = 0;
  std::string Path;    ///< Of the good run that shows it most.
  std::string Message; ///< Of that run.
};

/// Compares \p Symptoms and \p Quotes, which rest on \p Outcomes, with \p Good,
/// and takes out of both what a good run shows as much. Symptoms of severity
/// info stay: they say what is possible, not what is wrong.
std::vector<SymptomBeside>
weighAgainst(llvm::ArrayRef<GoodFindings> Good,
             std::vector<SymptomEvidence> &Symptoms,
             std::vector<LogEvidence> &Quotes,
             llvm::ArrayRef<Outcome> Outcomes);

/// Settings that a cause is about.
struct CauseSetting {
  /// Or a symptom that another value brings about: that of the causes which
  /// show it `always`.
  std::string Class;
  bool Changed = false;
  std::string Says;
};

/// What comparing the sides tells of causes, settings before all.
struct SettingFindings {
  std::vector<CauseSetting> ByCause;
  bool HasSettings = false, HasPackages = false;
  std::vector<std::string> Changed;  ///< That may change results.
  std::vector<std::string> Packages; ///< Changed ones that compute.
  size_t Things = 0; ///< Of Changed, what belongs together once.
  std::vector<std::string> NewErrors; ///< Log lines that no good run has.
};

/// A diagnosis with settings as evidence.
class SettingEvidence {
public:
  /// Adds to \p Symptoms, at the end, one a cause of \p Words that a setting
  /// is about, and sets `one-setting-changed`, `packages-changed` and
  /// `log-line-new` where these are unknown. \p W is given the leaks of the new symptoms: where n
  /// things were changed, 1 - (1 - p)^n with p that of `setting-changed`.
  SettingEvidence(const SettingFindings &Found, llvm::ArrayRef<Entry> Entries,
                  const Vocabulary &Words,
                  std::vector<SymptomEvidence> &Symptoms, Weights &W);

  /// How many symptoms were added.
  size_t added() const { return Added.size(); }

  /// diagnose(), with the signals of \p Entries that the settings add.
  Diagnosis diagnose(llvm::ArrayRef<SymptomEvidence> Symptoms,
                     llvm::ArrayRef<LogEvidence> Logs,
                     llvm::ArrayRef<Entry> Entries, const Vocabulary &Words,
                     const Weights &W, const ShapeFigures &Shape) const;

private:
  std::set<std::string> Added; ///< Classes.
};

/// Says at each piece of evidence of \p D what \p Beside knows of it, and why
/// those taken out are not known.
void tellBeside(Diagnosis &D, llvm::ArrayRef<SymptomBeside> Beside);

/// The same of \p Symptoms, once causes are ranked: what would decide one that
/// was taken out is another good run.
void tellBeside(llvm::MutableArrayRef<SymptomEvidence> Symptoms,
                llvm::ArrayRef<SymptomBeside> Beside);

} // namespace culprit

#endif // CULPRIT_RANK_GOODRUN_H
