//===- Bisect.h - What the parts of culprit bisect share --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_TOOLS_BISECT_H
#define CULPRIT_TOOLS_BISECT_H

#include "Bisect/Oracle.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"
#include <string>
#include <vector>

namespace culprit {

/// How a commit is told to be good or bad.
struct OracleSettings {
  std::vector<std::string> Command;
  std::string Expect; ///< Regular expression for a line of the output.
  std::string Metric;
  std::optional<double> Below, Above; ///< A good run's metric.
  std::string Symptom, Class;
  double Probability = 0.5; ///< That counts for Class.
  std::string Folder;       ///< What the command writes; empty: one we make.
  RepeatPlan Plan;
  unsigned TimeoutSeconds = 0;

  bool readsFolder() const {
    return !Metric.empty() || !Symptom.empty() || !Class.empty();
  }
};

/// Exit status of `git bisect run`'s scripts.
enum OracleExit : int {
  OracleGood = 0,
  OracleBad = 1,
  OracleSkip = 125,
  OracleAbort = 128,
};

/// `culprit bisect oracle`: asks the commit that is checked out.
int runOracle(const OracleSettings &Settings);

/// `culprit bisect run`: drives git. \p Forwarded are the oracle's options.
int runCommits(const std::vector<std::string> &Good, const std::string &Bad,
               const OracleSettings &Settings,
               const std::vector<std::string> &Forwarded);

/// What `culprit diagnose` says of \p Paths: \p Detector alone unless empty.
/// Its JSON.
llvm::Expected<llvm::json::Value>
diagnoseOutside(const std::vector<std::string> &Paths,
                const std::string &Detector);

} // namespace culprit

#endif // CULPRIT_TOOLS_BISECT_H
