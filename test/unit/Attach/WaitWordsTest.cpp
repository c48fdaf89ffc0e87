//===- WaitWordsTest.cpp - What threads do, in words ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Attach/WaitWords.h"
#include "gtest/gtest.h"
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>

using namespace culprit;
using namespace culprit::attach;

struct WaitWordsTest : testing::Test {
  ThreadState thread(long Number, std::array<uint64_t, 6> Arguments = {},
                     uint64_t Pc = 0x2010) {
    SystemCall Call;
    Call.Number = Number;
    Call.Arguments = Arguments;
    Call.Pc = Pc;
    return {++Last, "t", Call};
  }
  ThreadState running() { return {++Last, "t", std::nullopt}; }
  std::string words(const ThreadState &T) { return waitWords(T, Text, Memory); }

  pid_t Last = 0;
  const timespec Times[2] = {{2, 0}, {3600, 0}};
  BufferMemory Memory{
      0x1000, {reinterpret_cast<const uint8_t *>(Times), sizeof Times}};
  WaitText Text = WaitText::find(ProcessMaps::parse(
      "2000-3000 r-xp 00000000 fe:00 1 /lib/libc.so.6\n"));
};

TEST_F(WaitWordsTest, OfOneThread) {
  EXPECT_EQ(words(running()), "running");
  EXPECT_EQ(words(thread(SYS_ppoll, {1, 1, 0})), "in ppoll");
  EXPECT_EQ(words(thread(SYS_ppoll, {1, 1, 0}, 0x5010)),
            "in ppoll outside of libc");
  EXPECT_EQ(words(thread(SYS_clock_nanosleep, {1, 0, 0x1000})),
            "in clock_nanosleep");
  EXPECT_EQ(words(thread(SYS_futex, {1, FUTEX_WAIT | FUTEX_PRIVATE_FLAG})),
            "waiting for a lock (futex)");
  EXPECT_EQ(words(thread(SYS_futex, {1, FUTEX_WAIT_BITSET})), "in futex");
  EXPECT_EQ(words(thread(SYS_epoll_pwait, {3, 1, 1, 500})),
            "in epoll_pwait with a timeout");
  EXPECT_EQ(words(thread(SYS_pselect6, {1, 0, 0, 0, 0x1000})),
            "in pselect6 with a timeout");
  EXPECT_EQ(words(thread(SYS_ioctl)), "in ioctl");
  EXPECT_EQ(words(thread(9999)), "in system call 9999");
  // Code that does not tell which call was resumed.
  EXPECT_EQ(words(thread(SYS_restart_syscall)), "in a wait that was resumed");
}

TEST_F(WaitWordsTest, OfAProcess) {
  auto Of = [&](const std::vector<ThreadState> &Threads) {
    return describeThreads(Threads, Text, Memory);
  };
  EXPECT_EQ(Of({}), "it has ended");
  EXPECT_EQ(Of({running()}), "its only thread was running");
  EXPECT_EQ(Of({running(), running()}),
            "all of its 2 threads were running");
  EXPECT_EQ(Of({thread(SYS_ioctl), running(), running()}),
            "of its 3 threads 2 were running, 1 in ioctl");
  EXPECT_EQ(Of({running(), thread(SYS_ioctl)}),
            "of its 2 threads 1 was in ioctl, 1 running");
  // Four sorts are told, what is rarer in sum.
  EXPECT_EQ(Of({thread(SYS_ioctl), thread(SYS_ioctl), thread(SYS_fsync),
                thread(SYS_mmap), thread(SYS_munmap), thread(SYS_write),
                thread(SYS_wait4)}),
            "of its 7 threads 2 were in ioctl, 1 in fsync, 1 in mmap, 1 in "
            "munmap, 2 in other calls");
}
