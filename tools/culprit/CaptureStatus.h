//===- CaptureStatus.h - What is told of a capture --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Words on stderr about captures: while they are made a line that is renewed
/// on a terminal, and at their end a summary.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_TOOL_CAPTURESTATUS_H
#define CULPRIT_TOOL_CAPTURESTATUS_H

#include "CaptureSession.h"

namespace culprit {

/// The state of all captures that are being made, in sum.
class CaptureStatus {
public:
  enum class Form {
    Nothing,
    Line, ///< One, renewed twice a second.
    Lines ///< Another one every 5 s.
  };
  /// The form for these options; \p Shared says that a command writes to the
  /// same terminal, where a renewed line would be in its way.
  static Form choose(bool Verbose, bool Quiet, bool Shared);

  explicit CaptureStatus(Form F) : How(F) {}
  ~CaptureStatus() { wipe(); }

  /// Shows the state when it is time to.
  void show(llvm::ArrayRef<std::unique_ptr<CaptureSession>> Sessions);
  /// Makes room for other words.
  void wipe();

private:
  using Clock = CaptureSession::Clock;
  /// Sums over sessions.
  struct Sum {
    uint64_t Kernels = 0, Copies = 0, Calls = 0, Lost = 0;
    uint64_t Busy = 0, Bytes = 0; ///< ns; of files.
    capture::StatusMessage Others = {}; ///< Seen, of the other kinds.
    bool Ending = true; ///< All of them have been asked to.
  };
  std::string text(const Sum &Now, double Seconds, double Elapsed) const;

  Form How;
  bool Shown = false;
  Clock::time_point Begin = Clock::now(), Next = Begin, Before = Begin;
  Sum Last;
};

/// "12 kernels, 3 copies, 15 calls" of \p Counts, by RecordKind.
std::string recordWords(llvm::ArrayRef<uint64_t> Counts);

/// Records that are not in the file though they were asked for.
uint64_t lostRecords(const capture::Drops &D);

/// \p Text as a word of the shell, in quotes where it needs them.
std::string shellWord(llvm::StringRef Text);

/// Tells on stderr what to do with captures in which there is work of the GPU,
/// and of others that there was none. \p More were made without us.
void reportNext(llvm::ArrayRef<const CaptureSession *> Sessions,
                llvm::ArrayRef<std::string> More = {});

/// Tells on stderr what became of \p S: what went wrong always, the rest unless
/// \p Quiet. True when there is a capture to read.
bool reportEnd(const CaptureSession &S, bool Quiet);

} // namespace culprit

#endif // CULPRIT_TOOL_CAPTURESTATUS_H
