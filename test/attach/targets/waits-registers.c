//===- waits-registers.c - Registers over a wait --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "waits.h"
#include <errno.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/// libc's poll does not touch the vector registers.
struct PollState {
  struct pollfd *Fds;                          // 0
  int (*Call)(struct pollfd *, nfds_t, int);   // 8
  uint64_t Kept[5];                            // 16
  uint32_t Rounding, RoundingAfter;            // 56
  uint64_t Pattern[4];                         // 64
  uint64_t After[4][4];                        // 96
};

__attribute__((noinline, target("avx"))) int
checkedPoll(struct pollfd *Fds, int *Wrong) {
  struct PollState State = {
      .Fds = Fds,
      .Call = poll,
      .Rounding = 0x1f80 | 0x6000, // Towards zero.
      .Pattern = {0x1122334455667788, 0x99aabbccddeeff00, 0x0123456789abcdef,
                  0xfedcba9876543210}};
  long Result;
  struct PollState *Place = &State;
  // The compiler may keep variables below the stack pointer: step over them.
  __asm__ volatile("leaq -256(%%rsp), %%rsp\n\t"
                   "pushq %%rbp\n\t"
                   "pushq %%rbx\n\t"
                   "pushq %%rdi\n\t"
                   "vmovdqu 64(%%rdi), %%ymm0\n\t"
                   "vmovdqa %%ymm0, %%ymm1\n\t"
                   "vmovdqa %%ymm0, %%ymm7\n\t"
                   "vmovdqa %%ymm0, %%ymm15\n\t"
                   "ldmxcsr 56(%%rdi)\n\t"
                   "movq 8(%%rdi), %%rax\n\t"
                   "movq (%%rdi), %%rdi\n\t"
                   "movl $1, %%esi\n\t"
                   "movl $-1, %%edx\n\t"
                   "movq $0x1111, %%rbx\n\t"
                   "movq $0x2222, %%r12\n\t"
                   "movq $0x3333, %%r13\n\t"
                   "movq $0x4444, %%r14\n\t"
                   "movq $0x5555, %%r15\n\t"
                   "movq %%rsp, %%rbp\n\t"
                   "andq $-16, %%rsp\n\t"
                   "call *%%rax\n\t"
                   "movq %%rbp, %%rsp\n\t"
                   "popq %%rdi\n\t"
                   "movq %%rbx, 16(%%rdi)\n\t"
                   "movq %%r12, 24(%%rdi)\n\t"
                   "movq %%r13, 32(%%rdi)\n\t"
                   "movq %%r14, 40(%%rdi)\n\t"
                   "movq %%r15, 48(%%rdi)\n\t"
                   "vmovdqu %%ymm0, 96(%%rdi)\n\t"
                   "vmovdqu %%ymm1, 128(%%rdi)\n\t"
                   "vmovdqu %%ymm7, 160(%%rdi)\n\t"
                   "vmovdqu %%ymm15, 192(%%rdi)\n\t"
                   "stmxcsr 60(%%rdi)\n\t"
                   "popq %%rbx\n\t"
                   "popq %%rbp\n\t"
                   "leaq 256(%%rsp), %%rsp\n\t"
                   "vzeroupper\n\t"
                   : "=a"(Result), "+D"(Place)
                   :
                   : "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "r12",
                     "r13", "r14", "r15", "memory", "cc", "xmm0", "xmm1",
                     "xmm7", "xmm15");
  _mm_setcsr(0x1f80);
  for (int I = 0; I < 4; ++I)
    if (memcmp(State.After[I], State.Pattern, 32) != 0)
      *Wrong = 1;
  // The lowest bits are flags that arithmetic sets.
  if ((State.RoundingAfter & ~0x3fu) != State.Rounding ||
      State.Kept[0] != 0x1111 || State.Kept[1] != 0x2222 ||
      State.Kept[2] != 0x3333 || State.Kept[3] != 0x4444 ||
      State.Kept[4] != 0x5555)
    *Wrong = 1;
  return (int)Result;
}

__attribute__((target("avx"))) void *busyThread(void *Arg) {
  unsigned Seed = (unsigned)(uintptr_t)Arg;
  void *Kept[64] = {0};
  const uint64_t Pattern[4] = {Seed, ~(uint64_t)Seed, 0x55aa, 0xaa55};
  while (!Over) {
    for (unsigned I = 0; I < 2000; ++I) {
      unsigned At = rand_r(&Seed) % 64;
      size_t Size = 16 + rand_r(&Seed) % 5000;
      free(Kept[At]);
      Kept[At] = malloc(Size);
      memset(Kept[At], (int)At, Size < 64 ? Size : 64);
      uint64_t After[4];
      unsigned Rounds = 200;
      errno = Marker;
      __asm__ volatile("vmovdqu (%2), %%ymm9\n\t"
                       "1: decl %0\n\t"
                       "jnz 1b\n\t"
                       "vmovdqu %%ymm9, (%1)\n\t"
                       "vzeroupper\n\t"
                       : "+r"(Rounds)
                       : "r"(After), "r"(Pattern)
                       : "memory", "cc", "xmm0", "xmm1", "xmm2", "xmm3",
                         "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",
                         "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
      if (memcmp(After, Pattern, 32) != 0)
        WrongRegisters++;
      if (errno != Marker)
        WrongErrno++;
    }
    for (unsigned At = 0; At < 64; ++At)
      if (Kept[At] && *(unsigned char *)Kept[At] != At)
        Damaged++;
    Steps++;
  }
  return NULL;
}
