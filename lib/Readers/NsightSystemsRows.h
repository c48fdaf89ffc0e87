//===- NsightSystemsRows.h - From an export to rows -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Takes the tables of an Nsight Systems export one after the other.
///
/// One export may hold several processes, as when nsys ran torchrun. Each that
/// used a device becomes a rank of its own, in the order of pids: correlation
/// ids are only unique within a process, and ranks are what joins keep apart.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_NSIGHTSYSTEMSROWS_H
#define CULPRIT_READERS_NSIGHTSYSTEMSROWS_H

#include "Case/Source.h"
#include "Readers/NsightSystemsDatabase.h"
#include <map>

namespace culprit::nsys {

class RowMaker {
public:
  RowMaker(Database &DB, Source &Into) : DB(DB), Into(Into) {}

  /// Reads all tables. Damage is left in Database::failure().
  void readAll();

  /// Rows without a usable time.
  int64_t Skipped = 0;

private:
  struct Span {
    int64_t Start, Stop;
  };

  void findRanks();
  void kernels();
  void copies();
  void sets();
  void graphs();
  void calls();
  void syncs();
  void osCalls();
  void nvtx();
  void overhead(llvm::StringRef Table);
  void memory();
  void devices();
  void session();

  std::optional<Span> span(const Row &R);
  /// Starts a row of gpu_work from the columns that all kinds of work have.
  TableBuilder &work(const Row &R, Span S, llvm::StringRef Kind);
  void collective(const Row &R, Span S, llvm::StringRef Name);
  TableBuilder &range(const Row &R, Span S, llvm::StringRef Name,
                      std::optional<int64_t> GlobalTid);
  std::optional<int64_t> rankOf(std::optional<int64_t> GlobalId) const;
  void setThread(TableBuilder &Row, unsigned Rank, unsigned Pid, unsigned Tid,
                 std::optional<int64_t> GlobalTid) const;
  bool operatorRange(const Row &R, Span S, llvm::StringRef Text,
                     std::optional<int64_t> GlobalTid);
  /// Of the ways in which ranges of the user are numbered, the outermost: the
  /// name without its number of the steps that take longest in sum.
  std::string stepStem();

  /// Roles and names, found out once for each id of StringIds.
  struct NameInfo {
    StringId Id = NullString, Role = NullString;
    bool Communication = false;
  };
  const NameInfo &kernelInfo(int64_t Id);
  const NameInfo &callInfo(int64_t Id);

  Database &DB;
  Source &Into;
  std::map<int64_t, int64_t> RankOfPid;
  std::unordered_map<int64_t, NameInfo> Kernels, Calls;
};

} // namespace culprit::nsys

#endif // CULPRIT_READERS_NSIGHTSYSTEMSROWS_H
