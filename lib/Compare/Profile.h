//===- Profile.h - One side of a comparison ---------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// What is compared of a profile: the steady window of one device, cut into
/// the pieces of its critical path. The pieces add up to the window, so what
/// they gain and lose adds up to what the step gains and loses.
///
/// A job has many ranks and one step time. Its step is that of the slowest
/// rank. In a synchronised job all ranks are within a few percent of it, as
/// those that are done first wait in collectives; among ranks within 3 % of
/// the slowest the one with the least communication on its path is taken: it
/// is the one that the others wait for.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_COMPARE_PROFILE_H
#define CULPRIT_COMPARE_PROFILE_H

#include "Case/Case.h"
#include <map>
#include <string>
#include <vector>

namespace culprit {

/// All time of one kind and name on the path of a window.
struct PathGroup {
  int64_t Ns = 0;
  int64_t Count = 0; ///< Pieces of work, or of waiting.
  /// ns of each step, where steps are known.
  std::map<int64_t, int64_t> ByStep;
};

struct ProfileSide {
  /// A window of a device: all there are, and which was chosen.
  struct Window {
    int64_t Rank, Device, Ns;
    int64_t Steps; ///< 0: the record has no steps.
    int64_t CommunicationNs = 0;

    /// Of the window where there are no steps.
    double stepNs() const {
      return static_cast<double>(Ns) / static_cast<double>(Steps ? Steps : 1);
    }
  };
  std::vector<Window> Windows;
  size_t Chosen = 0; ///< In Windows.

  /// By kind and name of the chosen window; the name is empty for waits.
  std::map<std::pair<std::string, std::string>, PathGroup> Groups;
  /// ns of each step on the path, in order; empty where steps are not known.
  std::vector<double> StepNs;

  const Window &window() const { return Windows[Chosen]; }
};

/// The side that \p Windows and \p Path make, tables with the columns of
/// `windows` and `critical_path`. Fails when there is no window or no path.
llvm::Expected<ProfileSide> profileSide(const Table &Windows,
                                        const Table &Path);

/// Whether a piece of kind \p Kind is device work, matched by name.
bool isDeviceWork(llvm::StringRef Kind);

} // namespace culprit

#endif // CULPRIT_COMPARE_PROFILE_H
