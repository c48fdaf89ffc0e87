//===- DeviceRows.h - Rows of device work -----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// What readers of profiles of CUDA write alike: the columns of gpu_work that
/// every kind of work has, names and roles of kernels, labels of copies, the
/// collective that a kernel is.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_DEVICEROWS_H
#define CULPRIT_READERS_DEVICEROWS_H

#include "Readers/ColumnOut.h"
#include <string>

namespace culprit {

/// What every kind of device work has; NullInt for what is not known.
struct WorkRow {
  int64_t Start = 0, Stop = 0;
  int64_t Rank = NullInt, Device = NullInt, Context = NullInt,
          Stream = NullInt, Correlation = NullInt, External = NullInt,
          Graph = NullInt, Place = NullInt;
};

/// The columns of gpu_work that every kind of work fills. Those of one kind
/// are filled between begin() and end().
class WorkColumns {
public:
  /// Makes room for \p N rows.
  WorkColumns(Source &Into, size_t N, llvm::StringRef Kind,
              llvm::StringRef DefaultRole);

  void begin(const WorkRow &R) {
    Row = R;
    Kinds.putText(Kind);
    Starts.put(R.Start);
    Stops.put(R.Stop);
    Durations.put(R.Stop - R.Start);
    Ranks.put(R.Rank);
    Devices.put(R.Device);
    Contexts.put(R.Context);
    Streams.put(R.Stream);
    Correlations.put(R.Correlation);
    Externals.put(R.External);
    // 0 is no graph.
    Graphs.put(R.Graph > 0 ? R.Graph : NullInt);
    Places.put(R.Place);
  }
  void end(StringId Name, StringId Role) {
    Names.putText(Name);
    Roles.putText(Role);
    T.addRow();
  }
  void end(StringId Name) { end(Name, DefaultRole); }

  TableBuilder &T;
  const size_t N;
  WorkRow Row; ///< The last one.

private:
  StringId Kind, DefaultRole;
  ColumnOut Kinds{T, gpu_work::kind, N}, Names{T, gpu_work::name, N},
      Starts{T, gpu_work::start, N}, Stops{T, gpu_work::stop, N},
      Durations{T, gpu_work::dur, N}, Ranks{T, gpu_work::rank, N},
      Devices{T, gpu_work::device, N}, Contexts{T, gpu_work::context, N},
      Streams{T, gpu_work::stream, N},
      Correlations{T, gpu_work::correlation, N},
      Externals{T, gpu_work::external, N}, Graphs{T, gpu_work::graph, N},
      Roles{T, gpu_work::role, N}, Places{T, gpu_work::place, N};
};

/// What the name of a kernel says.
struct KernelName {
  StringId Id = NullString, Role = NullString;
  StringId Op = NullString; ///< As collectives.op.
  bool Communication = false;

  /// \p Text is demangled.
  void set(StringPool &Pool, llvm::StringRef Text);
};

/// The row of `collectives` of a kernel of communication.
void addCollective(Source &Into, const WorkRow &Kernel, const KernelName &Name);

/// "Memcpy HtoD (Pinned -> Device) (page fault)" as all profilers write it;
/// parts that are empty are left out.
std::string copyLabel(llvm::StringRef Direction, llvm::StringRef From,
                      llvm::StringRef To, llvm::StringRef Cause);
/// "Memset (Device)".
std::string setLabel(llvm::StringRef Memory);

} // namespace culprit

#endif // CULPRIT_READERS_DEVICEROWS_H
