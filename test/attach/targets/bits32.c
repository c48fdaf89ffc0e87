//===- bits32.c - A 32-bit program without a C library --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// gcc -m32 -nostdlib -static needs no 32-bit libraries to be installed.
//
//===----------------------------------------------------------------------===//

void _start(void) {
  for (;;)
    __asm__ volatile("int $0x80" : : "a"(29)); // pause
}
