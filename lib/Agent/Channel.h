//===- Channel.h - The agent's end of the control socket --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_AGENT_CHANNEL_H
#define CULPRIT_AGENT_CHANNEL_H

#include "Capture/Protocol.h"

namespace culprit::agent {

/// Closes \p Descriptor, if it is one. Never twice: it is forgotten first, as a
/// child that is made meanwhile forgets too, and then the number may be that of
/// a file of the program.
void closeOnce(int &Descriptor);

/// A connection to culprit. Used by the agent's thread alone.
class Channel {
public:
  /// Connects to the socket \p Name in \p Folder, whose path may be longer than
  /// an address of a socket. False when nobody listens.
  bool connect(const char *Folder, const char *Name);
  void close();

  template <typename Message>
  bool send(capture::MessageType Type, const Message &M) {
    return sendBytes(Type, &M, sizeof(M));
  }
  /// Sends what may be left out when the other side does not read.
  template <typename Message>
  void offer(capture::MessageType Type, const Message &M) {
    if (hasRoom())
      sendBytes(Type, &M, sizeof(M));
  }
  /// Waits at most \p Timeout ms for the Start message, whose capture file
  /// comes with it. False when it does not come.
  bool receiveStart(capture::StartMessage &Start, int &File, int Timeout);

  enum class Event { Nothing, Stop, Lost };
  /// Waits at most \p Timeout ms for a message, or until \p WakeFile can be
  /// read.
  Event wait(int Timeout, int WakeFile = -1);

private:
  bool hasRoom() const;
  bool sendBytes(capture::MessageType Type, const void *Body, uint16_t Size);

  int Socket = -1;
};

} // namespace culprit::agent

#endif // CULPRIT_AGENT_CHANNEL_H
