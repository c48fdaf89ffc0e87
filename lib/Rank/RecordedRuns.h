//===- RecordedRuns.h - What runs like this one had -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// kb/recorded-runs.txt: what the recorded cases turned out to be, as decision
/// trees that scripts/fit-rank grew on them one after another (gradient
/// boosting: Friedman 2001). Each tree asks a few questions of a run, whether a
/// symptom is there or how its curves go (Case/RunShape.h), and says by how
/// much the answers raise or lower the log-odds of one class, where the trees
/// before it are wrong. What they add up to becomes shares (softmax).
///
/// Beside the network it knows what no entry says: which sights come together,
/// which of them a sound run has as well, and what a cause looks like where
/// nothing specific shows it. It knows nothing of causes that nobody recorded.
///
/// The file, a line each: `#` and a remark; `ask symptom ID`, whose answer is
/// the score where the symptom is there and 0 where it is not; `ask shape NAME
/// VALUE`, answered by VALUE where a run has no such figure; `class NAME V`,
/// what it has before any tree; `tree C`, of the class at that place. Then its
/// nodes, each before what is below it: `Q T`, a question by its place and a
/// threshold, followed by the branch of answers up to T and by that of answers
/// above; or `= V N`, what it adds, and the number of runs that ended here.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_RANK_RECORDEDRUNS_H
#define CULPRIT_RANK_RECORDEDRUNS_H

#include "Rank/Diagnosis.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"
#include <optional>
#include <string>
#include <vector>

namespace culprit {

class RecordedRuns {
public:
  /// What a tree asks: how sure a symptom is seen, 0 where it is not, or a
  /// figure of the run's shape.
  struct Question {
    bool OfShape = false;
    std::string Name;
    double Missing = 0; ///< The answer of a run that has none.
  };

  /// About what a question added to the share of a class, and its answer.
  struct Reason {
    const Question *Asked = nullptr;
    double Answer = 0, Share = 0;
  };

  /// A run's answer to each question, by its place.
  using Answers = std::vector<double>;

  /// Loads the file \p Path. Fails, with the line, on what is none.
  static llvm::Expected<RecordedRuns> load(llvm::StringRef Path);
  /// The same from text; \p Name stands for the file in messages.
  static llvm::Expected<RecordedRuns> parse(llvm::StringRef Text,
                                            llvm::StringRef Name);

  Answers answersOf(llvm::ArrayRef<SymptomEvidence> Symptoms,
                    const ShapeFigures &Shape) const;

  /// The place of a class in what shares() gives; none of one that no recorded
  /// run has.
  std::optional<unsigned> placeOf(llvm::StringRef Class) const;
  llvm::ArrayRef<std::string> classes() const { return Classes; }
  /// Of the figures that are asked about the share that \p Shape has; 1 where
  /// none is.
  double known(const ShapeFigures &Shape) const;
  /// Whether any recorded run tells what \p Symptom comes with.
  bool asksAbout(llvm::StringRef Symptom) const;

  /// Of recorded runs that answer like \p A the share of each class, by its
  /// place; they add up to 1.
  std::vector<double> shares(const Answers &A) const;

  /// What made \p Share of the class at \p Place what it is, most first: of
  /// each question how much of it came or went with its answers. In log-odds,
  /// before what other classes gained, they add up; here they are scaled to the
  /// share less that of all recorded runs.
  std::vector<Reason> reasons(const Answers &A, unsigned Place,
                              double Share) const;

private:
  /// Small, since a run is led through thousands of trees.
  struct Node {
    double Threshold = 0; ///< Of a leaf what it adds.
    int Asked = -1;       ///< Place of the question; none of a leaf.
    unsigned Above = 0;   ///< Node of the answers above; the others' is next.
  };
  /// Of the runs below a node how many they are and what is added in the mean.
  struct Mean {
    double Value = 0, Runs = 0;
  };
  struct Tree {
    unsigned Class, Root;
  };
  class Parser;

  /// The node below \p At to which the answers \p A lead.
  unsigned below(unsigned At, const Answers &A) const;

  std::vector<Question> Questions;
  std::vector<std::string> Classes;
  std::vector<double> Starts; ///< Of the classes, before any tree.
  llvm::StringMap<unsigned> Places, Symptoms;
  std::vector<Node> Nodes; ///< Of all trees.
  std::vector<Mean> Means; ///< Of each node.
  std::vector<Tree> Trees; ///< By class, and of one as they were grown.
};

} // namespace culprit

#endif // CULPRIT_RANK_RECORDEDRUNS_H
