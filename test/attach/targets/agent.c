//===- agent.c - A library that begins as the agent does ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Stands for libculprit-agent.so where only the injection is tested: starts a
// thread when it is loaded and when culprit_agent_begin is called. The thread
// adds a byte to the file "ran" beside the library.
//
//===----------------------------------------------------------------------===//

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__attribute__((visibility("default"))) const char culprit_agent_version[64] =
    "culprit test";

static void *run(void *Path) {
  int Fd = open(Path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (Fd >= 0) {
    if (write(Fd, ".", 1) != 1)
      perror(Path);
    close(Fd);
  }
  free(Path);
  return NULL;
}

__attribute__((visibility("default"))) int
culprit_agent_begin(const char *Folder) {
  char *Path = NULL;
  if (asprintf(&Path, "%s/ran", Folder) < 0)
    return 2;
  pthread_attr_t Attributes;
  pthread_attr_init(&Attributes);
  pthread_attr_setstacksize(&Attributes, 262144);
  pthread_attr_setdetachstate(&Attributes, PTHREAD_CREATE_DETACHED);
  pthread_t Thread;
  int Failed = pthread_create(&Thread, &Attributes, run, Path);
  pthread_attr_destroy(&Attributes);
  errno = ENOTTY; // A caller must not find this.
  return Failed ? 2 : 0;
}

__attribute__((constructor)) static void loaded(void) {
  Dl_info Self;
  if (!dladdr((void *)&loaded, &Self) || !Self.dli_fname)
    return;
  char *Folder = strdup(Self.dli_fname);
  char *Slash = strrchr(Folder, '/');
  if (Slash) {
    *Slash = 0;
    culprit_agent_begin(Folder);
  }
  free(Folder);
}
