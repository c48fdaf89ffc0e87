//===- tracer.c - Traces a process and sleeps -----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <unistd.h>

int main(int Count, char **Words) {
  if (Count < 2 || ptrace(PTRACE_SEIZE, atoi(Words[1]), 0, 0) != 0) {
    perror("ptrace");
    return 1;
  }
  printf("ready\n");
  fflush(stdout);
  for (;;)
    pause();
}
