//===- CloseGuard.cpp - A program that forks at the worst moment -*- C++ -*-==//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// The workload's own close(), which libraries call too. While it is on, each
/// close of another thread than the first is followed by what a busy program
/// may do right then: it opens a file, which gets the same number, and forks. A
/// library that closes the number again in the child closes that file.
///
//===----------------------------------------------------------------------===//

#include "CloseGuard.h"
#include <atomic>
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static std::atomic<bool> IsOn;
static std::atomic<long> Lost, Forks;

void guardCloses() { IsOn = true; }
long lostFiles() {
  IsOn = false;
  return Forks ? Lost.load() : -1;
}

static void forkWithFile(int Number) {
  int File = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (File != Number) {
    dup3(File, Number, O_CLOEXEC);
    syscall(SYS_close, File);
  }
  ++Forks;
  pid_t Child = fork();
  if (!Child)
    _exit(fcntl(Number, F_GETFD) < 0);
  int Status = 1;
  waitpid(Child, &Status, 0);
  Lost += Status != 0;
  syscall(SYS_close, Number);
}

extern "C" __attribute__((visibility("default"))) int close(int Number) {
  long R = syscall(SYS_close, Number);
  if (R == 0 && IsOn && getpid() != syscall(SYS_gettid))
    forkWithFile(Number);
  return int(R);
}
