//===- Recordings.h - What recording more would tell ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Symptoms that nobody could look for, by the tables they wait for: what is
/// learned, in bits, from one of them and from a recording, which decides all
/// that it has the tables of.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_RANK_RECORDINGS_H
#define CULPRIT_RANK_RECORDINGS_H

#include "Rank/Model.h"
#include <map>

namespace culprit {

/// Works out what it is asked for, each thing once, over the likeliest sets of
/// causes: it orders what to do next. Refers to what it was made of.
class Recordings {
public:
  Recordings(const Model &M, const Beliefs &B, const Vocabulary &Words,
             const Weights &W);

  /// Expected information of looking for \p Symptom, in bits.
  double ofSymptom(unsigned Symptom);

  /// Whether what \p Symptom waits for can be recorded. Some detectors say in
  /// words why they keep silent: no table would change that.
  bool isPossible(unsigned Symptom) const { return !Tables[Symptom].empty(); }

  /// What recording the tables of \p Symptom tells in all, in bits, for
  /// somebody who suspects a cause of \p Layer.
  double gain(unsigned Symptom, llvm::StringRef Layer);

  /// What it takes; of several tables the dearest counts, since one run records
  /// them all.
  double minutes(unsigned Symptom) const;

private:
  /// Sorted: names of tables, `scalars.layer` beside `scalars`.
  using TableSet = std::vector<std::string>;

  double sumOf(const TableSet &Recorded, llvm::StringRef Layer);
  double toldElsewhere(const std::vector<bool> &Decided,
                       llvm::StringRef Layer) const;

  const Model &M;
  const Vocabulary &Words;
  const Weights &W;
  const Beliefs Likely;
  double Open;      ///< What is not known of the causes in question, in bits.
  double NoneKnown; ///< Probability that it is none of them.
  std::vector<TableSet> Tables;  ///< By symptom; empty for none to record.
  std::vector<double> OfSymptom; ///< -1 for not worked out.
  std::map<std::pair<TableSet, std::string>, double> Known;
};

} // namespace culprit

#endif // CULPRIT_RANK_RECORDINGS_H
