//===- Detector.h - A check for symptoms ------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// What every detector says about itself before it runs, and how it runs.
/// The declaration is data, so that detectors can be listed, explained,
/// selected and skipped without running any of their code.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_DETECT_DETECTOR_H
#define CULPRIT_DETECT_DETECTOR_H

#include "Detect/CaptureGate.h"
#include "Detect/Outcome.h"
#include <chrono>
#include <memory>
#include <string>
#include <variant>
#include <vector>

namespace culprit {

/// The value of an option, or of a column that rows must have.
using Scalar = std::variant<bool, int64_t, double, std::string>;

/// As people write it: true, 64, 0.1, kernel.
std::string toString(const Scalar &Value);

/// What a detector needs of one table:
///
///   scalars = { "step", "value", metric = { "loss", "val_loss" } }
///
/// Among the rows whose `metric` is `loss` or `val_loss` each of `step` and
/// `value` must be known of some row. So a detector of the loss is skipped,
/// and not clear, where no loss is logged.
struct Need {
  struct Condition {
    unsigned Column; ///< In the schema of Table.
    std::vector<Scalar> AnyOf;
  };

  TableId Table = TableId::gpu_work;
  std::vector<unsigned> Columns;
  std::vector<Condition> Rows; ///< All must hold for the same row.
  /// Also the values behind `tensors`, which the pseudo-column `data` asks
  /// for.
  bool Data = false;
};

/// Everything a detector needs.
struct Needs {
  std::vector<Need> All;
  /// Of each list, one at least.
  std::vector<std::vector<Need>> AnyOf;
};

/// What \p C lacks of \p N, in the words of Outcome::Missing; empty when the
/// detector can run.
std::vector<std::string> missingFrom(const Case &C, const Needs &N);

/// One option, for `--option ID.NAME=VALUE`. Its type is the default's.
struct OptionSpec {
  std::string Name;
  Scalar Default;
  std::string Doc;
};

/// A part of a detector's doc comment: what follows `--- ## Heading`.
struct DocSection {
  std::string Heading;
  std::string Text; ///< Markdown.
};

/// The declaration of a detector.
struct DetectorInfo {
  std::string Id;   ///< gpu/idle-gaps, its path under the plugins folder.
  std::string File; ///< As it was given; where errors point.
  std::string Summary;
  std::vector<DocSection> Doc;
  culprit::Needs Needs;
  std::vector<Reliance> Relies; ///< On which aspects of a profile.
  std::vector<std::string> Symptoms;
  std::vector<OptionSpec> Options; ///< By name.
};

/// Bounds on one run of one detector.
struct Limits {
  std::chrono::nanoseconds Time = std::chrono::seconds(10);
  size_t Memory = size_t(64) << 20; ///< Of the script's own values.
  /// Of the tables it holds at a time, beyond four times the case itself.
  size_t Tables = size_t(1) << 30;
  /// Rows it may go over one by one, in all.
  size_t Rows = 1'000'000;
  /// Whether Outcome::Costs is wanted; this costs two looks at the clock a
  /// call.
  bool Timed = false;
};

/// Immutable, and run() may be called from several threads at once: a run
/// shares nothing with another.
class Detector {
public:
  virtual ~Detector();

  const DetectorInfo &info() const { return Info; }
  const std::string &id() const { return Info.Id; }

  /// Looks at \p C, which has what info().Needs asks for. \p Options has one
  /// value for each of info().Options, in their order. Fills Kind, Reports,
  /// Missing, Unjudged, Error, Log, PeakBytes and Costs of \p Result, whose
  /// Kind is Clear before.
  virtual void run(const Case &C, llvm::ArrayRef<Scalar> Options,
                   const Limits &Bounds, Outcome &Result) const = 0;

protected:
  explicit Detector(DetectorInfo Info) : Info(std::move(Info)) {}

private:
  DetectorInfo Info;
};

/// A file that should have been a detector.
struct BrokenDetector {
  std::string Id;
  DetectorError Error;
};

/// The detectors of a run, by id. Owns them.
class DetectorSet {
public:
  /// Takes \p D in the place of an earlier one of the same id, broken or not:
  /// a team's folder overrides what is shipped.
  void add(std::unique_ptr<Detector> D);
  void add(BrokenDetector D);

  llvm::ArrayRef<std::unique_ptr<Detector>> all() const { return Detectors; }
  llvm::ArrayRef<BrokenDetector> broken() const { return Broken; }

  /// The detector \p Id or null.
  const Detector *find(llvm::StringRef Id) const;
  /// As above; fails with a did-you-mean.
  llvm::Expected<const Detector *> get(llvm::StringRef Id) const;

  /// The ids of all that loaded, in order.
  std::vector<std::string> ids() const;

private:
  void remove(llvm::StringRef Id);

  std::vector<std::unique_ptr<Detector>> Detectors; ///< By id.
  std::vector<BrokenDetector> Broken;               ///< By id.
};

} // namespace culprit

#endif // CULPRIT_DETECT_DETECTOR_H
