//===- NsightWriter.h - The parts of an nsys export -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Fills the tables of an export from those of a case: the process and its
/// devices in NsightExport.cpp, what devices did in NsightDevice.cpp, what
/// threads did in NsightHost.cpp.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_EXPORT_NSIGHTWRITER_H
#define CULPRIT_EXPORT_NSIGHTWRITER_H

#include "Export/Export.h"
#include "Export/ExportRows.h"
#include "Export/NsightStore.h"
#include <map>
#include <set>
#include <tuple>

namespace culprit::nsight {

class Writer {
public:
  Writer(llvm::StringRef Path, const Case &C, const ExportOptions &Options)
      : To(Path), C(C), Options(Options) {}
  llvm::Error write();

private:
  using Number = std::optional<int64_t>;
  /// What stands for "none" in columns that must not be null.
  static constexpr int64_t None = UINT32_MAX;

  // The process and its devices.
  void session();
  void findProcesses();
  void processes();
  void gpus();
  void remarks();
  void analysis();

  // What devices did.
  void work();
  void kernel(const ExportRow &R);
  void copy(const ExportRow &R);
  void contexts();
  void waits();
  void memory();
  void pageFaults();

  // What threads did.
  void calls();
  void annotations();
  void addNvtx(int64_t Start, Number Stop, int64_t Type, llvm::StringRef Text,
               int64_t Thread, int64_t Domain);
  void operators();
  void threadNames();

  /// The pid that the file gives to \p Rank.
  int64_t pidOf(Number Rank) const;
  int64_t processOf(Number Rank) const { return idOf(pidOf(Rank), 0); }
  /// The GlobalId of a thread, which is remembered; of the process without one.
  int64_t threadOf(Number Rank, Number Pid, Number Tid);
  /// A GlobalId: hardware 1, then process and thread in 24 bits each.
  static int64_t idOf(int64_t Pid, int64_t Tid) {
    return Hardware | (Pid & 0xffffff) << 24 | (Tid & 0xffffff);
  }
  static constexpr int64_t Hardware = int64_t(1) << 48;

  void each(TableId Id, unsigned RankColumn,
            llvm::function_ref<void(const ExportRow &)> Visit) {
    forEachRow(C, Id, RankColumn, Options.Rank, Visit);
  }
  /// Makes the record as long as from \p Start to \p Stop at least.
  void widen(int64_t Start, int64_t Stop) {
    First = std::min(First, Start);
    Last = std::max(Last, Stop);
  }

  struct Process {
    int64_t Pid;   ///< As the case has it.
    int64_t Given; ///< Another where two ranks have the same.
  };

  Store To;
  const Case &C;
  const ExportOptions &Options;
  std::map<int64_t, Process> Processes; ///< By rank.
  std::set<int64_t> Threads;            ///< GlobalIds.
  int64_t LastThread = 0;
  std::set<std::tuple<int64_t, int64_t, int64_t>> Contexts; ///< pid, device.
  int64_t First = INT64_MAX, Last = INT64_MIN;
};

} // namespace culprit::nsight

#endif // CULPRIT_EXPORT_NSIGHTWRITER_H
