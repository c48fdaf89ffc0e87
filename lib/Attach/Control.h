//===- Control.h - culprit's end of the talk with the agent -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// The messages of Capture/Protocol.h over one accepted connection. What comes
/// is checked: the process at the other end is not ours.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_ATTACH_CONTROL_H
#define CULPRIT_ATTACH_CONTROL_H

#include "Attach/ProcFile.h"
#include "Capture/Protocol.h"
#include <chrono>
#include <variant>

namespace culprit::attach {

class Control {
public:
  /// The connection was closed, by the agent's end or its process's.
  struct Closed {};
  using Message =
      std::variant<Closed, capture::StartedMessage, capture::FailedMessage,
                   capture::StatusMessage, capture::DoneMessage>;

  /// Waits for a connection on \p Listener and for its Hello. Nothing when the
  /// time is over. Connections of users other than \p User and ourselves are
  /// closed, as are those that say no Hello in time: with a time of 0 also one
  /// whose Hello is a moment behind its connection.
  static llvm::Expected<std::optional<Control>>
  accept(int Listener, uid_t User, std::chrono::milliseconds Timeout);

  const capture::HelloMessage &hello() const { return Hello; }
  /// The process at the other end, as culprit sees it; 0 when it is in a pid
  /// namespace that we do not see.
  pid_t process() const { return Process; }
  /// To poll.
  int descriptor() const { return Socket.get(); }

  /// Sends Start, and with it the descriptor \p Capture. It stays ours to
  /// close.
  llvm::Error start(const capture::StartMessage &Start, int Capture);
  llvm::Error stop();
  /// Ends the connection; what was told stays known.
  void close() { Socket.reset(); }

  /// The next message; nothing when there was none in time. An error is a
  /// message that makes no sense, after which the connection is of no use.
  llvm::Expected<std::optional<Message>>
  receive(std::chrono::milliseconds Timeout);

private:
  explicit Control(Descriptor Socket) : Socket(std::move(Socket)) {}

  llvm::Expected<bool> fill(size_t Size,
                            std::chrono::steady_clock::time_point Until);
  /// What to say of a message that is not whole in time.
  std::optional<Message> unfinished() const;
  llvm::Error send(capture::MessageType Type, const void *Body, size_t Size,
                   int Passed = -1);

  Descriptor Socket;
  capture::HelloMessage Hello = {};
  pid_t Process = 0;
  std::string Pending; ///< Bytes of a message that is not whole yet.
  bool AtEnd = false;
};

} // namespace culprit::attach

#endif // CULPRIT_ATTACH_CONTROL_H
