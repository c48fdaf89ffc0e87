//===- CaptureCheck.h - Whether a capture keeps its promises ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// A capture promises that every record that was seen is in it or is counted
/// as lost, with the reason, and that what was written is there unharmed. This
/// holds a file against that.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_CAPTURECHECK_H
#define CULPRIT_READERS_CAPTURECHECK_H

#include "Capture/CaptureFile.h"
#include "llvm/ADT/StringRef.h"
#include <optional>
#include <string>
#include <vector>

namespace culprit {

struct CaptureCheck {
  /// Records of the whole recording, as last counted: Seen is the sum of the
  /// others, or Broken says so.
  struct Sums {
    uint64_t Seen = 0, Written = 0, Lost = 0;
    uint64_t LeftOut = 0; ///< Not asked for.
  };
  /// Why records were lost, as profiler_events.name has it.
  struct Reason {
    llvm::StringRef Name, Why;
    uint64_t Count;
  };
  /// A kind of which there are records. What is nothing, the end does not tell:
  /// there is none, or it is older than such counts.
  struct Kind {
    llvm::StringRef Name;
    /// That reached the agent's loop: what CUPTI dropped and what found no
    /// buffer is counted of all kinds in one.
    std::optional<uint64_t> Seen;
    std::optional<uint64_t> Written;
    std::optional<uint64_t> Overwritten; ///< Of those, by a ring.
    uint64_t InFile;                     ///< In whole frames.
  };

  std::optional<Sums> Records; ///< Nothing when nothing was counted yet.
  std::vector<Reason> Losses;  ///< Of each reason there is, also of none.
  std::vector<Kind> Kinds;
  /// Promises that are broken, a sentence each.
  std::vector<std::string> Broken;
  /// What is worth knowing and breaks none, with what may help: lost records by
  /// reason, an end that is missing since the process was killed.
  std::vector<std::string> Notes;
  /// "2,690 records seen = 2,690 written + 0 lost or left out"; empty when they
  /// differ, or nothing was counted yet.
  std::string Sum;
  /// There is no end.
  bool Cut = false;
};

CaptureCheck checkCapture(const capture::CaptureFile &File);

} // namespace culprit

#endif // CULPRIT_READERS_CAPTURECHECK_H
