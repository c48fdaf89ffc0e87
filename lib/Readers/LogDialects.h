//===- LogDialects.h - Metrics printed to a log -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Takes the scalars out of lines that training loops print. Most dialects
/// are variations of "step 12 | loss: 3.4, lr 1e-4", so one scanner finds
/// every number with the words in front of it, and a line counts when it has a
/// step and something like a loss:
///
///   iter 290: loss 0.0116, time 24.38ms, mfu 0.31%                   nanoGPT
///   step 00010/01000 (1.00%) | loss: 3.1 | dt: 100.00ms              nanochat
///   iteration 5/ 400 | learning rate: 1.0E-04 | lm loss: 2.1E+00 |   Megatron
///   Step 12 | loss:1.23 lr:2e-05 grad_norm:0.5                       torchtune
///   step:  4  loss:  7.62  grad_norm: 26.6  tps: 10,050          torchtitan
///   step:1 - actor/pg_loss:-0.01 - critic/rewards/mean:0.25            verl
///   step=10, skipped=4, lr=[4.5e-05], mom=[(0.9, 0.95)]           DeepSpeed
///   Epoch 1:  5%|5    | 2/40 [00:01<00:19, 2.00it/s, train_loss=2.5]   tqdm
///   Epoch [1/10], Step [100/600], Loss: 0.2345                    tutorials
///   Train: 0 [  12/48 ( 26%)]  Loss: 1.1 (1.1)  LR: 1.000e-01          timm
///   Epoch(train)  [1][  50/7330]  lr: 1.9780e-02  loss: 1.9800     MMEngine
///   64/64 [=====] - 0s 3ms/step - loss: 1.5 - val_loss: 1.6           Keras
///   Epoch: 001, Loss: 1.9800, Val: 0.7000        by epochs, as in many loops
///   |    ep_rew_mean     | 22.4     |              Stable-Baselines3, a box
///
/// Forms of one project each are those of ProjectLines.h and LogForms.cpp;
/// numbers may stand on lines below their step (LogBlocks.cpp) or in a printed
/// table (LogTables.h).
///
/// Transformers prints Python dicts without a step; their steps follow from
/// the progress bars between them, or from the number of rows and the length
/// of the run, which are known at the end.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_LOGDIALECTS_H
#define CULPRIT_READERS_LOGDIALECTS_H

#include "Readers/ErrorSignatures.h"
#include "Readers/LogBars.h"
#include "Readers/LogLine.h"
#include "Readers/LogPlace.h"
#include "Readers/LogSeries.h"
#include "Readers/LogTables.h"
#include "Readers/ScalarRows.h"

namespace culprit {

/// Whether \p Text is a line of metrics of some dialect.
bool isMetricsLine(llvm::StringRef Text);

/// Whether \p Text is one of metrics without a word for a loss or the like, of
/// XGBoost, LightGBM or CleanRL.
bool isWordlessLine(llvm::StringRef Text);

/// Whether \p Text is a row of a box of metrics. \p Ruled says whether the line
/// before it was of a box, and is set for the line behind it.
bool isBoxLine(llvm::StringRef Text, bool &Ruled);

/// Whether \p Text is a heading of Composer's or of Coqui's, or a line below
/// one.
bool isBlockLine(llvm::StringRef Text);

/// Numbers on lines of their own below a heading.
struct LogBlock {
  std::optional<int64_t> Step;
  llvm::StringRef Prefix; ///< Of each of its lines.
  llvm::StringRef Set;    ///< "val/" or empty.
  bool Ignored = false;
  int64_t Line = 0; ///< Of the heading, as what follows.
  std::optional<double> WallTime;
  std::optional<int64_t> Rank;
  unsigned Foreign = 0; ///< Lines of other kinds since its last one.
  std::vector<std::pair<std::string, double>> Values;
};

/// A round of CatBoost, whose metric has no name.
struct CatBoostRound {
  int64_t Line = 0, Number = 0;
  double Learn = 0;
  std::optional<double> Test, Best;
};

/// Reads the metrics of one log into rows. Not thread-safe.
class LogDialects {
public:
  LogDialects(Source &S, ScalarRows &Rows) : S(S), Rows(Rows) {}

  /// Shows one state of a line, before line() if that is called for it.
  void state(llvm::StringRef Text) { Bars.state(Text); }
  /// Whether the next lines may be metrics by those before them alone.
  bool open() const {
    return Ruled || !Group.empty() || Open || Table.open();
  }
  /// Takes \p L; true when it was a line of metrics.
  bool line(const LogLine &L, const LineScan &Scan);
  /// Adds what had to wait for the end.
  void finish();

private:
  struct Dict {
    int64_t Line;
    std::string Text;
    std::optional<double> WallTime;
  };

  bool knownLine(const LogLine &L, const LineScan &Scan);
  bool dictLine(const LogLine &L);
  bool nestedLine(const LogLine &L);
  bool overflowLine(const LogLine &L);
  void planLine(const LogLine &L);
  bool pairsLine(const LogLine &L);
  bool otherLine(const LogLine &L);
  bool boxLine(const LogLine &L);
  bool blockLine(const LogLine &L);
  void endBlock();
  bool tableLine(const LogLine &L);
  bool formLine(const LogLine &L);
  bool catBoostLine(const LogLine &L);
  void endRounds();
  void placeAt(double Step);
  bool roundLine(const LogLine &L);
  bool batchesLine(const LogLine &L);
  bool loneLine(const LogLine &L);
  bool gameLine(const LogLine &L);
  bool returnLine(const LogLine &L);
  bool epochLine(const LogLine &L, const LinePlace &Place);
  double stepOf(const LinePlace &Place);
  void begin(const LogLine &L);
  int64_t stepsBetweenDicts(size_t TrainRows, double LastEpoch) const;
  void addDict(const Dict &D, std::optional<int64_t> Step);

  Source &S;
  ScalarRows &Rows;
  LogKeys Keys;
  llvm::SmallVector<LoggedPair, 32> Pairs;
  std::vector<Dict> Dicts;
  LogBars Bars;
  int64_t TotalSteps = 0;
  double Epochs = 0;
  bool Finished = false; ///< The summary of a whole run was printed.
  std::optional<double> NewScale; ///< Loss scale that DeepSpeed announced.
  EpochSteps Steps;
  bool BarCountsEpochs = true; ///< As far as bars with epochs were read.
  std::optional<double> Heading; ///< The epoch that a line above names.
  bool Stepped = false;          ///< A line had a step of its own.
  /// The rows of a box that has not ended.
  std::vector<std::pair<std::string, double>> Box;
  std::string Group;  ///< Of the rows of a box, with its slash.
  bool Ruled = false; ///< The line before was of a box without groups.
  std::optional<LogBlock> Open; ///< The block whose lines come.
  PrintedTable Table;
  std::vector<CatBoostRound> Rounds;
  bool Paired = false; ///< DLLogger has told epoch and step of a line.
  unsigned Known = 0;  ///< Lines of a known form, from the first step on.
  LogSeries Series;    ///< Lines of no form that is known.
};

} // namespace culprit

#endif // CULPRIT_READERS_LOGDIALECTS_H
