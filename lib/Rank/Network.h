//===- Network.h - Causes, symptoms and a noisy-OR --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// The model that turns symptoms into causes, in the manner of QMR-DT: a layer
/// of causes, each present or not, and a layer of symptoms, each switched on
/// by any present cause that names it, or by nothing in particular (the leak).
///
///   P(S on | active causes A) = 1 - (1 - leak) * product over A of (1 - w)
///
/// with w = P(S | that cause alone). A cause that names a symptom `never`
/// does not switch it on and suppresses its leak while it is active.
///
/// A detector does not see a symptom with certainty: a score s in [0, 1]
/// enters as likelihoods P(seen | on) : P(seen | off), from 1 : 1 at score 0
/// to a fixed large ratio at score 1. A symptom nobody could check enters
/// nowhere: missing evidence is not negative evidence.
///
/// One cause may stand for all that nobody has written down: Network::Unknown.
/// It shows any symptom a little, so that evidence which fits no known cause
/// well is not shared out among those that fit it least badly.
///
/// The posterior is exact for up to three causes at once. More than three
/// independent faults in one run have a prior below 1e-5 and are not worth
/// the cubic cost. Only causes that some present symptom speaks for are
/// enumerated: about 10,000 sets of 40 causes in the worst case.
///
/// This file sees neither tables nor files, so it is tested by hand-made
/// numbers.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_RANK_NETWORK_H
#define CULPRIT_RANK_NETWORK_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include <array>
#include <optional>
#include <string>
#include <vector>

namespace culprit {

/// P(symptom | cause) as one link.
struct Link {
  unsigned Symptom; ///< Index into Network::Symptoms.
  double Weight;    ///< 0 to 1.
  bool Never;       ///< Suppresses the leak instead of causing.
  /// The cause cannot be where the symptom was checked and is not there.
  bool Required = false;
};

struct CauseNode {
  std::string Class; ///< Unique.
  double Prior = 0.05;
  std::vector<Link> Links; ///< At most one a symptom.
  /// Bits of the groups it belongs to, of which one cause at most is present.
  uint64_t Exclusive = 0;
};

struct SymptomNode {
  std::string Id; ///< Unique.
  double Leak = 0.02;
};

struct Network {
  std::vector<CauseNode> Causes;
  std::vector<SymptomNode> Symptoms;
  /// Index of the cause that stands for all unknown ones, which is present
  /// only where no other is; -1 for none.
  int Unknown = -1;
  /// The likelihood ratio of a symptom seen with score 1; at score s it is
  /// this to the power s, and its inverse for a symptom checked and not seen.
  double CertainRatio = 200;
  double NeverLeaves = 0.05; ///< What `never` leaves of a leak.
  /// What the odds of a set are multiplied by for each cause beyond the first:
  /// 1 where causes come independently, less where a run that has one fault is
  /// no likelier to have a second than any other run.
  double Together = 1;
};

enum class Presence { Unknown, Absent, Present };

/// ln(P / (1 - P)), in nats, of a probability that is neither 0 nor 1.
double logOddsOf(double P);

/// Its inverse.
double probabilityOf(double LogOdds);

/// unknown, absent, present: as reports keep it.
llvm::StringRef toString(Presence P);
std::optional<Presence> parsePresence(llvm::StringRef Word);

/// What was seen of one symptom. Score matters for Present only.
struct SymptomObservation {
  Presence State = Presence::Unknown;
  double Score = 0;
};

/// What one observed symptom did to one cause.
struct Influence {
  unsigned Symptom;
  double LogOdds; ///< Posterior log-odds with it less without it, in nats.
  /// What it would be worth if this were the only cause there is: how typical
  /// the symptom is of the cause. Does not shrink when another cause explains
  /// the same symptom.
  double Typical;
};

/// The log-odds of a cause are the sum of three parts: Prior, the Typical of
/// each influence, and Rivals, what other causes leave of that.
struct CausePosterior {
  unsigned Cause;     ///< Index into Network::Causes.
  double Probability; ///< Marginal posterior.
  std::vector<Influence> Influences; ///< Observed symptoms it names, the
                                     ///< most typical or telling first.
  double Prior = 0;  ///< Log-odds before any evidence, in nats.
  double Rivals = 0; ///< nats; mostly negative.
};

/// A set of up to three causes that are present, all others being absent.
struct CauseSet {
  double Weight = 0; ///< Its probability.
  std::array<uint8_t, 3> Members{}; ///< Indices into Beliefs::Candidates.
  uint8_t Size = 0;

  llvm::ArrayRef<uint8_t> members() const { return {Members.data(), Size}; }
};

/// The posterior: of each cause, and jointly.
struct Beliefs {
  std::vector<CausePosterior> Causes; ///< Best first; ties by class.
  std::vector<unsigned> Candidates;   ///< Indices into Network::Causes.
  /// Weights add up to 1; negligible ones are left out.
  std::vector<CauseSet> Sets;

  /// Probability that some present cause is one that \p Counts holds of, which
  /// is called with indices into Network::Causes.
  double anyOf(llvm::function_ref<bool(unsigned)> Counts) const;

  /// Candidates and the \p Most likeliest sets, which add up to 1 again,
  /// without Causes: for estimates over many symptoms.
  Beliefs likeliest(size_t Most) const;

  /// Probability of each of Candidates after one more observation, which a
  /// set of causes gives with the probability \p Given.
  std::vector<double>
  after(llvm::function_ref<double(const CauseSet &)> Given) const;
};

/// How probable each two candidates are together: what a test of one of them
/// would leave of all others, without going through all sets again.
class Pairs {
public:
  explicit Pairs(const Beliefs &B);

  /// Probability of each candidate after an experiment that tells whether
  /// \p Tested is present, is right with probability \p Right, and says so or
  /// not.
  std::vector<double> after(size_t Tested, double Right, bool SaysSo) const;

private:
  double both(size_t A, size_t B) const { return Joint[A * Count + B]; }

  size_t Count;
  std::vector<double> Joint; ///< Count by Count.
};

/// Posterior of every cause that a present symptom speaks for and whose
/// required symptoms are not clear, and of the unknown one. \p Seen has one
/// observation a symptom of \p N.
Beliefs posterior(const Network &N, llvm::ArrayRef<SymptomObservation> Seen);

/// The posterior of \p Cause if it were the only one there is: of what no
/// symptom need speak for.
CausePosterior alone(const Network &N, llvm::ArrayRef<SymptomObservation> Seen,
                     unsigned Cause);

/// What was seen of the symptom of \p L is worth for its cause alone, against
/// no cause: the log of a likelihood ratio, 0 where nobody looked.
double worthOf(const Network &N, const Link &L,
               llvm::ArrayRef<SymptomObservation> Seen);

/// P(\p Symptom on) where the causes of \p S are present and no others.
double chanceOf(const Network &N, const Beliefs &B, const CauseSet &S,
                unsigned Symptom);

/// Expected information, in bits, about which causes are present, of looking
/// for a symptom that nobody has looked for.
double informationOf(const Network &N, const Beliefs &B, unsigned Symptom);

/// The same of an experiment that tells whether a cause of probability \p P
/// is present, and is right with probability \p Right.
double informationOf(double P, double Right);

/// The same of a sight that comes with probability \p IfSo where a cause of
/// probability \p P is present and with \p IfNot where it is not.
double informationOf(double P, double IfSo, double IfNot);

/// What is not known of which causes are present, in bits.
double entropyOf(const Beliefs &B);

} // namespace culprit

#endif // CULPRIT_RANK_NETWORK_H
