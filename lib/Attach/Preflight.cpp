//===- Preflight.cpp - Can this process be attached to? ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Attach/Preflight.h"
#include "Attach/Machine.h"
#include "Attach/ProcFile.h"
#include "Capture/Protocol.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/BinaryFormat/ELF.h"
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <unistd.h>

namespace culprit::attach {

static constexpr char UseRecord[] = "start the program by `culprit record`";
static constexpr char FromStart[] =
    "to record it from its start: `culprit record`";

llvm::StringRef checkName(Check Id) {
  switch (Id) {
#define ATTACH_CHECK(Id, Name, Level)                                          \
  case Check::Id:                                                              \
    return Name;
#include "Attach/Checks.def"
  }
  return "";
}

Severity checkLevel(Check Id) {
  switch (Id) {
#define ATTACH_CHECK(Id, Name, Level)                                          \
  case Check::Id:                                                              \
    return Severity::Level;
#include "Attach/Checks.def"
  }
  return Severity::Error;
}

bool Preflight::isRefused() const {
  return llvm::any_of(Findings, [](const Finding &F) {
    return checkLevel(F.Id) == Severity::Error;
  });
}

llvm::Error Preflight::refusal() const {
  for (const Finding &F : Findings)
    if (checkLevel(F.Id) == Severity::Error)
      return failure(F.Reason, F.Remedy);
  return llvm::Error::success();
}

static uint16_t hostMachine() {
#if defined(__x86_64__)
  return llvm::ELF::EM_X86_64;
#elif defined(__aarch64__)
  return llvm::ELF::EM_AARCH64;
#else
  return 0;
#endif
}

static std::string machineName(uint16_t Machine) {
  switch (Machine) {
  case llvm::ELF::EM_X86_64:
    return "x86-64";
  case llvm::ELF::EM_AARCH64:
    return "aarch64";
  case llvm::ELF::EM_PPC64:
    return "POWER";
  case llvm::ELF::EM_RISCV:
    return "RISC-V";
  default:
    return ("machine " + llvm::Twine(Machine)).str();
  }
}

namespace {

/// One examination: each step adds findings and says whether the next makes
/// sense.
class Examiner {
public:
  Examiner(pid_t Pid, llvm::StringRef AgentVersion)
      : Pid(Pid), AgentVersion(AgentVersion) {}

  Preflight run() {
    if (checkProcess() && checkPermission() && checkProgram() &&
        checkLibraries())
      checkCompany();
    llvm::stable_sort(Out.Findings, [](const Finding &A, const Finding &B) {
      return A.Id < B.Id;
    });
    return std::move(Out);
  }

private:
  bool checkProcess();
  bool checkPermission();
  bool checkProgram();
  bool checkLibraries();
  bool refuseWithoutGlibc();
  bool findFunctions(const Memory &Memory, const LinkMap &Links);
  void checkAgent(const Memory &Memory);
  void checkCompany();

  /// False for a refusal.
  bool add(Check Id, const llvm::Twine &Reason,
           const llvm::Twine &Remedy = "") {
    Out.Findings.push_back({Id, Reason.str(), Remedy.str()});
    return checkLevel(Id) != Severity::Error;
  }

  pid_t Pid;
  llvm::StringRef AgentVersion;
  Preflight Out;
  std::string Who;
};

} // namespace

bool Examiner::checkProcess() {
  llvm::Expected<ProcessInfo> Info = ProcessInfo::read(Pid);
  if (!Info) {
    llvm::consumeError(Info.takeError());
    if (::kill(Pid, 0) != 0 && errno == EPERM)
      return add(Check::OtherUser,
                 "process " + llvm::Twine(int64_t(Pid)) +
                     " belongs to another user and is hidden from this one "
                     "(/proc is mounted with hidepid)",
                 "run culprit as that user or as root");
    return add(Check::NoProcess,
               "no process " + llvm::Twine(int64_t(Pid)),
               "list the processes that use a GPU: nvidia-smi (in a container "
               "its numbers are those of the host: then ps)");
  }
  Out.Process.Info = std::move(*Info);
  const ProcessStatus &S = Out.Process.Info.Status;
  Who = (S.Name + " (pid " + llvm::Twine(int64_t(Pid)) + ")").str();
  if (S.ThreadGroup != Pid)
    return add(Check::Thread,
               llvm::Twine(int64_t(Pid)) + " is a thread of " +
                   describe(S.ThreadGroup),
               "attach to " + llvm::Twine(int64_t(S.ThreadGroup)));
  if (Pid == ::getpid())
    return add(Check::Itself, "culprit cannot attach to itself",
               "give the number of the program that uses the GPU");
  if (S.State == 'Z' || S.State == 'X')
    return add(Check::Zombie,
               Who + " has ended; only its entry waits for its parent",
               FromStart);
  if (!S.HasMemory)
    return add(Check::KernelThread,
               Who + " is a thread of the kernel, not a program",
               "list the processes that use a GPU: nvidia-smi");
  if (S.TracerPid != 0)
    return add(Check::Traced,
               Who + " is traced by " + describe(S.TracerPid),
               "detach that first; a process has one tracer");
  if (S.State == 'T')
    return add(Check::StoppedProcess, Who + " is stopped",
               "let it go on: kill -CONT " + llvm::Twine(int64_t(Pid)));
  llvm::StringRef Program =
      llvm::StringRef(Out.Process.Info.Executable).rsplit('/').second;
  if (Program == "runsc" || llvm::StringRef(S.Name).starts_with("runsc") ||
      isGvisorKernel())
    return add(Check::Gvisor,
               Who + " is in a gVisor sandbox, whose kernel has no full ptrace",
               UseRecord);
  return true;
}

bool Examiner::checkPermission() {
  // The kernel's own answer, with its rules of users, of yama and of security
  // modules: opening this needs the right to attach and does nothing else.
  Descriptor Probe(
      ::open(procPath(Pid, "mem").c_str(), O_RDONLY | O_CLOEXEC));
  int Errno = errno;
  const ProcessInfo &Info = Out.Process.Info;
  if (!Probe) {
    if (Errno == ENOENT || Errno == ESRCH)
      return add(Check::NoProcess, Who + " has just ended", FromStart);
    Out.Findings.push_back(whyNotPermitted(Info, ownStatus(), yamaScope(),
                                           !containerName().empty()));
    return false;
  }
  if (Info.Status.Seccomp == 1)
    return add(Check::SeccompStrict,
               Who + " is in strict seccomp mode and may only read and write",
               UseRecord);
  if (Info.Status.Seccomp == 2)
    add(Check::SeccompFilter,
        Who + " has a filter of system calls (seccomp); loading a library "
              "needs openat, mmap, mprotect, rt_sigreturn and clone",
        "if the process ends when culprit attaches, allow them or start it by "
        "`culprit record`");
  if (Info.Status.ShadowStack)
    add(Check::ShadowStack,
        Who + " has a shadow stack; one thread stays under trace until the "
              "agent is loaded");
  return true;
}

bool Examiner::checkProgram() {
  const FileKind &Kind = Out.Process.Info.Kind;
  if (!Kind.IsElf)
    return true; // Not readable; its libraries will tell.
  if (Kind.Bits == 32)
    return add(Check::Bits32, Who + " is a 32-bit program, for which there is "
                                    "no CUDA profiling",
               "build it for 64 bits");
  if (hostMachine() && Kind.Machine != hostMachine())
    return add(Check::Architecture,
               Who + " is a program for " + machineName(Kind.Machine) +
                   ", culprit is one for " + machineName(hostMachine()),
               "use a culprit that is built for " + machineName(Kind.Machine));
  return true;
}

/// Why a program without glibc among its libraries has none.
bool Examiner::refuseWithoutGlibc() {
  const Target &T = Out.Process;
  // Where the loader's name is a link, only the program tells it.
  if (!T.Maps.images([](llvm::StringRef N) {
                return N.starts_with("ld-musl-") || N.starts_with("libc.musl-");
              }).empty() ||
      llvm::StringRef(T.Info.Kind.Interpreter).contains("/ld-musl-"))
    return add(Check::Musl,
               Who + " uses the C library musl; libcupti needs glibc",
               "run it in an image with glibc (Debian, Ubuntu, Red Hat)");
  if (T.Info.Kind.IsElf && T.Info.Kind.Interpreter.empty())
    return add(Check::Static,
               Who + " is linked statically and can load no library",
               "link it dynamically; the CUDA runtime may stay static");
  return add(Check::NoGlibc, Who + " has no glibc among its libraries",
             UseRecord);
}

/// Where the process has the functions that it is to call.
bool Examiner::findFunctions(const Memory &Memory, const LinkMap &Links) {
  Target &T = Out.Process;
  auto Find = [&](auto Is, llvm::StringRef Name) -> uint64_t {
    for (const Mapping *M : T.Maps.images(Is)) {
      llvm::Expected<ElfImage> Image =
          ElfImage::open(Memory, M->Begin, M->name());
      if (!Image)
        llvm::consumeError(Image.takeError());
      else if (std::optional<ElfImage::Symbol> S = Image->find(Name))
        return S->Address;
    }
    return 0;
  };
  constexpr uint64_t Now = 2; // RTLD_NOW, RTLD_LOCAL
  T.DlopenFlags = Now;
  T.Dlopen = Find(isLibcName, "dlopen");
  T.Dlerror = Find(isLibcName, "dlerror");
  if (!T.Dlopen) {
    T.Dlopen = Find(isLibdlName, "dlopen");
    T.Dlerror = Find(isLibdlName, "dlerror");
  }
  if (!T.Dlopen) {
    // Before glibc 2.34, in a program that does not use libdl. Its flag says
    // that the call comes from outside libc.
    T.Dlopen = Find(isLibcName, "__libc_dlopen_mode");
    T.DlopenFlags = Now | 0x80000000;
  }
  if (!T.Dlopen)
    return add(Check::NoDlopen, Who + ": its libc has no dlopen", UseRecord);
  T.ErrnoLocation = Find(isLibcName, "__errno_location");
  T.MemfdCreate = Find(isLibcName, "memfd_create");
  T.Close = Find(isLibcName, "close");
  if (std::optional<ElfImage::Symbol> S = Links.find("malloc", T.Maps))
    T.Malloc = S->Address;
  return true;
}

bool Examiner::checkLibraries() {
  Target &T = Out.Process;
  llvm::Expected<ProcessMaps> Maps = ProcessMaps::read(Pid);
  if (!Maps) {
    llvm::consumeError(Maps.takeError());
    return add(Check::NoProcess, Who + " has just ended", FromStart);
  }
  T.Maps = std::move(*Maps);
  if (T.Maps.images(isLibcName).empty())
    return refuseWithoutGlibc();
  ProcessMemory Memory(Pid);
  llvm::Expected<LinkMap> Links = LinkMap::find(Memory, T.Maps);
  if (!Links) {
    llvm::consumeError(Links.takeError());
    return add(Check::NoDlopen, Who + " has no dynamic linker that tells its "
                                      "state",
               UseRecord);
  }
  T.Debug = Links->address();
  if (!findFunctions(Memory, *Links))
    return false;
  checkAgent(Memory);
  return !Out.isRefused();
}

bool isAgentName(llvm::StringRef Name) {
  Name.consume_front("memfd:"); // Where no folder could hold it.
  return Name == capture::AgentFile;
}

void Examiner::checkAgent(const Memory &Memory) {
  Target &T = Out.Process;
  for (const Mapping *M : T.Maps.images(isAgentName)) {
    llvm::Expected<ElfImage> Image =
        ElfImage::open(Memory, M->Begin, M->name());
    if (!Image) {
      llvm::consumeError(Image.takeError());
      continue;
    }
    std::optional<ElfImage::Symbol> Begin = Image->find(capture::BeginSymbol);
    std::optional<ElfImage::Symbol> Version =
        Image->find(capture::VersionSymbol);
    std::string Text =
        Version ? Memory.text(Version->Address, 64).value_or("") : "";
    if (!Begin || Text != AgentVersion) {
      add(Check::OtherAgent,
          Who + " has an agent of " +
              (Text.empty() ? "another culprit" : Text) + ", this is " +
              AgentVersion,
          "use that version, or start the process anew");
      return;
    }
    T.Agent = LoadedAgent{Text, Begin->Address};
    add(Check::AgentLoaded, Who + " has the agent already, from an earlier "
                                  "session or one that goes on");
    return;
  }
}

void Examiner::checkCompany() {
  Target &T = Out.Process;
  for (const Mapping &M : T.Maps.all()) {
    T.HasCuda |= M.name().starts_with("libcuda.so");
    if (T.Cupti.empty() && M.name().starts_with("libcupti.so"))
      T.Cupti = M.Path;
  }
  if (!T.HasCuda)
    add(Check::NoCuda, Who + " has not loaded libcuda; there is nothing to "
                             "record until it does",
        "culprit waits for that; to record it from its start: `culprit "
        "record`");
  llvm::append_range(
      Out.Findings,
      otherClients(T.Maps,
                   readSmallFile(procPath(Pid, "environ")).value_or("")));
}

Preflight examine(pid_t Pid, llvm::StringRef AgentVersion) {
  return Examiner(Pid, AgentVersion).run();
}

} // namespace culprit::attach
