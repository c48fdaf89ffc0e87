//===- SafePointTest.cpp - Which threads are borrowed -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Attach/ProcFile.h"
#include "Attach/SafePoint.h"
#include "gtest/gtest.h"
#include <linux/futex.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

using namespace culprit;
using namespace culprit::attach;

static SystemCall callOf(long Number, std::array<uint64_t, 6> Arguments) {
  SystemCall Call;
  Call.Number = Number;
  Call.Arguments = Arguments;
  Call.Pc = 0x2010;
  return Call;
}

TEST(SafePointTest, RanksOfWaits) {
  const uint64_t Forever = 0xffffffff; // -1 as the kernel shows an int.
  const uint64_t Private = FUTEX_PRIVATE_FLAG;
#ifdef SYS_poll
  EXPECT_EQ(rankWait(callOf(SYS_poll, {1, 1, Forever})), WaitRank::Poll);
  EXPECT_EQ(rankWait(callOf(SYS_poll, {1, 1, 500})), WaitRank::FinitePoll);
  EXPECT_EQ(rankWait(callOf(SYS_epoll_wait, {3, 1, 1, Forever})),
            WaitRank::Epoll);
  // The kernel ends these with EINTR, and entered again they take longer.
  EXPECT_EQ(rankWait(callOf(SYS_epoll_wait, {3, 1, 1, 500})), WaitRank::None);
#endif
  EXPECT_EQ(rankWait(callOf(SYS_ppoll, {1, 1, 0})), WaitRank::Poll);
  EXPECT_EQ(rankWait(callOf(SYS_epoll_pwait2, {3, 1, 1, 0x1000})),
            WaitRank::None);
  EXPECT_EQ(rankWait(callOf(SYS_pselect6, {1, 0, 0, 0, 0x1000})),
            WaitRank::None);
  EXPECT_EQ(rankWait(callOf(SYS_futex, {1, FUTEX_WAIT_BITSET | Private |
                                               FUTEX_CLOCK_REALTIME})),
            WaitRank::Futex);
  // How locks wait: the thread may hold others.
  EXPECT_EQ(rankWait(callOf(SYS_futex, {1, FUTEX_WAIT | Private})),
            WaitRank::None);
  EXPECT_EQ(rankWait(callOf(SYS_futex, {1, FUTEX_LOCK_PI | Private})),
            WaitRank::None);
  EXPECT_EQ(rankWait(callOf(SYS_clock_nanosleep, {1, TIMER_ABSTIME})),
            WaitRank::DeadlineSleep);
  EXPECT_EQ(rankWait(callOf(SYS_clock_nanosleep, {1, 0, 0x1000})),
            WaitRank::FiniteSleep);
  // recv(MSG_WAITALL) returns fewer bytes when it is stopped.
  EXPECT_EQ(rankWait(callOf(SYS_recvfrom, {1, 1, 1, MSG_WAITALL})),
            WaitRank::None);
  EXPECT_EQ(rankWait(callOf(SYS_recvfrom, {1, 1, 1, 0})), WaitRank::Read);
  EXPECT_EQ(rankWait(callOf(SYS_write, {1, 0, 0})), WaitRank::None);
  EXPECT_EQ(rankWait(callOf(SYS_openat, {1, 0, 0})), WaitRank::None);
  EXPECT_EQ(rankWait(callOf(-1, {})), WaitRank::None);
}

TEST(SafePointTest, SocketsWithATimeout) {
  int Ends[2], Pipe[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, Ends), 0);
  ASSERT_EQ(pipe(Pipe), 0);
  auto Of = [](long Number, int Fd) {
    return hasSocketTimeout(getpid(), callOf(Number, {uint64_t(Fd)}));
  };
  EXPECT_FALSE(Of(SYS_recvfrom, Ends[0]));
  timeval Time = {30, 0};
  setsockopt(Ends[0], SOL_SOCKET, SO_RCVTIMEO, &Time, sizeof Time);
  // Kernels before 5.6 and some sandboxes do not tell.
  Descriptor Process(int(syscall(SYS_pidfd_open, getpid(), 0)));
  Descriptor Copy(int(syscall(SYS_pidfd_getfd, Process.get(), Ends[0], 0)));
  if (Copy) {
    EXPECT_TRUE(Of(SYS_recvfrom, Ends[0]));
    EXPECT_TRUE(Of(SYS_read, Ends[0]));
  }
  EXPECT_FALSE(Of(SYS_read, Ends[1]));
  EXPECT_FALSE(Of(SYS_read, Pipe[0]));
  EXPECT_FALSE(Of(SYS_write, Ends[0]));
  for (int Fd : {Ends[0], Ends[1], Pipe[0], Pipe[1]})
    close(Fd);
}

#if defined(__x86_64__)
TEST(SafePointTest, OrderOfThreads) {
  ProcessMaps Maps = ProcessMaps::parse(
      "2000-3000 r-xp 00000000 fe:00 1 /lib/libc.so.6\n"
      "5000-6000 r-xp 00000000 fe:00 2 /lib/libcuda.so.1\n");
  WaitText Text = WaitText::find(Maps);
  // mov $7, %eax; syscall before 0x2010: a poll that was resumed.
  std::vector<uint8_t> Code(64, 0x90);
  const uint8_t Load[] = {0xb8, 7, 0, 0, 0, 0x0f, 0x05};
  memcpy(Code.data() + 0x10 - sizeof Load, Load, sizeof Load);
  BufferMemory Memory(0x2000, Code);
  auto Thread = [](pid_t Tid, SystemCall Call, uint64_t Pc = 0x2010) {
    Call.Pc = Pc;
    return ThreadState{Tid, "t", Call};
  };
  const uint64_t Forever = 0xffffffff;
  std::vector<ThreadState> Threads = {
      Thread(1, callOf(SYS_poll, {1, 1, Forever})), // main
      Thread(2, callOf(SYS_epoll_wait, {1, 1, 1, Forever})),
      Thread(3, callOf(SYS_poll, {1, 1, Forever}), 0x5010), // not by libc
      Thread(4, callOf(SYS_restart_syscall, {1, 1, Forever})),
      Thread(5, callOf(SYS_restart_syscall, {1, 1, Forever}), 0x2020),
      {6, "running", std::nullopt},
      Thread(7, callOf(SYS_clock_nanosleep, {1, 0, 0x9000}))};
  std::vector<SafeThread> Ranked = rankThreads(1, Threads, Text, Memory);
  std::vector<pid_t> Order;
  for (const SafeThread &S : Ranked)
    Order.push_back(S.Tid);
  // What the end of the tracer could be seen in comes last.
  EXPECT_EQ(Order, (std::vector<pid_t>{4, 7, 1, 2}));
  EXPECT_EQ(Ranked[0].Call.Number, SYS_poll);
  // Code that cannot be read.
  EXPECT_EQ(originalNumber(SYS_restart_syscall, 0x9000, Memory), -1);
}
#endif
