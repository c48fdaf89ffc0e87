//===- Dumps.h - The first step and layer that goes wrong -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Bisects over the steps of dumps. The headers of all files tell which step
/// is where; of the values only those of the steps that are asked for are
/// read. Of two runs a step is bad where their tensors differ beyond rounding;
/// of one run, where a condition on `tensors` holds for some row.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_BISECT_DUMPS_H
#define CULPRIT_BISECT_DUMPS_H

#include "Bisect/Search.h"
#include "Compare/Tensors.h"

namespace culprit {

struct DumpBisection {
  std::vector<int64_t> Steps; ///< In common, rising.
  FirstBadSearch Search;      ///< Over Steps.
  size_t FilesRead = 0, Files = 0;

  /// The step before the first bad one that was found good.
  std::optional<int64_t> lastGood() const;
  int64_t step(size_t I) const { return Steps[I]; }
};

struct DumpOptions {
  unsigned Threads = 1;
  bool Every = false; ///< Ask every step, where a step may be good again.
};

/// Two runs; Found is the comparison of the first step that differs.
struct PairBisection : DumpBisection {
  std::optional<TensorComparison> Found;
  /// Keeps what Found looks at.
  std::vector<Case> Cases;
};
llvm::Expected<PairBisection> bisectPair(const std::string &Ref,
                                         const std::string &Ours,
                                         const DumpOptions &Options);

/// One run. The step is bad where \p IsBad says so of its files.
llvm::Expected<DumpBisection> bisectRun(
    const std::string &Path,
    llvm::function_ref<llvm::Expected<bool>(llvm::ArrayRef<std::string> Files,
                                            int64_t Step)>
        IsBad,
    const DumpOptions &Options);

/// The rows of `tensors` of \p Step in \p Files for which \p Where holds, in
/// execution order. The case is kept in \p Keep.
llvm::Expected<Table> rowsWhere(llvm::ArrayRef<std::string> Files, int64_t Step,
                                llvm::StringRef Where, unsigned Threads,
                                std::optional<Case> &Keep);

} // namespace culprit

#endif // CULPRIT_BISECT_DUMPS_H
