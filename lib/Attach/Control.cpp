//===- Control.cpp - culprit's end of the talk with the agent ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Attach/Control.h"
#include "Support/Error.h"
#include <cerrno>
#include <cstring>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace culprit::attach {

using namespace capture;
using Clock = std::chrono::steady_clock;

/// The longest body; a bound for what is kept of a stranger's bytes.
static constexpr size_t MaxBody = 16384;

/// Is \p Fd ready for \p Events before \p Until?
static bool waitFor(int Fd, short Events, Clock::time_point Until) {
  for (;;) {
    auto Left = std::chrono::ceil<std::chrono::milliseconds>(Until -
                                                             Clock::now());
    pollfd P = {Fd, Events, 0};
    int Ready = ::poll(&P, 1, int(std::max<int64_t>(0, Left.count())));
    if (Ready > 0)
      return true;
    if (Ready == 0 || errno != EINTR)
      return false;
  }
}

/// Reads until Pending has \p Size bytes. False when the time is over or the
/// connection has ended, which AtEnd tells.
llvm::Expected<bool> Control::fill(size_t Size, Clock::time_point Until) {
  while (Pending.size() < Size) {
    char Part[4096];
    ssize_t Got = ::recv(Socket.get(), Part,
                         std::min(sizeof Part, Size - Pending.size()),
                         MSG_DONTWAIT);
    if (Got > 0) {
      Pending.append(Part, size_t(Got));
      continue;
    }
    if (Got == 0 || (Got < 0 && (errno == ECONNRESET || errno == EPIPE))) {
      AtEnd = true;
      return false;
    }
    if (errno == EINTR)
      continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK)
      return failure(withErrno("the connection to the agent", errno));
    if (!waitFor(Socket.get(), POLLIN, Until))
      return false;
  }
  return true;
}

template <typename T> static T take(const std::string &Bytes) {
  T Value;
  memcpy(&Value, Bytes.data() + sizeof(MessageHead), sizeof Value);
  return Value;
}

/// The size of a message's body, 0 for those that the agent does not send.
static size_t bodySize(MessageType Type) {
  switch (Type) {
  case MessageType::Hello:
    return sizeof(HelloMessage);
  case MessageType::Started:
    return sizeof(StartedMessage);
  case MessageType::Failed:
    return sizeof(FailedMessage);
  case MessageType::Status:
    return sizeof(StatusMessage);
  case MessageType::Done:
    return sizeof(DoneMessage);
  case MessageType::Start:
  case MessageType::Stop:
    break;
  }
  return 0;
}
static_assert(sizeof(StatusMessage) <= MaxBody &&
              sizeof(DoneMessage) <= MaxBody);

static llvm::Error badMessage(const llvm::Twine &What) {
  return failure("the agent sent " + What,
                 "the agent in the process may be of another version");
}

/// A text of the other side ends within its array.
template <size_t N> static void endText(char (&Text)[N]) { Text[N - 1] = 0; }

std::optional<Control::Message> Control::unfinished() const {
  if (AtEnd)
    return Message(Closed());
  return std::nullopt;
}

llvm::Expected<std::optional<Control::Message>>
Control::receive(std::chrono::milliseconds Timeout) {
  Clock::time_point Until = Clock::now() + Timeout;
  llvm::Expected<bool> Whole = fill(sizeof(MessageHead), Until);
  if (!Whole)
    return Whole.takeError();
  if (!*Whole)
    return unfinished();
  MessageHead Head;
  memcpy(&Head, Pending.data(), sizeof Head);
  size_t Size = bodySize(Head.Type);
  if (Head.Magic != MessageMagic || Size == 0)
    return badMessage("something that is no message");
  if (Head.Size != Size)
    return badMessage("a message of " + llvm::Twine(Head.Size) +
                      " bytes where " + llvm::Twine(Size) + " belong");
  Whole = fill(sizeof Head + Size, Until);
  if (!Whole)
    return Whole.takeError();
  if (!*Whole)
    return unfinished();
  std::string Bytes;
  std::swap(Bytes, Pending);
  switch (Head.Type) {
  case MessageType::Hello:
    if (Hello.Protocol != 0)
      return badMessage("a second Hello");
    Hello = take<HelloMessage>(Bytes);
    endText(Hello.Agent);
    endText(Hello.CuptiPath);
    return std::optional<Message>();
  case MessageType::Started: {
    StartedMessage M = take<StartedMessage>(Bytes);
    endText(M.CuptiPath);
    return std::optional<Message>(M);
  }
  case MessageType::Failed: {
    FailedMessage M = take<FailedMessage>(Bytes);
    endText(M.What);
    return std::optional<Message>(M);
  }
  case MessageType::Status:
    return std::optional<Message>(take<StatusMessage>(Bytes));
  case MessageType::Done: {
    DoneMessage M = take<DoneMessage>(Bytes);
    endText(M.What);
    return std::optional<Message>(M);
  }
  case MessageType::Start:
  case MessageType::Stop:
    break;
  }
  llvm_unreachable("bodySize() knows the message");
}

llvm::Expected<std::optional<Control>>
Control::accept(int Listener, uid_t User, std::chrono::milliseconds Timeout) {
  Clock::time_point Until = Clock::now() + Timeout;
  while (waitFor(Listener, POLLIN, Until)) {
    Descriptor Socket(
        ::accept4(Listener, nullptr, nullptr, SOCK_CLOEXEC));
    if (!Socket) {
      if (errno == EINTR || errno == EAGAIN || errno == ECONNABORTED)
        continue;
      return failure(withErrno("the control socket", errno));
    }
    ucred Peer = {};
    socklen_t Size = sizeof Peer;
    if (::getsockopt(Socket.get(), SOL_SOCKET, SO_PEERCRED, &Peer, &Size) !=
            0 ||
        (Peer.uid != User && Peer.uid != ::geteuid()))
      continue;
    Control Talk(std::move(Socket));
    Talk.Process = Peer.pid;
    // A silent stranger must not use up everybody's time.
    auto Left = std::chrono::ceil<std::chrono::milliseconds>(Until -
                                                             Clock::now());
    llvm::Expected<std::optional<Message>> First =
        Talk.receive(std::min(Left, std::chrono::milliseconds(1000)));
    if (!First) {
      llvm::consumeError(First.takeError());
      continue;
    }
    if (Talk.Hello.Protocol == 0)
      continue;
    if (Talk.Hello.Protocol != ProtocolVersion)
      return failure("the agent speaks protocol " +
                         llvm::Twine(Talk.Hello.Protocol) + ", culprit " +
                         llvm::Twine(ProtocolVersion),
                     "use the agent of this culprit's installation");
    return std::optional<Control>(std::move(Talk));
  }
  return std::optional<Control>();
}

llvm::Error Control::send(MessageType Type, const void *Body, size_t Size,
                          int Passed) {
  MessageHead Head = {MessageMagic, Type, uint16_t(Size)};
  std::string Bytes(reinterpret_cast<const char *>(&Head), sizeof Head);
  Bytes.append(static_cast<const char *>(Body), Size);
  iovec Part = {Bytes.data(), Bytes.size()};
  msghdr Message = {};
  Message.msg_iov = &Part;
  Message.msg_iovlen = 1;
  alignas(cmsghdr) char Extra[CMSG_SPACE(sizeof(int))] = {};
  if (Passed >= 0) {
    Message.msg_control = Extra;
    Message.msg_controllen = sizeof Extra;
    cmsghdr *Rights = CMSG_FIRSTHDR(&Message);
    Rights->cmsg_level = SOL_SOCKET;
    Rights->cmsg_type = SCM_RIGHTS;
    Rights->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(Rights), &Passed, sizeof Passed);
  }
  while (Part.iov_len) {
    ssize_t Put = ::sendmsg(Socket.get(), &Message, MSG_NOSIGNAL);
    if (Put < 0 && errno == EINTR)
      continue;
    if (Put <= 0)
      return failure(withErrno("cannot send to the agent", errno),
                     "its process may have ended");
    Part.iov_base = static_cast<char *>(Part.iov_base) + Put;
    Part.iov_len -= size_t(Put);
    // The descriptor went with the first byte.
    Message.msg_control = nullptr;
    Message.msg_controllen = 0;
  }
  return llvm::Error::success();
}

llvm::Error Control::start(const StartMessage &Start, int Capture) {
  return send(MessageType::Start, &Start, sizeof Start, Capture);
}

llvm::Error Control::stop() { return send(MessageType::Stop, nullptr, 0); }

} // namespace culprit::attach
