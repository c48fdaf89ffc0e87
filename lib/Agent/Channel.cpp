//===- Channel.cpp ----------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Agent/Channel.h"
#include "Agent/Text.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

using namespace culprit::capture;

namespace culprit::agent {

bool Channel::connect(const char *Folder, const char *Name) {
  // An address of a socket has 108 bytes; a descriptor of the folder stands
  // for any path.
  int Directory = open(Folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (Directory < 0)
    return false;
  sockaddr_un Address = {};
  Address.sun_family = AF_UNIX;
  Text(Address.sun_path, sizeof(Address.sun_path))
      << "/proc/self/fd/" << Directory << "/" << Name;
  Socket = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int R = -1;
  if (Socket >= 0)
    do
      R = ::connect(Socket, reinterpret_cast<sockaddr *>(&Address),
                    sizeof(Address));
    while (R < 0 && errno == EINTR);
  ::close(Directory);
  if (R < 0)
    close();
  return R == 0;
}

void closeOnce(int &Descriptor) {
  int Old = __atomic_exchange_n(&Descriptor, -1, __ATOMIC_ACQ_REL);
  if (Old >= 0)
    ::close(Old);
}

void Channel::close() { closeOnce(Socket); }

bool Channel::sendBytes(MessageType Type, const void *Body, uint16_t Size) {
  if (Socket < 0)
    return false;
  MessageHead Head = {MessageMagic, Type, Size};
  iovec Parts[2] = {{&Head, sizeof(Head)}, {const_cast<void *>(Body), Size}};
  msghdr M = {};
  M.msg_iov = Parts;
  M.msg_iovlen = 2;
  size_t Left = sizeof(Head) + Size;
  while (Left) {
    // Without a SIGPIPE in somebody's process.
    ssize_t N = sendmsg(Socket, &M, MSG_NOSIGNAL);
    if (N < 0 && errno == EINTR)
      continue;
    if (N <= 0)
      return false;
    Left -= static_cast<size_t>(N);
    for (iovec &P : Parts) {
      size_t Part = static_cast<size_t>(N) < P.iov_len ? static_cast<size_t>(N)
                                                       : P.iov_len;
      P.iov_base = static_cast<char *>(P.iov_base) + Part;
      P.iov_len -= Part;
      N -= static_cast<ssize_t>(Part);
    }
  }
  return true;
}

/// A socket is writable while less than a quarter of its buffer is in use,
/// which is room for some messages: a send does not wait then.
bool Channel::hasRoom() const {
  pollfd P = {Socket, POLLOUT, 0};
  return Socket >= 0 && poll(&P, 1, 0) > 0;
}

static bool isReadable(int Socket, int Timeout) {
  pollfd P = {Socket, POLLIN, 0};
  int R;
  do
    R = poll(&P, 1, Timeout);
  while (R < 0 && errno == EINTR);
  return R > 0;
}

bool Channel::receiveStart(StartMessage &Start, int &File, int Timeout) {
  File = -1;
  struct {
    MessageHead Head;
    StartMessage Body;
  } In;
  for (size_t Done = 0; Done < sizeof(In);) {
    if (!isReadable(Socket, Timeout))
      return false;
    iovec Part = {reinterpret_cast<char *>(&In) + Done, sizeof(In) - Done};
    alignas(cmsghdr) char Room[CMSG_SPACE(sizeof(int))];
    msghdr M = {};
    M.msg_iov = &Part;
    M.msg_iovlen = 1;
    M.msg_control = Room;
    M.msg_controllen = sizeof(Room);
    ssize_t N = recvmsg(Socket, &M, MSG_CMSG_CLOEXEC);
    if (N < 0 && errno == EINTR)
      continue;
    if (N <= 0)
      return false;
    for (cmsghdr *C = CMSG_FIRSTHDR(&M); C; C = CMSG_NXTHDR(&M, C))
      if (C->cmsg_level == SOL_SOCKET && C->cmsg_type == SCM_RIGHTS)
        memcpy(&File, CMSG_DATA(C), sizeof(File));
    Done += static_cast<size_t>(N);
  }
  Start = In.Body;
  return In.Head.Magic == MessageMagic && In.Head.Type == MessageType::Start &&
         In.Head.Size == sizeof(StartMessage) && File >= 0;
}

Channel::Event Channel::wait(int Timeout, int WakeFile) {
  // Those that are negative are passed over.
  pollfd Both[] = {{Socket, POLLIN, 0}, {WakeFile, POLLIN, 0}};
  if (poll(Both, 2, Timeout) <= 0 || !Both[0].revents)
    return Event::Nothing;
  MessageHead Head;
  ssize_t N = recv(Socket, &Head, sizeof(Head), MSG_DONTWAIT);
  if (N < 0 && (errno == EINTR || errno == EAGAIN))
    return Event::Nothing;
  return N == sizeof(Head) && Head.Magic == MessageMagic &&
                 Head.Type == MessageType::Stop
             ? Event::Stop
             : Event::Lost;
}

} // namespace culprit::agent
