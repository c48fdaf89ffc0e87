//===- CloseGuard.h - A program that forks at the worst moment --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_TEST_SIM_CLOSEGUARD_H
#define CULPRIT_TEST_SIM_CLOSEGUARD_H

/// From here on closes of other threads are followed by a fork.
void guardCloses();
/// Ends that. How many files of the program were closed in children; -1 when
/// none was closed by another thread at all.
long lostFiles();

#endif // CULPRIT_TEST_SIM_CLOSEGUARD_H
