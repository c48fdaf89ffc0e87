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
/// The posterior is exact for up to three causes at once. More than three
/// independent faults in one run have a prior below 1e-5 and are not worth
/// the cubic cost. Only causes that some present symptom speaks for are
/// enumerated: about 10,000 sets of 40 causes in the worst case, 2 ms.
///
/// This file sees neither tables nor files, so it is tested by hand-made
/// numbers.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_RANK_NETWORK_H
#define CULPRIT_RANK_NETWORK_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
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
};

struct SymptomNode {
  std::string Id; ///< Unique.
  double Leak = 0.02;
};

struct Network {
  std::vector<CauseNode> Causes;
  std::vector<SymptomNode> Symptoms;
};

enum class Presence { Unknown, Absent, Present };

/// What was seen of one symptom. Score matters for Present only.
struct Observation {
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

struct CausePosterior {
  unsigned Cause;     ///< Index into Network::Causes.
  double Probability; ///< Marginal posterior.
  std::vector<Influence> Influences; ///< Observed symptoms it names, the
                                     ///< most typical or telling first.
};

/// The likelihood ratio of a symptom seen with score 1; at score s it is this
/// to the power s, and its inverse for a symptom checked and not seen.
inline constexpr double CertainRatio = 200;

/// Posterior of every cause that a present symptom speaks for and whose
/// required symptoms are not clear, best first; ties by class. \p Seen has one
/// observation a symptom of \p N.
std::vector<CausePosterior> posterior(const Network &N,
                                      llvm::ArrayRef<Observation> Seen);

} // namespace culprit

#endif // CULPRIT_RANK_NETWORK_H
