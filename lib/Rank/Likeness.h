//===- Likeness.h - Network and recorded runs together ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// What a cause of a training run is given by the network, by what was seen of
/// its symptoms, and by the recorded runs that look like this one, weighed
/// against each other as kb/fitted.yaml has it:
///
///   log-odds = network * log-odds of the network + runs * log-odds of the
///              share of recorded runs that have it + none * log-odds of the
///              share without a cause that has a class + rival * log-odds of
///              the largest share that another cause has + offset
///
/// A cause that no recorded run has is weighed with the share of those whose
/// cause no entry knows: what looks like sound runs is doubted there as well.
/// So is the unknown cause itself, whose share this is.
/// The network alone has the word where the run has no loss curve. Where
/// something speaks for a cause that no recorded run ever showed (an error
/// message, a line that quotes an entry, a symptom of a device), or that this
/// cause alone shows and hardly any run without it (Weights::Decisive; a loss
/// that only a second softmax gives), the surer of both has it: runs may raise
/// such a cause, not lower it. What such a symptom refutes, since the cause
/// never shows it, they may lower, not raise.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_RANK_LIKENESS_H
#define CULPRIT_RANK_LIKENESS_H

#include "Rank/Model.h"
#include "Rank/RecordedRuns.h"

namespace culprit {

class Likeness {
public:
  /// Refers to all that it is made of.
  Likeness(const Model &M, llvm::ArrayRef<SymptomEvidence> Symptoms,
           const ShapeFigures &Shape, const Weights &W);

  /// Whether the recorded runs have a say in this run at all.
  bool counts() const { return !Shares.empty(); }

  /// Recorded runs had one cause each: where none reaches a half by \p B and
  /// them, all together get 1 at most, so that many that fit a little do not
  /// each look likely. Before anything else is asked.
  void settle(const Beliefs &B);

  /// The calibrated probability of \p Cause, to which the network gives
  /// \p Network.
  double probability(unsigned Cause, double Network) const;

  /// What becomes of that once the network, which believes \p B, gives \p Cause
  /// \p After: the same step in log-odds, as an observation says no less where
  /// recorded runs have a say.
  double moved(const Beliefs &B, unsigned Cause, double After) const;

  /// What the recorded runs add to the log-odds of \p Cause, to which the
  /// network gives \p Network, in nats; 0 where the network alone has the word.
  double added(unsigned Cause, double Network) const;

  /// The same as a piece of evidence, with what of the run makes it look so.
  EvidenceItem item(unsigned Cause, double Network) const;

  /// Of the recorded runs like this one the share that were sound.
  std::optional<double> sound() const;
  /// The share of those whose fault no entry knows; 0 where they have no say.
  double unknown() const;

  /// Causes that some recorded run like this one has and that nothing seen here
  /// rules out, though no symptom need speak for them.
  std::vector<unsigned> causes() const;

  /// Whether something is there that runs of \p Cause never show.
  bool isRefuted(unsigned Cause) const;

private:
  bool isNews(unsigned Cause) const;
  bool isProved(unsigned Cause) const;
  bool isTypical(const Link &L) const;
  bool isSure(unsigned Symptom) const;
  bool isWordOfNetwork(unsigned Cause, double Network) const;
  /// Whether \p Own, what the network gives as it is calibrated, stands, and
  /// not what comes of it and the recorded runs.
  bool stands(unsigned Cause, double Own, double Blended) const;
  double ofRuns(unsigned Cause) const;
  double blended(unsigned Cause, double Own) const;
  std::string textOf(const RecordedRuns::Reason &R) const;
  /// Share of the recorded runs for \p Cause, or for one that none of them has.
  double shareOf(unsigned Cause) const;
  /// Share of those without any cause that has a class: these and the sound.
  double none() const;
  /// The place of the cause but \p Cause that most of them had.
  std::optional<unsigned> rivalOf(unsigned Cause) const;
  const Weights::Blend &weights(unsigned Cause) const;

  const Model &M;
  const Weights &W;
  llvm::ArrayRef<SymptomEvidence> Symptoms;
  const ShapeFigures &Shape;
  RecordedRuns::Answers Answers;
  std::vector<double> Shares; ///< Of RecordedRuns::classes().
  double Scale = 1; ///< Of settle().
  /// Places of the two causes that most of them had.
  std::vector<unsigned> Likeliest;
  /// By symptom how many causes show it more often than not.
  std::vector<unsigned> ShownBy;
};

} // namespace culprit

#endif // CULPRIT_RANK_LIKENESS_H
