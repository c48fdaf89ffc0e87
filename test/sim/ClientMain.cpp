//===- ClientMain.cpp - Runs the tests of the simulated CUPTI ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// usage: sim-calls [TEST...]
///
/// Runs each test in a child and prints a line for it; exit 1 when one fails. A
/// test of misuse has to end with status 77 and the words that name the rule.
///
//===----------------------------------------------------------------------===//

#include "Client.h"
#include <string>
#include <sys/wait.h>
#include <unistd.h>

using namespace client;

/// The status of \p T's process, and what it said in \p Text.
static int run(const Test &T, std::string &Text) {
  int Pipe[2];
  if (pipe(Pipe))
    return -1;
  pid_t Child = fork();
  if (!Child) {
    dup2(Pipe[1], 2);
    setenv("SIMCUPTI_STRICT", "1", 1);
    if (T.Setting)
      putenv(strdup(T.Setting));
    // A deadlock is a failure too.
    alarm(60);
    cuInit(0);
    T.Run();
    _exit(0);
  }
  close(Pipe[1]);
  char Buffer[512];
  for (ssize_t N; (N = read(Pipe[0], Buffer, sizeof(Buffer))) > 0;)
    Text.append(Buffer, size_t(N));
  close(Pipe[0]);
  int Status = 0;
  waitpid(Child, &Status, 0);
  return WIFEXITED(Status) ? WEXITSTATUS(Status) : 128 + WTERMSIG(Status);
}

int main(int Count, char **Arguments) {
  unsetenv("CUDA_INJECTION64_PATH");
  std::vector<Test> All = Behaviour;
  All.insert(All.end(), Misuse.begin(), Misuse.end());
  bool Good = true;
  int Ran = 0;
  for (const Test &T : All) {
    bool Is = Count == 1;
    for (int I = 1; I < Count; ++I)
      Is |= !std::strcmp(T.Name, Arguments[I]);
    if (!Is)
      continue;
    ++Ran;
    std::string Text;
    int Status = run(T, Text);
    bool Right = T.Forbidden
                     ? Status == 77 && Text.find(T.Forbidden) != Text.npos
                     : Status == 0;
    Good &= Right;
    std::printf("%s %s", Right ? "ok" : "FAILED", T.Name);
    if (!Right || T.Forbidden)
      std::printf(": %d %s", Status, Text.c_str());
    if (Text.empty() || Text.back() != '\n')
      std::printf("\n");
    std::fflush(stdout);
  }
  std::printf("%d tests\n", Ran);
  return Good && Ran ? 0 : 1;
}
