//===- ChromeWriter.h - The parts of a Chrome trace -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Writes one rank of a case as a trace: what stands before the events and the
/// names of the lines in ChromeHeader.cpp, the events in ChromeTrace.cpp.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_EXPORT_CHROMEWRITER_H
#define CULPRIT_EXPORT_CHROMEWRITER_H

#include "Export/ChromeEvents.h"
#include "Export/Export.h"
#include "Export/ExportRows.h"
#include <set>
#include <tuple>
#include <unordered_set>

namespace culprit {

/// Lines that viewers show below a process: the process itself is a pid, a
/// device is its ordinal and a stream a thread of it, as in Kineto's traces.
/// Waits overlap the work they wait for and have lines of their own.
inline constexpr int64_t WaitLine = 1000000;

/// Ids of other people's traces may be any number.
inline int64_t lineOf(int64_t Base, int64_t Id) {
  int64_t Out;
  return __builtin_add_overflow(Base, Id, &Out) ? INT64_MAX : Out;
}

class TraceWriter : TraceEvents {
public:
  TraceWriter(llvm::raw_ostream &OS, const Case &C, int64_t Rank,
              const ExportOptions &Options)
      : TraceEvents(OS), C(C), Rank(Rank), Options(Options) {}
  void write();

private:
  void header();
  void devices();
  void remarks();
  void names();
  void findFlows();
  void work();
  void workArguments(const ExportRow &R);
  void calls();
  void waits();
  void operators();
  void annotations();
  void processRange(const ExportRow &R, int64_t Start, Number Length);
  bool isToldByOperator(const ExportRow &R) const;
  void memory();
  void samples();
  void overheads();

  const Case &C;
  const int64_t Rank;
  const ExportOptions &Options;
  Number HostPid;
  std::vector<int64_t> RangeLines; ///< Where each of these lines is free.
  /// Name, start and thread.
  std::set<std::tuple<llvm::StringRef, Number, Number>> Operators;
  std::unordered_set<int64_t> Launched; ///< Correlations of device work.
  std::unordered_set<int64_t> Called;   ///< Of calls among them.
};

} // namespace culprit

#endif // CULPRIT_EXPORT_CHROMEWRITER_H
