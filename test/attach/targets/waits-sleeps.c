//===- waits-sleeps.c - Waits that end at a time --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#define _GNU_SOURCE
#include "waits.h"
#include <errno.h>
#include <stddef.h>
#include <time.h>

double now(void) {
  struct timespec T;
  clock_gettime(CLOCK_MONOTONIC, &T);
  return (double)T.tv_sec + 1e-9 * (double)T.tv_nsec;
}

void *sleepThread(void *Arg) {
  for (unsigned I = 0; !Over; ++I) {
    double Begin = now();
    int R;
    if (I & 1) {
      struct timespec T = {0, 20000000};
      R = clock_nanosleep(CLOCK_MONOTONIC, 0, &T, NULL);
    } else {
      struct timespec T;
      clock_gettime(CLOCK_MONOTONIC, &T);
      T.tv_nsec += 20000000;
      if (T.tv_nsec >= 1000000000) {
        T.tv_nsec -= 1000000000;
        T.tv_sec++;
      }
      R = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &T, NULL);
    }
    if (R == EINTR)
      Interrupted++;
    else if (R != 0)
      WrongResult++;
    else if (now() - Begin < 0.0199)
      EarlySleeps++;
    Steps++;
  }
  return Arg;
}

void *timedThread(void *Arg) {
  for (unsigned I = 0; !Over; ++I) {
    const struct timespec Whole = {0, 500000000};
    struct timespec T = Whole;
    double Begin = now();
    errno = Marker;
    int R = I % 4 == 0   ? poll(NULL, 0, 500)
            : I % 4 == 1 ? nanosleep(&T, &T)
            : I % 4 == 2 ? clock_nanosleep(CLOCK_MONOTONIC, 0, &T, NULL)
                         : ppoll(NULL, 0, &T, NULL);
    double Took = now() - Begin;
    if (Over)
      break;
    if (R == EINTR || (R < 0 && errno == EINTR))
      Interrupted++;
    else if (R != 0)
      WrongResult++;
    if (errno != Marker)
      WrongErrno++;
    if (Took < 0.499)
      EarlySleeps++;
    if (Took > 1)
      LateSleeps++;
    Steps++;
  }
  return Arg;
}
