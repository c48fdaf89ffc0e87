//===- WatchdogLines.h - What the NCCL watchdog says in a log ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// When a collective does not end, each rank's watchdog prints which one it
/// was and how far the rank got:
///
///   [rank1]:[E626 06:24:44.903 ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog
///     caught collective operation timeout: WorkNCCL(SeqNum=808,
///     OpType=ALLREDUCE, NumelIn=98, NumelOut=98, Timeout(ms)=600000) ran for
///     600020 milliseconds before timing out.
///   [rank1]:[E626 06:24:44.906 ProcessGroupNCCL.cpp:1785] [PG ID 0 PG GUID
///     0(default_pg) Rank 1] Exception (either an error or timeout) detected
///     by watchdog at work: 808, last enqueued NCCL work: 811, last completed
///     NCCL work: 807.
///
/// The first becomes a row of `collectives`, the second one of
/// `process_groups`. The group of the first is that of a second one of the
/// same rank and work. Texts of torch 2.1 to 2.9.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_WATCHDOGLINES_H
#define CULPRIT_READERS_WATCHDOGLINES_H

#include "Case/Source.h"
#include "Readers/LogLine.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"
#include <string>
#include <vector>

namespace culprit {

/// Collects the watchdog's lines of one log. Not thread-safe.
class WatchdogLines {
public:
  explicit WatchdogLines(Source &S) : S(S) {}

  void line(const LogLine &L);
  /// Writes the rows, in the order of their lines.
  void finish();

private:
  struct Timeout {
    int64_t Line = 0, Seq = 0;
    std::optional<int64_t> Rank, In, Out, LimitMs;
    std::string Op, Group, Purpose;
  };
  struct Progress {
    int64_t Line = 0;
    std::optional<int64_t> Rank, Work, Enqueued, Completed;
    std::string Group, Purpose;
  };

  void timeout(const LogLine &L, llvm::StringRef Text);
  void progress(const LogLine &L, llvm::StringRef Text);

  Source &S;
  std::vector<Timeout> Timeouts;
  /// Indices of the timeouts of a rank, a collective and its operation.
  llvm::StringMap<llvm::SmallVector<unsigned, 2>> Alike;
  std::vector<Progress> Reports;
};

} // namespace culprit

#endif // CULPRIT_READERS_WATCHDOGLINES_H
