//===- LogSeries.h - Lines of metrics of no known form ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Trainers print their numbers in more forms than a list can have. What all
/// have in common is that a line comes again and again with other numbers.
/// Lines that no form is known for are kept, grouped by the words in front of
/// their numbers, and looked at when the log has ended: of a group with a loss
/// or another metric the number that rises from line to line is the step.
///
///   loss in epoch 1 iteration 20: 1.386            a counter, and its epoch
///   [train: 2, 50 / 468] , Loss/total: 4.27
///   [10 | 28.62] loss=3.44                         a number in front
///   [step=20/7000,epoch=0]                         a line above
///       train/CrossEntropyLoss=12.18
///
/// A log some of whose lines have a form that is known needs none of this.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_LOGSERIES_H
#define CULPRIT_READERS_LOGSERIES_H

#include "Readers/LogLine.h"
#include "Readers/LogPlace.h"
#include "Readers/ScalarRows.h"
#include <deque>

namespace culprit {

/// Not thread-safe.
class LogSeries {
public:
  /// Keeps \p L, if it has numbers; true when one of them is a metric's.
  bool add(const LogLine &L, LogKeys &Keys);
  /// Whether line \p Number may go on with what the last line kept began.
  bool isBelow(int64_t Number) const;
  /// How many of the lines kept have a metric whose number changes from one to
  /// another.
  unsigned repeated() const;
  /// Lines that came when no more were kept.
  size_t left() const { return Left; }
  /// Forgets all lines.
  void clear();
  /// Adds a row for each line whose step is known, in their order.
  void finish(ScalarRows &Rows, LogKeys &Keys);

private:
  struct Line {
    int64_t Number;
    std::optional<double> WallTime;
    unsigned Group;
    size_t First; ///< Of its numbers in Values.
  };

  /// A number of the lines of a group.
  struct Column {
    std::string Key;
    std::string Name;      ///< Of its scalar; empty for none.
    bool Assigned = false; ///< By ':' or '='.
    bool Whole = true;     ///< In all lines, and no time or share.
    bool Falls = false;    ///< From one line to the next, somewhere.
    bool Rises = false;
    unsigned Decimals = 0;
    bool Front = false; ///< Nothing stands before it on the line.
  };

  struct Group {
    std::vector<Column> Columns; ///< And the totals, of "5/400", behind them.
    std::string Lead;            ///< The words up to the last number.
    std::vector<unsigned> Lines;
    int Step = -1, Epoch = -1; ///< Columns.
    bool ByWord = false;       ///< A word says that it is a step or an epoch.
    bool HasMetric = false;    ///< Of a name that is known, or a loss.
    bool Numbered = false;     ///< Its lines are counted for want of a step.
    std::string Set;           ///< "val/", "test/" or empty.
    EpochSteps Steps;
  };

  bool full() const;
  void describe(Group &G, llvm::ArrayRef<LoggedPair> Pairs,
                llvm::StringRef Text);
  void findPlace(Group &G, LogKeys &Keys);
  void findNames(Group &G, LogKeys &Keys);
  void nameLoss(LogKeys &Keys);
  bool fallsWith(const Group &G, int Counter, int Epoch) const;
  double valueOf(unsigned Line, int Column) const {
    return Values[Lines[Line].First + Column];
  }
  void addRow(unsigned At, ScalarRows &Rows);
  std::optional<double> placeOf(unsigned At);

  std::deque<Group> Groups;
  llvm::StringMap<unsigned> ByKeys;
  std::vector<Line> Lines;
  std::vector<double> Values;
  size_t Left = 0;
  llvm::SmallVector<LoggedPair, 32> Pairs;

  // While rows are added.
  std::optional<double> Heading;  ///< The step or epoch of a line above.
  std::optional<double> LastStep; ///< Of a row of training.
  bool Counts = false;            ///< Some group of training has a step.
};

} // namespace culprit

#endif // CULPRIT_READERS_LOGSERIES_H
