//===- CaptureSession.h - One process under record --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// The talk with the agent of one process, from the file that is handed to it
/// to its last word.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_TOOL_CAPTURESESSION_H
#define CULPRIT_TOOL_CAPTURESESSION_H

#include "Attach/Control.h"
#include <memory>
#include <optional>

namespace culprit {

class CaptureSession {
public:
  using Clock = std::chrono::steady_clock;

  /// Makes the file \p Path, which must not be there, and has the agent behind
  /// \p Talk begin.
  static llvm::Expected<std::unique_ptr<CaptureSession>>
  begin(attach::Control Talk, std::string Path,
        const capture::StartMessage &Start);

  /// Removes a file in which nothing was recorded.
  ~CaptureSession();

  /// Takes what the agent says, waiting at most \p Timeout for it.
  void receive(std::chrono::milliseconds Timeout);

  /// Asks the agent to end. Once is enough.
  void stop();

  bool isOver() const { return Over; }
  bool isStopping() const { return StoppedAt.has_value(); }
  /// Since it was asked to end; 0 before.
  Clock::duration stopping() const;
  /// Of the recording; 0 before it began, and no more once it has ended.
  Clock::duration elapsed() const;

  pid_t pid() const { return Pid; }
  const std::string &who() const { return Who; } ///< "python (pid 12)".
  const std::string &path() const { return Path; }
  int descriptor() const { return Talk.descriptor(); }
  const capture::StartMessage &asked() const { return Asked; }
  /// Set when it could begin.
  const std::optional<capture::StartedMessage> &started() const {
    return Started;
  }
  /// Set when it could not.
  const std::optional<capture::FailedMessage> &failed() const { return Failed; }
  /// The last word, when it came to one.
  const std::optional<capture::DoneMessage> &done() const { return Done; }
  /// The state as told last, and the state before that.
  const capture::StatusMessage &last() const { return Last; }
  /// Bytes of the file.
  uint64_t size() const;
  /// Is the file still there?
  bool hasFile() const;
  /// Was there work of the GPU, or is that not known?
  bool sawWork() const;
  /// Is the agent there from the start of the process?
  bool isFromStart() const {
    return Talk.hello().How == capture::Entry::Launched;
  }
  /// What the process became when it ended the recording by running another
  /// program (exec); empty when it did not.
  const std::string &successor() const { return Successor; }
  /// Sentence about a connection that made no sense; empty without.
  const std::string &broken() const { return Broken; }

private:
  CaptureSession(attach::Control Talk, std::string Path,
                 const capture::StartMessage &Start);
  void take(const attach::Control::Message &M);
  void end();
  void seeSuccessor();

  attach::Control Talk;
  std::string Path, Who, Broken, Successor;
  pid_t Pid;
  uint64_t ProcessBegin = 0; ///< With Pid an identity.
  capture::StartMessage Asked;
  bool Over = false;
  std::optional<capture::StartedMessage> Started;
  std::optional<capture::FailedMessage> Failed;
  std::optional<capture::DoneMessage> Done;
  capture::StatusMessage Last = {};
  std::optional<Clock::time_point> StartedAt, StoppedAt, EndedAt;
};

} // namespace culprit

#endif // CULPRIT_TOOL_CAPTURESESSION_H
