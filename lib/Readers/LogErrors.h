//===- LogErrors.h - Rows of errors -----------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Collects the errors of one log, from tracebacks and from single lines, and
/// adds them to `errors` in the order of their lines.
///
/// A storm must not fill the memory: of one kind (signature or type) only the
/// first thousand are kept as rows, and what follows is counted in the last of
/// these as `repeats`. When a log has very many kinds, later ones share a kind.
///
/// An exception that another one led to ("During handling of the above
/// exception", "The above exception was the direct cause") gets the role
/// cascade here, since only the text between the two says so; all other roles
/// are told by what else the case holds, in lib/Case/ErrorRoles.h.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_LOGERRORS_H
#define CULPRIT_READERS_LOGERRORS_H

#include "Case/Source.h"
#include "Readers/ErrorSignatures.h"
#include "Readers/LogLine.h"
#include "Readers/Traceback.h"
#include "llvm/ADT/StringMap.h"
#include <deque>
#include <map>

namespace culprit {

class LogErrors {
public:
  explicit LogErrors(Source &S) : S(S) {}

  /// Adds an exception whose traceback is complete, at \p Step where no step
  /// is known for its head.
  void exception(const PythonError &E, std::optional<int64_t> Step);
  /// Adds the error that the line \p L is, if any.
  void line(const LogLine &L, const LineScan &Scan,
            std::optional<int64_t> Step);
  /// Writes the rows.
  void finish();

private:
  struct Row {
    int64_t Line = 0, Repeats = 0;
    std::optional<int64_t> Rank, Step;
    std::optional<double> WallTime;
    bool Chained = false;
    std::string Type, Code, Signature, Message, Frames, Device;
  };
  /// The rows of one kind, of which \p Last is the last kept one.
  struct Kind {
    size_t Kept = 0, Last = 0;
  };
  void keep(Row R);
  void add(const Row &R);
  bool repeatsLast(const Row &R) const;
  std::optional<double> timeOf(const LogLine &L);
  std::optional<int64_t> stepAt(int64_t Line) const;

  Source &S;
  std::vector<Row> Rows;
  llvm::StringMap<Kind> Kinds;
  /// Line of the last note that the next exception came of the one before, by
  /// rank; -1 where none is known.
  std::map<int64_t, int64_t> Chains;
  /// Where the step changed, lately: a traceback is complete long after its
  /// head where other ranks write on.
  std::deque<std::pair<int64_t, int64_t>> Steps;
  /// Remembers the device that the driver names ahead of what befell it.
  void noteDevice(const LogLine &L);
  std::string NamedDevice; ///< By the driver, at NamedLine.
  int64_t NamedLine = -100;
  std::optional<double> LastTime; ///< Has the year that other stamps lack.
};

} // namespace culprit

#endif // CULPRIT_READERS_LOGERRORS_H
