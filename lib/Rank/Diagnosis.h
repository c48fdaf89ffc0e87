//===- Diagnosis.h - From symptoms to ranked root causes --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Joins what the detectors saw with what the knowledge base knows, and ranks
/// the causes. Knows neither tables nor Lua nor output formats.
///
/// Order of hypotheses: by posterior, and among causes that cost device time
/// by posterior times the time that could be won, since a certain cause of 1 %
/// of a step is not what made the run slow. Both figures are shown.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_RANK_DIAGNOSIS_H
#define CULPRIT_RANK_DIAGNOSIS_H

#include "KB/Entry.h"
#include "KB/Vocabulary.h"
#include "Rank/Network.h"
#include "Rank/Weights.h"
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace culprit {

/// What the detectors say of one symptom, all of them taken together.
struct SymptomEvidence {
  std::string Symptom;
  Presence State = Presence::Unknown;
  double Score = 0;          ///< The highest of its reports.
  std::string Detector;      ///< That reported it, found it clear, or was
                             ///< skipped.
  std::string Message;       ///< Of the best report.
  bool Informational = false; ///< Of severity info: no sign of a fault.
  std::optional<int64_t> Recoverable; ///< ns; the largest of its reports.
  /// Whose absence kept it from being checked: tables and columns.
  std::vector<std::string> Missing;
  /// Index of the best report's outcome and of the report in it, for output.
  int Outcome = -1, Report = -1;
};

/// Figures of a training run's curves by name, as Case/RunShape.h has them;
/// none of what is no training run.
using ShapeFigures = std::map<std::string, double>;

/// Whether \p Symptom says what a run has (has-attention) and not what it
/// shows: nothing to report, but causes may need it.
inline bool isPossession(llvm::StringRef Symptom) {
  return Symptom.starts_with("has-");
}

/// A log line that quotes an entry.
struct LogEvidence {
  const Entry *Quoted = nullptr;
  std::string Fragment;
  std::string Path;
  int64_t Line = 0;
  unsigned Count = 0;
};

/// One piece of evidence for or against a hypothesis.
struct EvidenceItem {
  std::string Symptom;
  std::string Detector;
  std::string Message;
  double LogOdds = 0; ///< What leaving it out would take away, in nats.
  double Own = 0;     ///< What it is worth if no other cause shows it, in nats.
  int Outcome = -1, Report = -1;
};

/// A symptom of the hypothesis that nobody could check.
struct Unchecked {
  std::string Symptom;
  std::string Text;  ///< What it would look like.
  std::string Needs; ///< What to record to decide it.
  double Gain = 0;   ///< Expected information about all causes, in bits.
};

/// An observation that would speak against the hypothesis, and whether anybody
/// looked for it. One that was seen stands among Against instead.
struct Contradiction {
  std::string Symptom;
  std::string Text; ///< What it would look like.
  bool Looked = false;
  std::string Needs; ///< What to record to look for it, when nobody did.
};

/// A cause and its probability after some outcome.
struct Shift {
  std::string Class; ///< Or UnknownClass.
  double Probability = 0;
};

/// What to do next: the experiment of an entry, or something to record.
struct NextCheck {
  std::string Class; ///< That the experiment is about, or the recording serves.
  std::string Symptom; ///< That the recording would show; empty otherwise.
  std::string Needs;   ///< What to record for it: tables and columns.
  std::string Experiment, Confirms, Refutes;
  double Gain = 0;    ///< Expected information, in bits.
  double Minutes = 0; ///< What it takes.
  /// The ranking after either outcome, likeliest first, three at most.
  std::vector<Shift> IfSo, IfNot;
};

/// What one cause has over another: the terms of the difference of their
/// log-odds, in nats. They add up, but for terms too small to list.
struct Lead {
  std::string Over; ///< Class of the other.
  struct Term {
    /// A symptom; `prior`; `log-text`, log lines that quote entries; or
    /// `rivals`, what other causes leave of it.
    std::string What;
    double LogOdds = 0;
  };
  std::vector<Term> Terms; ///< Largest first.
  double LogOdds = 0;      ///< Of the first less that of the other.
};

/// An entry of a team's own log that the run brings back.
struct SeenBefore {
  /// By a message that it quotes, by its class, or by its words.
  enum Way { Quote, Class, Words };

  const Entry *Which = nullptr;
  Way How = Words;
  std::string Text;      ///< Of a quote: what the line holds, and where it is.
  std::string Path;
  int64_t Line = 0;
};

struct Hypothesis {
  /// Of kb/classes.tsv. A cause that only a team's own entry knows has the id
  /// of that entry and the layer `project`.
  std::string Class, Layer;
  std::string Title; ///< The class's definition, as a sentence part.
  double Probability = 0;
  /// Device time that could be won, in ns; none when the cause is not about
  /// device time. Taken from the symptoms most typical of the cause.
  std::optional<int64_t> Recoverable;
  /// Of the class, best fit first; those of Seen before all others.
  std::vector<const Entry *> Entries;
  std::vector<SeenBefore> Seen; ///< Mended ones first, then the newest.
  std::vector<EvidenceItem> Supports, Against;
  std::vector<Unchecked> Open;
  std::vector<Contradiction> Refuters;
  NextCheck Next;
  /// The log-odds, in nats, are Prior, the Own of every item that the cause
  /// names, listed or not (Evidence in all), Rivals: what remains when other
  /// causes explain the same, and Calibration (Weights::calibrated).
  /// Recorded is what runs add that were recorded and look like this one.
  double Prior = 0, Evidence = 0, Rivals = 0, Recorded = 0, Calibration = 0;
  /// Recorded runs alone make it likely: no symptom that is its own is there.
  bool OnlyRecorded = false;
};

enum class Verdict {
  Diagnosed,    ///< A cause stands out.
  Uncertain,    ///< Symptoms, but no cause reaches a half.
  Healthy,      ///< Checked, and nothing found.
  Insufficient, ///< Nothing that decides anything could be checked.
};
/// diagnosed, uncertain, healthy, insufficient.
llvm::StringRef toString(Verdict V);

/// Common sights that no listed hypothesis explains: "the device idles, and
/// nothing here shows why".
struct Unexplained {
  /// Indices into the symptoms given to diagnose(): present, generic, and in
  /// no listed hypothesis's support.
  std::vector<unsigned> Symptoms;
  /// What would show one of the causes that only common sights speak for; one
  /// element a thing to record.
  std::vector<Unchecked> Open;
};

/// How likely it is that some cause of a layer is at work.
struct LayerShare {
  std::string Layer;
  double Probability = 0; ///< Of any of its causes, listed or not.
  /// Of the probability of the causes that are listed or, where none is, of
  /// those that only common sights speak for; these add up to 1.
  double Share = 0;
};

struct Diagnosis {
  Verdict Result = Verdict::Insufficient;
  std::vector<Hypothesis> Hypotheses; ///< Best first, none below 0.01.
  /// Causes that recorded runs like this one had, and that nothing else shows:
  /// where to look if the hypotheses, or none, do not settle it. Best first,
  /// none from LedFrom on, which are hypotheses; below LeadFrom only where
  /// there would be fewer than FewLeads with those.
  std::vector<Hypothesis> Leads;
  std::vector<LayerShare> Layers;     ///< Likeliest first.
  /// Probability of a cause that is in no entry. Not among Hypotheses.
  double Unknown = 0;
  /// Of recorded runs that look like this one the share that were sound; none
  /// where they have no say.
  std::optional<double> Sound;
  std::optional<NextCheck> Next;      ///< The best over all hypotheses.
  std::optional<Lead> First;          ///< Of the first over the second.
  Unexplained Rest;
};

/// Stands for the recorded runs among the evidence of a hypothesis.
inline constexpr llvm::StringLiteral RecordedRunsItem = "recorded-runs";

/// Stands in shifts and leads for the cause that is in no entry.
inline constexpr llvm::StringLiteral UnknownClass = "unknown";

/// From this probability a layer is suspected; where more than so many are, no part
/// stands out and the first step is to take parts out.
inline constexpr double SuspectedFrom = 0.15;
inline constexpr unsigned ManyLayers = 3;

/// Probability from which a cause is claimed; below which one is not listed
/// where others reach it, unless it is half as likely as the first; and below
/// which one is not listed at all, nor counts among the suspects of its layer:
/// many that are unlikely each may be likely together, as after an
/// out-of-memory error.
inline constexpr double ClaimedFrom = 0.5, ListedFrom = 0.05,
                        CountedFrom = 0.01;

/// Probability from which what only recorded runs speak for is a hypothesis,
/// and from which it is a lead. So many of both there are however unlikely, and
/// so many leads at most.
inline constexpr double LedFrom = 0.3, LeadFrom = 0.02;
inline constexpr unsigned FewLeads = 3, MostLeads = 5;

/// Ranks the causes of \p Entries. \p Symptoms has one element a symptom that
/// any detector declares. Entries without a class take no part. A cause that
/// only generic symptoms speak for (Weights::Generic) is listed if they are all
/// that some entry of it names `always`; otherwise they go to Rest. Where the
/// run has a \p Shape, Weights::Recorded has a say (Rank/Likeness.h).
Diagnosis diagnose(llvm::ArrayRef<SymptomEvidence> Symptoms,
                   llvm::ArrayRef<LogEvidence> Logs,
                   llvm::ArrayRef<Entry> Entries, const Vocabulary &Words,
                   const Weights &W, const ShapeFigures &Shape = {});

} // namespace culprit

#endif // CULPRIT_RANK_DIAGNOSIS_H
