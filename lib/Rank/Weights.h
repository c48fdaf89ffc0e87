//===- Weights.h - The numbers of the ranking -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// kb/ranking.yaml: priors, leaks, and what the words of an entry's Signals
/// are worth; and kb/fitted.yaml: what recorded cases make of these words,
/// cause by cause. Reviewed data files, so that no weight hides in code.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_RANK_WEIGHTS_H
#define CULPRIT_RANK_WEIGHTS_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace culprit {

class RecordedRuns;

/// What an experiment or a recording takes, and what its answer is worth.
struct Experiments {
  double Right = 0.95;  ///< Probability that the answer is right.
  double Minutes = 10;  ///< Where nothing else is said.
  std::map<std::string, double> ByClass;     ///< Minutes of a Confirm.
  std::map<std::string, double> ByRecording; ///< Minutes, by table.
};

struct Weights {
  double Always = 0.95, Often = 0.7, Sometimes = 0.3, Never = 0.01;
  double Prior = 0.05;
  std::map<std::string, double> Priors; ///< By class.
  double Leak = 0.02;
  std::map<std::string, double> Leaks; ///< By symptom.
  /// Symptoms that many causes share and that name none by themselves.
  std::vector<std::string> Generic;
  double LogTextCause = 0.6, LogTextLeak = 0.005;
  /// LogTextLeak where a `log-` symptom of the same cause was seen.
  double LogTextLeakBeside = 0.1;

  /// A cause that is in no entry: its prior, and how many times its leak it
  /// shows any of the symptoms that are there; the generic ones, which come
  /// together whatever the cause, less. A prior of 0 takes it out.
  double UnknownPrior = 0, UnknownShows = 10, UnknownShowsGeneric = 10;
  /// See Network.
  double CertainRatio = 200, NeverLeaves = 0.05, Together = 1;
  /// Of a symptom that is absent, what each cause would leave of its silence is
  /// raised to this: 1 takes absences as independent of each other.
  double AbsentPower = 1;
  /// Groups of classes of which a run has one at most.
  std::vector<std::vector<std::string>> Exclusive;
  Experiments Cost;
  /// What becomes of the log-odds of a cause, so that of the causes said to be
  /// 70 % likely 7 in 10 are right: a line of slope Low where they are small,
  /// of slope High where they are large, bent in between, and Offset (beta
  /// calibration). Keeps their order.
  struct Curve {
    double Low = 1, High = 1, Offset = 0;
  };
  Curve Calibration;
  /// What becomes of the log-odds of a cause where recorded runs have a say
  /// (Rank/Likeness.h): of those that some of them have, and of all others.
  /// `None` and `Rival` are of what else runs like this one had: no cause that
  /// has a class, and the cause that most of them had but this one.
  struct Blend {
    double Network = 1, Runs = 0, Offset = 0, None = 0, Rival = 0;
  };
  Blend OfRecorded, OfOthers;
  /// What a symptom must be to decide by itself, whatever recorded runs look
  /// like: reported with `Score` at least, shown by the cause with `Weight`,
  /// and without any cause of it with `Leak` at most; 0 and nothing decides.
  struct Proof {
    double Score = 0.9, Weight = 0.5, Leak = 0;
  };
  Proof Decisive;
  /// kb/recorded-runs.txt; none of weights without such.
  std::shared_ptr<const RecordedRuns> Recorded;
  /// The calibrated form of the probability \p P.
  double calibrated(double P) const;
  /// P(symptom | cause) from recorded cases, in place of the entry's word.
  std::map<std::string, std::map<std::string, double>> Fitted;

  double prior(llvm::StringRef Class) const;
  /// The fitted value of the link, if there is one.
  std::optional<double> fitted(llvm::StringRef Class,
                               llvm::StringRef Symptom) const;
  /// Minutes of the experiment that settles \p Class.
  double minutesOf(llvm::StringRef Class) const;
  /// Minutes of recording \p Need, a table with or without a column; none of
  /// what has no price and so cannot be recorded.
  std::optional<double> priceOf(llvm::StringRef Need) const;
  /// The same with a guess for what has no price.
  double minutesToRecord(llvm::StringRef Need) const;
  double leak(llvm::StringRef Symptom) const;
  bool isGeneric(llvm::StringRef Symptom) const;

  /// Loads the file \p Path. Fails on what is no YAML, an unknown key, or a
  /// number that is no probability strictly between 0 and 1.
  static llvm::Expected<Weights> load(llvm::StringRef Path);
  /// The same from text; \p Name stands for the file in messages.
  static llvm::Expected<Weights> parse(llvm::StringRef Yaml,
                                       llvm::StringRef Name);
  /// Takes over the leaks and links of the file \p Path, made by
  /// scripts/fit-rank. One that is not there changes nothing.
  llvm::Error loadFitted(llvm::StringRef Path);
  llvm::Error parseFitted(llvm::StringRef Yaml, llvm::StringRef Name);
  /// Takes over the recorded runs of the file \p Path. One that is not there
  /// changes nothing.
  llvm::Error loadRecorded(llvm::StringRef Path);
};

} // namespace culprit

#endif // CULPRIT_RANK_WEIGHTS_H
