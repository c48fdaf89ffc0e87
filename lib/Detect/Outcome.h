//===- Outcome.h - What a detector found ------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// The result of one detector as plain data. Ranking and output read these
/// and nothing else, so an outcome carries all that a reader is shown: the
/// rows behind a sentence with their place in the file included.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_DETECT_OUTCOME_H
#define CULPRIT_DETECT_OUTCOME_H

#include "Case/Case.h"
#include "Support/Error.h"
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace culprit {

/// Clear counts against a cause; Skipped says nothing about it.
enum class OutcomeKind : uint8_t { Matched, Clear, Skipped, Failed };

/// "matched", "clear", "skipped", "failed".
llvm::StringRef toString(OutcomeKind Kind);

/// Rows that a report rests on: all of one table.
struct EvidenceRef {
  /// At most so many rows are listed, and so many shown cell by cell.
  static constexpr size_t MaxRows = 100;
  static constexpr size_t MaxShown = 10;

  /// The case table that the rows are of; the name of the verb's result when
  /// they were computed and are no case table's.
  std::string Table;
  bool Computed = false;
  std::string Column; ///< The column meant, when the evidence was one.
  size_t Total = 0;   ///< Rows there are; Rows may hold fewer.
  /// Row numbers in Table, in the order given; none for computed rows.
  std::vector<size_t> Rows;
  /// Where each of Rows came from; a path is empty for a derived table.
  std::vector<Citation> Places;
  /// The first rows as text, the columns without any value left out.
  std::vector<std::string> ShownColumns;
  std::vector<std::vector<std::string>> Shown;

  /// The files of Places, each once, in order.
  std::vector<std::string> sources() const;
};

/// The evidence that the rows of \p T are; \p Column if not empty is the one
/// that matters.
EvidenceRef evidenceOf(const Case &C, const Table &T,
                       llvm::StringRef Column = "");

/// One part of where a symptom shows: step = 311, layer = "block.2.attn", or
/// all of several places alike: layers = {"block.0.attn", "block.2.attn"}.
struct Coordinate {
  std::string Key;
  std::variant<int64_t, double, bool, std::string, std::vector<std::string>>
      Value;

  /// The value as text: 311, block.2.attn; those of a list parted by ", ".
  std::string text() const;
  /// The values of a list; none where the value is not one.
  llvm::ArrayRef<std::string> list() const;
};

/// A symptom that was seen.
struct Report {
  std::string Symptom;              ///< An id of kb/symptoms.md.
  double Score = 0;                 ///< 0 to 1: how sure the detector is.
  Severity Level = Severity::Error; ///< Note is written "info".
  /// Keys in the order of coordinateRank(), then by name.
  std::vector<Coordinate> At;
  std::string Message;
  /// Time that the whole window would be shorter without the symptom, in ns.
  std::optional<int64_t> RecoverableNs;
  /// Share of the window (or of what the message names), 0 to 1.
  std::optional<double> Share;
  /// Why the score was lowered: what the recording lacks. Mostly empty.
  std::string Doubt;
  std::vector<EvidenceRef> Evidence;

  /// The value at \p Key, or null.
  const Coordinate *at(llvm::StringRef Key) const;
};

/// Position of \p Key in the order in which places are given, the outermost
/// first: run, variant, host, rank, ..., step, token, layer, layers, role,
/// name. Keys unknown to it come last.
unsigned coordinateRank(llvm::StringRef Key);

/// "info", "warning" or "error", the words of reports.
llvm::StringRef severityName(Severity Level);

/// A line of Lua.
struct CodePlace {
  std::string File;
  unsigned Line = 0; ///< From 1; 0 when not known.

  bool operator==(const CodePlace &Other) const = default;
};

/// Why a detector could not do its work.
struct DetectorError {
  std::string Message; ///< Without the place: unknown column 'stopp' in ...
  std::string Hint;    ///< Empty when there is no remedy.
  std::string File;    ///< Empty when the place is not known.
  unsigned Line = 0;   ///< From 1; 0 when not known.
  std::vector<CodePlace> CalledFrom; ///< The callers, innermost first.
};

/// A symptom that a detector could not judge although it ran.
struct UnjudgedSymptom {
  std::string Symptom;
  std::string Needed; ///< What would be needed, in the detector's words.
};

/// What the calls of one verb in one line of a detector took.
struct VerbCost {
  CodePlace At;
  std::string Verb; ///< Empty: Lua itself, between the verbs.
  uint64_t Calls = 0;
  int64_t Ns = 0;   ///< Without the verbs that it called in turn.
  size_t Bytes = 0; ///< Of tables and columns that it made.
};

/// What became of one detector.
struct Outcome {
  std::string Detector; ///< Its id.
  OutcomeKind Kind = OutcomeKind::Clear;
  /// Skipped: what is missing. "tensors" for a table without rows,
  /// "tensors.nonfinite" for a column without values, "scalars.loss" for rows
  /// of that kind, "a or b" for alternatives, or the detector's own words.
  std::vector<std::string> Missing;
  std::optional<DetectorError> Error; ///< Failed alone.
  std::vector<Report> Reports;        ///< Matched; in the order reported.
  std::vector<std::string> Symptoms;  ///< All that it could have reported.
  /// Of Symptoms those it had too little to judge; none of them is among
  /// Reports. Matched and clear say nothing about them.
  std::vector<UnjudgedSymptom> Unjudged;
  std::vector<std::string> Log;       ///< What it wrote with log().
  int64_t ElapsedNs = 0;
  size_t PeakBytes = 0; ///< Of the script's own memory.
  /// Where the time went, the most first, if that was asked for.
  std::vector<VerbCost> Costs;
  /// It did not stop when its time was up and still runs in a thread of its
  /// own, on the case and the detector.
  bool Abandoned = false;

  /// What \p Symptom could not be judged for want of; null when it could.
  const UnjudgedSymptom *unjudged(llvm::StringRef Symptom) const;
};

/// The failure of \p O as it is printed, always in full:
///
///   gpu/idle-gaps failed
///     plugins/gpu/idle-gaps.lua:13: unknown column 'stopp' in 'gpu_work'
///     note: did you mean 'stop'? columns: start, stop, dur
std::string describeFailure(const Outcome &O);

} // namespace culprit

#endif // CULPRIT_DETECT_OUTCOME_H
