//===- LogPlace.h - Where a line of metrics belongs -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// The numbers of a line that training loops print, what the words in front of
/// them mean, and which of them say at which step or epoch the line was
/// printed. Of lines that name an epoch and no step more is asked than of
/// others, since sentences have epochs too: "epoch 3 of the story".
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_LOGPLACE_H
#define CULPRIT_READERS_LOGPLACE_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace culprit {

/// A number of a line and what stands in front of it.
struct LoggedPair {
  llvm::StringRef Key; ///< "lm loss", "step", empty when nothing stands there.
  double Value = 0;
  llvm::StringRef Unit;  ///< "ms", "%", "GiB" or empty.
  double Of = 0;         ///< 400 in "5/ 400"; 0 for none.
  unsigned Decimals = 0; ///< Digits behind the point; 0 with an exponent.
  bool Assigned = false; ///< Key and value are joined by ':' or '='.
  /// Where the number begins, and where it ends with its unit and its total.
  unsigned Begin = 0, End = 0;

  bool isTime() const { return Unit == "ms" || Unit == "s" || Unit == "us"; }
};

/// All numbers of \p Text, NaN and infinities included.
void findPairs(llvm::StringRef Text, llvm::SmallVectorImpl<LoggedPair> &Pairs);

/// What the words before numbers mean; each is looked up once.
class LogKeys {
public:
  struct Meaning {
    bool Step = false, Epoch = false, LossLike = false;
    bool Batch = false;      ///< Counts the batches of an epoch.
    bool Validation = false; ///< Of an evaluation: "validate step".
    bool Scalar = false;     ///< Known, and no step, rank or time.
    bool Ignored = false;    ///< A step, rank or time.
    bool Short = false;      ///< Of two words at most, as in "D loss".
    std::string Metric;
  };
  const Meaning &of(llvm::StringRef Key);

private:
  llvm::StringMap<Meaning> Known;
};

/// What places a line of pairs.
struct LinePlace {
  const LoggedPair *Step = nullptr, *Epoch = nullptr;
  bool LossLike = false;
  bool Validation = false; ///< The step names an evaluation: "validate step".
  bool EpochFirst = false; ///< The counter starts again each epoch.
  bool Fraction = false;   ///< The step has no name but a total.
  bool Bar = false;        ///< The step is what a progress bar counts.
  bool ByEpoch = false;    ///< There is no step; the epoch places the line.
  bool Evaluation = false; ///< Of an evaluation: its epoch, or its batches.
  bool Measured = false;   ///< The first number is a loss beyond doubt.
  const LoggedPair *Length = nullptr; ///< The steps that an epoch has.

  /// Whether a line of this place has metrics, whatever stands around it.
  bool isMetrics() const { return (Step || ByEpoch) && LossLike; }
};

/// Whether a pair is worth a row: a known name, or an identifier that was
/// assigned to, not a word of a sentence. Losses may be of two words.
bool isScalarKey(const LoggedPair &P, const LogKeys::Meaning &Key);

/// \p Pairs are those of \p Text.
LinePlace placeOf(llvm::StringRef Text, llvm::ArrayRef<LoggedPair> Pairs,
                  LogKeys &Keys);

/// The number in a line that stands above those of an epoch, "Epoch 3/10".
std::optional<double> epochOfHeading(llvm::StringRef Text);

/// "val/" or "test/" where the words of \p Text name such a set, "" where they
/// name that of training, none where they name no set.
std::optional<llvm::StringRef> setNamedIn(llvm::StringRef Text);

/// The steps of a run whose log counts those of each epoch.
class EpochSteps {
public:
  /// Of the \p Count-th step of \p Of in \p Epoch, where that is known.
  double ofTotal(double Count, double Of, std::optional<double> Epoch);
  /// Of a counter that may or may not begin again with each epoch.
  double ofCounter(double Count, std::optional<double> Epoch);
  /// An epoch was said to have \p Steps.
  void length(double Steps) { Length = Steps; }

private:
  std::optional<double> First;
  std::map<double, double> Before; ///< Steps before each epoch.
  /// Of an epoch with a total: the steps before it, and that total.
  std::map<double, std::pair<double, double>> Totals;
  double Highest = 0;              ///< Count of the newest epoch.
  double Gap = 0;                  ///< From the count before it.
  double Length = 0;
  double Rounds = 0, LastCount = 0; ///< Of totals without epochs.
};

} // namespace culprit

#endif // CULPRIT_READERS_LOGPLACE_H
