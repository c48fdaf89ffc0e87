//===- DoctorChecks.cpp -----------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "DoctorChecks.h"
#include "Attach/Launch.h"
#include "Attach/Machine.h"
#include "Attach/ProcFile.h"
#include "Attach/ProcessInfo.h"
#include "CaptureOptions.h"
#include "Commands.h"
#include "Detectors.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Process.h"
#include <cerrno>
#include <csignal>
#include <gnu/libc-version.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace llvm;

namespace culprit {

static DoctorCheck driver(uint32_t Version) {
  if (Version == 0) {
    bool Module = sys::fs::exists("/proc/driver/nvidia/version");
    return {"driver", Health::Bad,
            Module ? "the NVIDIA kernel module is loaded, libcuda.so.1 is not "
                     "found"
                   : "no CUDA driver: libcuda.so.1 is not found",
            Module ? "in a container: docker run --gpus all, with "
                     "NVIDIA_DRIVER_CAPABILITIES=compute,utility"
                   : "install the NVIDIA driver; reading captures needs none"};
  }
  std::string Text = "driver for CUDA " + driverVersionText(Version);
  if (Version < 11000)
    return {"driver", Health::Bad, Text,
            "CUPTI 11.8, the oldest that is used, wants a driver of 11.0"};
  return {"driver", Health::Good, Text, ""};
}

static void addCupti(uint32_t Driver, std::vector<DoctorCheck> &Out) {
  bool AnyFits = false;
  for (const CuptiCandidate &C : findCupti()) {
    DoctorCheck D = {"cupti", Health::Good, "", ""};
    if (C.Version == 0) {
      D.State = Health::Note;
      D.What = C.Path + " cannot be loaded";
    } else {
      D.What = C.Path + ": CUPTI " + cuptiVersionText(C.Version);
      if (C.Version < 18) {
        D.State = Health::Note;
        D.What += ", which is too old";
      } else if (Driver && Driver < leastDriver(C.Version)) {
        D.State = Health::Note;
        D.What += ", newer than the driver";
      } else {
        AnyFits = true;
        D.What += Driver ? ", fits the driver" : "";
      }
    }
    Out.push_back(std::move(D));
  }
  if (!AnyFits)
    Out.push_back({"cupti", Health::Limited,
                   "no libcupti that fits; a process that brings its own, as "
                   "PyTorch does, can be recorded all the same",
                   "install one: pip install nvidia-cuda-cupti-cu12, then "
                   "--cupti PATH"});
}

/// Traces a child for a moment, which yama allows everybody below 3: the errno
/// that the kernel or a filter of system calls refuses it with, or 0.
static int traceChild() {
  pid_t Child = ::fork();
  if (Child == 0)
    for (;;)
      ::pause();
  if (Child < 0)
    return errno;
  int Errno =
      ::ptrace(PTRACE_SEIZE, Child, nullptr, nullptr) == 0 ? 0 : errno;
  ::kill(Child, SIGKILL);
  while (::waitpid(Child, nullptr, 0) < 0 && errno == EINTR)
    ;
  return Errno;
}

static DoctorCheck ptracePermission() {
  attach::ProcessStatus Own = attach::ownStatus();
  bool Capable = attach::mayTraceAll(Own);
  unsigned Yama = attach::yamaScope();
  std::string Who = ("user " + Twine(Own.EffectiveUid) +
                     (Capable ? " with" : " without") + " CAP_SYS_PTRACE, "
                     "kernel.yama.ptrace_scope " + Twine(Yama))
                        .str();
  if (Yama == 3)
    return {"ptrace", Health::Limited,
            Who + ": no process can be attached to until the next boot",
            "use culprit record"};
  if (int Errno = traceChild())
    return {"ptrace", Health::Limited,
            attach::withErrno(Who + ": not even a child can be traced", Errno),
            "a seccomp filter or a security module forbids ptrace: docker run "
            "--cap-add SYS_PTRACE; or use culprit record"};
  if (Capable)
    return {"ptrace", Health::Good,
            Who + ": processes of every user can be attached to, but for "
                  "those that a sandbox or a security module protects",
            ""};
  if (Yama > 0)
    return {"ptrace", Health::Limited,
            Who + ": running processes cannot be attached to",
            "run culprit attach as root, or sysctl "
            "kernel.yama.ptrace_scope=0, or use culprit record; in a "
            "container: --cap-add SYS_PTRACE"};
  return {"ptrace", Health::Good,
          Who + ": processes of this user can be attached to", ""};
}

static DoctorCheck container() {
  StringRef Where = attach::containerName();
  if (attach::isGvisorKernel())
    return {"container", Health::Limited,
            "gVisor, whose kernel has no full ptrace", "use culprit record"};
  if (Where.empty())
    return {"container", Health::Good, "not in a container that is known", ""};
  return {"container", Health::Note,
          ("in " + Where + ": only processes of this container can be seen")
              .str(),
          attach::mayTraceAll(attach::ownStatus())
              ? "for those of others attach from the host, which sees "
                       "into containers"
                     : "to attach from here: --cap-add SYS_PTRACE, in "
                       "Kubernetes securityContext.capabilities.add: "
                       "[SYS_PTRACE]; or attach from the host, which sees "
                       "into containers"};
}

/// "2.28" as numbers, to compare.
static std::pair<unsigned, unsigned> parts(StringRef Version) {
  unsigned Major = 0, Minor = 0;
  auto [A, B] = Version.split('.');
  (void)A.getAsInteger(10, Major);
  (void)B.split('.').first.getAsInteger(10, Minor);
  return {Major, Minor};
}

std::string neededGlibc(StringRef Path) {
  auto File = MemoryBuffer::getFile(Path);
  std::string Most;
  if (!File)
    return Most;
  StringRef Rest = (*File)->getBuffer();
  // Version names stand in the dynamic string table as plain text.
  for (size_t At; (At = Rest.find("GLIBC_")) != StringRef::npos;) {
    Rest = Rest.substr(At + 6);
    StringRef Version = Rest.take_while(
        [](char C) { return (C >= '0' && C <= '9') || C == '.'; });
    if (Version.contains('.') && parts(Most) < parts(Version))
      Most = Version.str();
  }
  return Most;
}

static DoctorCheck agent() {
  Expected<std::string> Path = findAgent();
  if (!Path) {
    Diagnostic D = toDiagnostics(Path.takeError()).front();
    return {"agent", Health::Bad, D.Message, D.Hint};
  }
  auto File = MemoryBuffer::getFile(*Path);
  if (!File || !(*File)->getBuffer().contains(agentVersion()))
    return {"agent", Health::Bad,
            *Path + " is not the agent of " + agentVersion(),
            "install culprit again; CULPRIT_AGENT may name an old one"};
  std::string Needs = neededGlibc(*Path), Has = gnu_get_libc_version();
  std::string What = *Path + ": needs GLIBC " + Needs + ", here is " + Has;
  if (parts(Has) < parts(Needs))
    return {"agent", Health::Bad, What,
            "use a culprit that was built for this machine"};
  return {"agent", Health::Good, What, ""};
}

static DoctorCheck hardwareCounters() {
  std::string Params =
      attach::readSmallFile("/proc/driver/nvidia/params").value_or("");
  bool Restricted = StringRef(Params).contains("RmProfilingAdminOnly: 1");
  return {"counters", Restricted ? Health::Note : Health::Good,
          Restricted ? "hardware counters are for root only "
                       "(NVreg_RestrictProfilingToAdminUsers); culprit uses "
                       "none and is not concerned"
                     : "hardware counters are not used; the driver's "
                       "restriction of them does not matter",
          ""};
}

static DoctorCheck injectionVariable() {
  for (StringRef Name : {attach::CudaInjection, attach::NvtxInjection}) {
    std::string Value = sys::Process::GetEnv(Name).value_or("");
    if (attach::isOtherTool(Value))
      return {"injection", Health::Limited,
              (Name + " names another tool: " + Value).str(),
              "culprit record refuses; unset it"};
  }
  return {"injection", Health::Good,
          "CUDA_INJECTION64_PATH and NVTX_INJECTION64_PATH are free for the "
          "agent",
          ""};
}

static DoctorCheck knowledge() {
  Expected<std::string> Home = homeFolder();
  if (!Home) {
    Diagnostic D = toDiagnostics(Home.takeError()).front();
    return {"knowledge", Health::Limited, D.Message, D.Hint};
  }
  if (!sys::fs::is_directory(*Home + "/plugins"))
    return {"knowledge", Health::Limited, *Home + " has no folder 'plugins'",
            "install culprit again; captures can be made, not diagnosed"};
  if (!sys::fs::exists(*Home + "/kb.sqlite"))
    return {"knowledge", Health::Note,
            "detectors and entries are at " + *Home +
                "; the store kb.sqlite is not, entries are parsed each time",
            "culprit kb build -o " + *Home + "/kb.sqlite"};
  LoadSettings Settings;
  Settings.Store = *Home + "/detectors.store";
  Expected<bool> Stored = isStored(*Home + "/plugins", Settings);
  if (!Stored) {
    Diagnostic D = toDiagnostics(Stored.takeError()).front();
    return {"knowledge", Health::Limited, D.Message, D.Hint};
  }
  if (!*Stored)
    return {"knowledge", Health::Note,
            "detectors and entries are at " + *Home + "; detectors.store " +
                (sys::fs::exists(Settings.Store) ? "does not fit them"
                                                 : "is missing") +
                ", detectors are compiled each time",
            "build or install culprit again; nothing else is amiss"};
  return {"knowledge", Health::Good,
          "detectors, entries and their stores are at " + *Home, ""};
}

std::vector<DoctorCheck> examineMachine() {
  std::vector<DoctorCheck> Out;
  uint32_t Driver = installedDriver();
  Out.push_back(driver(Driver));
  addCupti(Driver, Out);
  Out.push_back(agent());
  Out.push_back(ptracePermission());
  Out.push_back(container());
  Out.push_back(injectionVariable());
  Out.push_back(hardwareCounters());
  Out.push_back(knowledge());
  return Out;
}

} // namespace culprit
