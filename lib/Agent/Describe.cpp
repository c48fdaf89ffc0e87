//===- Describe.cpp ---------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Agent/Describe.h"
#include "Agent/Sink.h"
#include "Agent/Text.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/random.h>
#include <unistd.h>

using namespace culprit::capture;

namespace culprit::agent {

const char AgentVersion[] = "culprit " CULPRIT_VERSION;

/// The start of the file \p Path in \p To; its size.
static size_t readFile(const char *Path, char *To, size_t Size) {
  size_t Done = 0;
  int File = open(Path, O_RDONLY | O_CLOEXEC);
  while (File >= 0 && Done + 1 < Size) {
    ssize_t N = read(File, To + Done, Size - 1 - Done);
    if (N < 0 && errno == EINTR)
      continue;
    if (N <= 0)
      break;
    Done += static_cast<size_t>(N);
  }
  if (File >= 0)
    close(File);
  if (Size)
    To[Done] = 0;
  return Done;
}

static uint64_t number(const char *&At) {
  uint64_t N = 0;
  for (; *At >= '0' && *At <= '9'; ++At)
    N = N * 10 + static_cast<uint64_t>(*At - '0');
  return N;
}

uint64_t processStat(int Number) {
  char Stat[1024];
  readFile("/proc/self/stat", Stat, sizeof(Stat));
  // The name, field 2, may hold blanks.
  const char *At = strrchr(Stat, ')');
  for (int Field = 2; At && Field < Number; ++Field) {
    At = strchr(At, ' ');
    if (At)
      ++At;
  }
  return At ? number(At) : 0;
}

/// The hexadecimal digits of \p From as bytes.
static void bytesOf(const char *From, uint8_t (&To)[16]) {
  unsigned Digit = 0;
  for (; *From && Digit < 32; ++From) {
    int V = *From >= '0' && *From <= '9'   ? *From - '0'
            : *From >= 'a' && *From <= 'f' ? *From - 'a' + 10
                                           : -1;
    if (V < 0)
      continue;
    To[Digit / 2] = static_cast<uint8_t>(To[Digit / 2] << 4 | V);
    ++Digit;
  }
}

static uint32_t rankOf() {
  static const char *const Variables[] = {"RANK", "OMPI_COMM_WORLD_RANK",
                                          "PMI_RANK", "SLURM_PROCID"};
  for (const char *Name : Variables)
    if (const char *Value = getenv(Name)) {
      const char *At = Value;
      uint64_t N = number(At);
      if (At != Value && !*At && N < ~uint32_t(0))
        return static_cast<uint32_t>(N);
    }
  return ~uint32_t(0);
}

void processName(char (&Name)[16]) {
  size_t Size = readFile("/proc/self/comm", Name, sizeof(Name));
  if (Size && Name[Size - 1] == '\n')
    Name[Size - 1] = 0;
}

void describeProcess(Superblock &Head) {
  Head = {};
  memcpy(Head.Magic, Magic, sizeof(Magic));
  Head.Major = MajorVersion;
  Head.Minor = MinorVersion;
  Head.ByteOrder = ByteOrder;
  if (getrandom(Head.Uuid, sizeof(Head.Uuid), GRND_NONBLOCK) < 0)
    memset(Head.Uuid, 0, sizeof(Head.Uuid));
  char Boot[64];
  readFile("/proc/sys/kernel/random/boot_id", Boot, sizeof(Boot));
  bytesOf(Boot, Head.BootId);
  Head.Pid = static_cast<uint32_t>(getpid());
  Head.Parent = static_cast<uint32_t>(getppid());
  Head.ProcessStart = processStat(22);
  Head.Created = now();
  Head.Rank = rankOf();
  copyText(Head.Agent, AgentVersion);
  gethostname(Head.Host, sizeof(Head.Host) - 1);
  ssize_t N = readlink("/proc/self/exe", Head.Executable,
                       sizeof(Head.Executable) - 1);
  if (N < 0)
    Head.Executable[0] = 0;
  size_t Size = readFile("/proc/self/cmdline", Head.Command,
                         sizeof(Head.Command));
  for (size_t I = 0; I + 1 < Size; ++I)
    if (!Head.Command[I])
      Head.Command[I] = ' ';
}

uint64_t option(const char *Options, const char *Key, uint64_t Otherwise) {
  size_t Length = strlen(Key);
  for (const char *At = Options; At && *At;) {
    if (!strncmp(At, Key, Length) && At[Length] == '=') {
      At += Length + 1;
      return number(At);
    }
    At = strchr(At, ',');
    if (At)
      ++At;
  }
  return Otherwise;
}

StartMessage startFromOptions(const char *Options) {
  StartMessage S = {};
  S.Kinds = option(Options, "kinds", DefaultKinds);
  S.MaxSize = option(Options, "max-size", DefaultMaxSize);
  S.PoolBytes = option(Options, "pool", DefaultPoolBytes);
  S.BufferBytes = option(Options, "buffer", DefaultBufferBytes);
  S.Full = option(Options, "ring", 0) ? FullPolicy::Ring : FullPolicy::Stop;
  S.AllDriverCalls = static_cast<uint32_t>(option(Options, "driver", 0));
  S.Finalize = option(Options, "finalize", 0) != 0;
  if (const char *Cupti = getenv(CuptiVariable))
    copyText(S.CuptiPath, Cupti);
  return S;
}

bool isAwaited(const char *Pattern, const char *Options) {
  uint64_t Number = option(Options, "live", 0);
  if (!Number)
    return true;
  char Path[600];
  copyText(Path, Pattern);
  char *Slash = strrchr(Path, '/');
  size_t Folder = Slash ? static_cast<size_t>(Slash + 1 - Path) : 0;
  Text(Path + Folder, sizeof(Path) - Folder)
      << ".culprit-" << Number << ".live";
  int File = open(Path, O_RDONLY | O_CLOEXEC);
  if (File < 0)
    return false;
  bool IsFree = flock(File, LOCK_SH | LOCK_NB) == 0;
  close(File);
  return !IsFree;
}

void capturePath(char *Path, size_t Size, const char *Pattern) {
  Text T(Path, Size);
  char One[2] = {};
  for (const char *At = Pattern; *At; ++At) {
    if (At[0] == '%' && At[1] == 'p') {
      T << static_cast<uint32_t>(getpid());
      ++At;
      continue;
    }
    One[0] = *At;
    T << One;
  }
}

} // namespace culprit::agent
