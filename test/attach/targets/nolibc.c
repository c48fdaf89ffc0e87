//===- nolibc.c - A program without a C library ---------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Built twice: as a dynamic linker that has the name of musl's, and as a
// program that asks for that. What runs then looks like one of Alpine Linux.
//
//===----------------------------------------------------------------------===//

void _start(void) {
  for (;;) {
    long Number = 34; // pause
    __asm__ volatile("syscall" : "+a"(Number) : : "rcx", "r11", "memory");
  }
}
