//===- waits.c - A program that notices being disturbed -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Threads that wait in libc in each way that can be borrowed from, and threads
// that allocate and compute. Each checks after each step what an injection
// must not change: results, errno, signal mask, alternate stack, registers kept
// by calls, all vector registers, rounding mode, the handler of SIGTRAP. Runs
// until SIGTERM, then prints one line of counts and exits with 1 if anything
// was ever wrong.
//
//   waits [--busy N] [--kinds poll,epoll,...] [--seconds S]
//
//===----------------------------------------------------------------------===//

#define _GNU_SOURCE
#include "waits.h"
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

atomic_int Over;
atomic_ulong Steps, Interrupted, WrongResult, WrongErrno, WrongMask,
    WrongStack, WrongRegisters, Traps, LostSignals, EarlySleeps, LateSleeps,
    Damaged;

/// What must be the same after a wait as before it.
struct Surroundings {
  sigset_t Mask;
  stack_t Stack;
};

static void giveAltStack(void) {
  stack_t S = {.ss_sp = malloc(65536), .ss_size = 65536};
  sigaltstack(&S, NULL);
}

static void look(struct Surroundings *S) {
  memset(S, 0, sizeof *S);
  pthread_sigmask(SIG_SETMASK, NULL, &S->Mask);
  sigaltstack(NULL, &S->Stack);
}

static void compare(const struct Surroundings *A) {
  struct Surroundings B;
  look(&B);
  if (memcmp(&A->Mask, &B.Mask, 8) != 0)
    WrongMask++;
  if (A->Stack.ss_sp != B.Stack.ss_sp || A->Stack.ss_size != B.Stack.ss_size ||
      A->Stack.ss_flags != B.Stack.ss_flags)
    WrongStack++;
}

static void nap(long Nanoseconds) {
  struct timespec T = {0, Nanoseconds};
  nanosleep(&T, NULL);
}

/// A pipe whose other end gets a counting byte every few milliseconds.
struct Feed {
  int In, Out;
  unsigned char Next;
};

static void *feed(void *Arg) {
  struct Feed *F = Arg;
  sigset_t All;
  sigfillset(&All);
  pthread_sigmask(SIG_SETMASK, &All, NULL);
  for (unsigned char C = 0; !Over; ++C) {
    // Plain system calls: this thread is never borrowed.
    struct timespec T = {0, 3000000 + rand() % 4000000};
    syscall(SYS_nanosleep, &T, NULL);
    if (write(F->Out, &C, 1) != 1)
      break;
  }
  return NULL;
}

static void startThread(void *(*Run)(void *), void *Arg) {
  pthread_t T;
  if (pthread_create(&T, NULL, Run, Arg) != 0)
    abort();
  pthread_detach(T);
}

static struct Feed *newFeed(void) {
  struct Feed *F = calloc(1, sizeof *F);
  int Ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, Ends) != 0)
    abort();
  F->In = Ends[0];
  F->Out = Ends[1];
  startThread(feed, F);
  return F;
}

/// The byte that must come next is there and right.
static void take(struct Feed *F, int Result) {
  if (Over)
    return;
  if (Result < 0) {
    if (errno == EINTR)
      Interrupted++;
    else
      WrongResult++;
    return;
  }
  if (errno != Marker)
    WrongErrno++;
  unsigned char C;
  if (Result != 1 || read(F->In, &C, 1) != 1 || C != F->Next++)
    WrongResult++;
  Steps++;
}

static void *pollThread(void *Arg) {
  struct Feed *F = newFeed();
  struct Surroundings S;
  giveAltStack();
  while (!Over) {
    struct pollfd P = {F->In, POLLIN, 0};
    int Wrong = 0;
    look(&S);
    errno = Marker;
    int R = checkedPoll(&P, &Wrong);
    take(F, R);
    if (Wrong)
      WrongRegisters++;
    compare(&S);
  }
  return Arg;
}

static void *epollThread(void *Arg) {
  struct Feed *F = newFeed();
  int E = epoll_create1(0);
  struct epoll_event Event = {.events = EPOLLIN};
  epoll_ctl(E, EPOLL_CTL_ADD, F->In, &Event);
  struct Surroundings S;
  giveAltStack();
  while (!Over) {
    look(&S);
    errno = Marker;
    take(F, epoll_wait(E, &Event, 1, -1));
    compare(&S);
  }
  return Arg;
}

/// Never to be stopped: the kernel ends this wait when it is.
static void *finiteEpollThread(void *Arg) {
  struct Feed *F = newFeed();
  int E = epoll_create1(0);
  struct epoll_event Event = {.events = EPOLLIN};
  epoll_ctl(E, EPOLL_CTL_ADD, F->In, &Event);
  while (!Over) {
    errno = Marker;
    take(F, epoll_wait(E, &Event, 1, 5000));
  }
  return Arg;
}

static void *selectThread(void *Arg) {
  struct Feed *F = newFeed();
  struct Surroundings S;
  sigset_t Inner;
  pthread_sigmask(SIG_SETMASK, NULL, &Inner);
  sigaddset(&Inner, SIGURG);
  giveAltStack();
  for (unsigned I = 0; !Over; ++I) {
    fd_set Set;
    FD_ZERO(&Set);
    FD_SET(F->In, &Set);
    look(&S);
    errno = Marker;
    if (I & 1)
      take(F, select(F->In + 1, &Set, NULL, NULL, NULL));
    else
      take(F, pselect(F->In + 1, &Set, NULL, NULL, NULL, &Inner));
    compare(&S);
  }
  return Arg;
}

static void *readThread(void *Arg) {
  struct Feed *F = newFeed();
  struct Surroundings S;
  while (!Over) {
    unsigned char C;
    look(&S);
    errno = Marker;
    long R = read(F->In, &C, 1);
    if (Over)
      break;
    if (R != 1 || C != F->Next++)
      (R < 0 && errno == EINTR) ? Interrupted++ : WrongResult++;
    if (errno != Marker)
      WrongErrno++;
    compare(&S);
    Steps++;
  }
  return Arg;
}

static pthread_mutex_t Lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t Changed = PTHREAD_COND_INITIALIZER;
static unsigned long Sent, Received;

static void *futexSender(void *Arg) {
  while (!Over) {
    struct timespec T = {0, 2000000 + rand() % 2000000};
    syscall(SYS_nanosleep, &T, NULL);
    pthread_mutex_lock(&Lock);
    Sent++;
    pthread_cond_signal(&Changed);
    pthread_mutex_unlock(&Lock);
  }
  return Arg;
}

static void *futexThread(void *Arg) {
  struct Surroundings S;
  giveAltStack();
  startThread(futexSender, NULL);
  pthread_mutex_lock(&Lock);
  while (!Over) {
    look(&S);
    errno = Marker;
    while (Received == Sent && !Over)
      if (pthread_cond_wait(&Changed, &Lock) != 0)
        WrongResult++;
    Received = Sent;
    if (errno != Marker)
      WrongErrno++;
    compare(&S);
    Steps++;
  }
  pthread_mutex_unlock(&Lock);
  return Arg;
}

/// A thread that relies on EINTR: each signal must end its poll.
static atomic_uint Handled, Ended;
static void onSignal(int Signal) {
  (void)Signal;
  Handled++;
}
static void *signalled(void *Arg) {
  atomic_int *Waiting = Arg;
  while (!Over) {
    *Waiting = 1;
    if (poll(NULL, 0, -1) == -1 && errno == EINTR)
      Ended++;
    else
      WrongResult++;
  }
  return NULL;
}
static void *signalThread(void *Arg) {
  static atomic_int Waiting;
  pthread_t T;
  struct sigaction A = {.sa_handler = onSignal, .sa_flags = SA_RESTART};
  sigaction(SIGUSR1, &A, NULL);
  if (pthread_create(&T, NULL, signalled, &Waiting) != 0)
    abort();
  while (!Over) {
    while (!Waiting && !Over)
      sched_yield();
    Waiting = 0;
    struct timespec Pause = {0, 3000000 + rand() % 3000000};
    syscall(SYS_nanosleep, &Pause, NULL);
    unsigned Before = Ended;
    pthread_kill(T, SIGUSR1);
    double Begin = now();
    while (Ended == Before && !Over)
      if (now() - Begin > 3) {
        LostSignals++;
        pthread_kill(T, SIGUSR1);
        break;
      }
    Steps++;
  }
  return Arg;
}

static void onTrap(int Signal) {
  (void)Signal;
  Traps++;
}

static int has(const char *List, const char *Name) {
  const char *At = strstr(List, Name);
  size_t Size = strlen(Name);
  return At && (At == List || At[-1] == ',') &&
         (At[Size] == 0 || At[Size] == ',');
}

int main(int Count, char **Words) {
  const char *Kinds = "poll,epoll,finite,select,read,futex,sleep,signal";
  int Busy = 1, Seconds = 0;
  for (int I = 1; I + 1 < Count; I += 2) {
    if (!strcmp(Words[I], "--busy"))
      Busy = atoi(Words[I + 1]);
    else if (!strcmp(Words[I], "--kinds"))
      Kinds = Words[I + 1];
    else if (!strcmp(Words[I], "--seconds"))
      Seconds = atoi(Words[I + 1]);
  }
  struct sigaction Trap = {.sa_handler = onTrap};
  sigaction(SIGTRAP, &Trap, NULL);
  sigset_t End;
  sigemptyset(&End);
  sigaddset(&End, SIGTERM);
  sigaddset(&End, SIGINT);
  pthread_sigmask(SIG_BLOCK, &End, NULL);
  static const struct {
    const char *Name;
    void *(*Run)(void *);
  } All[] = {{"poll", pollThread},     {"epoll", epollThread},
             {"finite", finiteEpollThread}, {"select", selectThread},
             {"read", readThread},     {"futex", futexThread},
             {"sleep", sleepThread},   {"signal", signalThread},
             {"timed", timedThread}};
  for (unsigned I = 0; I < sizeof All / sizeof *All; ++I)
    if (has(Kinds, All[I].Name))
      startThread(All[I].Run, NULL);
  for (int I = 0; I < Busy; ++I)
    startThread(busyThread, (void *)(uintptr_t)(I + 1));
  printf("ready\n");
  fflush(stdout);
  if (Seconds) {
    struct timespec T = {Seconds, 0};
    sigtimedwait(&End, NULL, &T);
  } else {
    int Signal;
    sigwait(&End, &Signal);
  }
  Over = 1;
  nap(50000000);
  struct sigaction Now;
  sigaction(SIGTRAP, NULL, &Now);
  int LostHandler = Now.sa_handler != onTrap;
  printf("steps=%lu eintr=%lu result=%lu errno=%lu mask=%lu stack=%lu "
         "registers=%lu traps=%lu lost-signals=%lu early=%lu late=%lu "
         "damaged=%lu handler-lost=%d\n",
         Steps, Interrupted, WrongResult, WrongErrno, WrongMask, WrongStack,
         WrongRegisters, Traps, LostSignals, EarlySleeps, LateSleeps, Damaged,
         LostHandler);
  fflush(stdout);
  _exit(Interrupted || WrongResult || WrongErrno || WrongMask || WrongStack ||
        WrongRegisters || Traps || LostSignals || EarlySleeps || LateSleeps ||
        Damaged || LostHandler);
}
