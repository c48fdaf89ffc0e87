//===- LogErrors.h - Rows of errors -----------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Collects the errors of one log, from tracebacks and from single lines, and
/// adds them to `errors` in the order of their lines.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_LOGERRORS_H
#define CULPRIT_READERS_LOGERRORS_H

#include "Case/Source.h"
#include "Readers/ErrorSignatures.h"
#include "Readers/LogLine.h"
#include "Readers/Traceback.h"

namespace culprit {

class LogErrors {
public:
  explicit LogErrors(Source &S) : S(S) {}

  /// Adds an exception whose traceback is complete.
  void exception(const PythonError &E, std::optional<int64_t> Step);
  /// Adds the error that the line \p L is, if any.
  void line(const LogLine &L, const LineScan &Scan,
            std::optional<int64_t> Step);
  /// Writes the rows.
  void finish();

private:
  struct Row {
    int64_t Line = 0;
    std::optional<int64_t> Rank, Step;
    std::string Type, Code, Signature, Message, Frames;
  };
  void add(const Row &R);
  bool repeatsLast(const Row &R) const;

  Source &S;
  std::vector<Row> Rows;
};

} // namespace culprit

#endif // CULPRIT_READERS_LOGERRORS_H
