//===- plain.c - A program that only sleeps -------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Linked statically it can be given no library.
//
//===----------------------------------------------------------------------===//

#include <unistd.h>

int main(void) {
  for (;;)
    pause();
}
