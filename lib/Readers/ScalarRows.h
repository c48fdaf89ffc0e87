//===- ScalarRows.h - From logged records to rows of scalars ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// What all readers of metrics share. A record is what was logged at once: a
/// JSON object, a CSV row, a line of stdout. It has fields; some place it (the
/// step, the rank, the layer), the others become a row of `scalars` each.
///
///   Rows.begin(Line);
///   Rows.number("step", 3);
///   Rows.number("train/loss", 2.5);
///   Rows.end();                       // adds loss = 2.5 at step 3
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_SCALARROWS_H
#define CULPRIT_READERS_SCALARROWS_H

#include "Case/Source.h"
#include "Readers/EpochCounter.h"
#include "Readers/ScalarNames.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"
#include <map>
#include <optional>

namespace culprit {

/// Fills the `scalars` table of one Source, which must outlive it. Rows keep
/// the order of the log, a step that occurs twice included. Not thread-safe.
class ScalarRows {
public:
  explicit ScalarRows(Source &S);

  /// Begins the record at \p Line. A record that was not ended is dropped.
  void begin(int64_t Line);
  void number(llvm::StringRef Key, double Value);
  /// Takes numbers in quotes, layers and time stamps; other text is ignored.
  void string(llvm::StringRef Key, llvm::StringRef Value);
  /// The step of a record whose fields do not say it.
  void step(int64_t Step) { Step_ = Step; }
  void rank(int64_t Rank) { Rank_ = Rank; }
  void wallTime(double Unix) { Time = Unix; }
  /// Adds the record's rows; false when it holds no scalar.
  bool end();

  /// Of a file whose names of numbers are all \p Keys, before its records: what
  /// is its loss under another name is known then.
  void expect(llvm::ArrayRef<std::string> Keys);

  /// Of a file that holds the measurements of one set: eval.jsonl, and
  /// val/metrics.csv beside train/metrics.csv.
  void takeSetOfPath();

  /// Tells, once, when steps went back.
  void finish();

  std::optional<int64_t> lastStep() const { return LastStep; }
  size_t rows() const { return Added; }

private:
  /// What is known of a raw name; found once a file.
  struct Name {
    FieldKind Kind;
    ScalarName Scalar;
    bool Exact; ///< The raw name is the canonical one.
    StringId Canonical, Metric, Layer, Raw;
  };
  struct Field {
    const Name *Of;
    double Value;
  };

  const Name &name(llvm::StringRef Key);
  const Name &layerName(const Name &Raw, llvm::StringRef Layer);
  Name resolve(ScalarName Scalar, FieldKind Kind, llvm::StringRef Raw);
  void place(const Name &Of, double Value);
  void followStep(int64_t Step);
  void addRow(const Name &Of, double Value, bool OwnName, int64_t Step,
              StringId RawName = NullString);
  void addFields(int64_t Step);
  bool addNamedValue(int64_t Step);
  void findOwners();
  void rename(Field &F, llvm::StringRef Name);
  void nameTime();
  void nameRate();
  void nameTimesOfParts();
  void nameHeldOut();
  void nameOfSet();
  bool isEvaluation() const { return !Set.empty(); }
  bool hasHeldOutName() const;
  /// Whether all that it has is of an evaluation, by its set or its names.
  bool measuresHeldOut() const;
  const Name *lossOfPolicy();
  bool isOfLayer() const;
  bool isOfEpoch() const;
  int64_t stepOfRecord();
  void countOn();

  Source &S;
  StringId Run;
  std::optional<int64_t> FileRank;
  llvm::StringMap<Name> Names;
  llvm::StringMap<Name> LayerNames;

  // The record.
  int64_t Line = 0;
  llvm::SmallVector<Field, 16> Fields;
  std::optional<int64_t> Step_, Rank_;
  std::optional<double> Time, ValueField;
  std::optional<int64_t> Batch;
  std::string Layer, MetricName;
  llvm::StringRef Set; ///< "val/" or "test/"; empty for training.
  double StepOf = 0;   ///< 400 in "12/400"; 0 for none.
  bool Summary = false;
  unsigned StepTrust = 0;
  llvm::DenseMap<StringId, const Name *> Owners;

  // The file.
  std::optional<int64_t> LastStep;
  std::optional<double> LastEpoch;
  bool Validated = false; ///< A record had a held-out loss by that name.
  std::map<int64_t, int64_t> LastStepOfRank;
  std::map<int64_t, EpochCounter> CounterOfRank;
  std::optional<int64_t> FirstBatch;
  bool BatchCounts = false; ///< `batch` was not the same in all records.
  llvm::StringRef SetOfFile;
  int64_t Counted = 0;         ///< Rows without a step.
  bool CountsTraining = false; ///< One of them is of training.
  size_t Added = 0;
  unsigned TimesBack = 0;
  std::string FirstBack;
};

/// The rank that a file's name or folder tells, as in metrics_rank3.jsonl.
std::optional<int64_t> rankOfPath(llvm::StringRef Path);

} // namespace culprit

#endif // CULPRIT_READERS_SCALARROWS_H
