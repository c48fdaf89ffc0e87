//===- DoctorChecks.h - What capture needs of a machine ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Looks at what `culprit attach` and `culprit record` need. Nothing is
/// changed, no device is touched: the driver is asked for its version only.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_TOOL_DOCTORCHECKS_H
#define CULPRIT_TOOL_DOCTORCHECKS_H

#include "llvm/ADT/StringRef.h"
#include <string>
#include <vector>

namespace culprit {

enum class Health {
  Good,
  Note,    ///< Worth knowing.
  Limited, ///< Something does not work, recording does.
  Bad      ///< Nothing can be recorded.
};

struct DoctorCheck {
  std::string Name; ///< "driver", for machine-readable output.
  Health State = Health::Good;
  std::string What;   ///< What was found, one sentence.
  std::string Advice; ///< Empty where nothing need be done.
};

/// A libcupti on this machine.
struct CuptiCandidate {
  std::string Path;
  uint32_t Version = 0; ///< cuptiGetVersion; 0 when it did not load.
};

/// 130001 as "13.0", 18 as "11.8", 26 as "12.x".
std::string cuptiVersionText(uint32_t Version);
/// 13000 as "13.0".
std::string driverVersionText(uint32_t Version);
/// The least driver that this version of CUPTI works with.
uint32_t leastDriver(uint32_t Cupti);

/// Asks libcuda.so.1 for the version; 0 when there is none.
uint32_t installedDriver();
/// Those that the loader finds, of toolkits, and of Python environments.
std::vector<CuptiCandidate> findCupti();

/// The newest GLIBC_ version that the library at \p Path names, as "2.28".
std::string neededGlibc(llvm::StringRef Path);

std::vector<DoctorCheck> examineMachine();

} // namespace culprit

#endif // CULPRIT_TOOL_DOCTORCHECKS_H
