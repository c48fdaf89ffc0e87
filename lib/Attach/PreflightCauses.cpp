//===- PreflightCauses.cpp - Who is in the way ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Two questions of the preflight that are decided by facts alone: why tracing
/// is not permitted, and which other tool uses CUPTI.
///
//===----------------------------------------------------------------------===//

#include "Attach/Machine.h"
#include "Attach/Preflight.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

namespace culprit::attach {

Finding whyNotPermitted(const ProcessInfo &Info, const ProcessStatus &Own,
                        unsigned Yama, bool InContainer) {
  const ProcessStatus &S = Info.Status;
  std::string Who = (S.Name + " (pid " + llvm::Twine(int64_t(Info.Pid)) + ")")
                        .str();
  bool MayTrace = mayTraceAll(Own);
  auto IsOther = [&](uid_t Uid) { return Uid != Own.FileUid; };
  bool OtherUser =
      IsOther(S.RealUid) || IsOther(S.EffectiveUid) || IsOther(S.SavedUid);
  std::string InDocker = "in a container: docker run --cap-add SYS_PTRACE, or "
                         "in Kubernetes securityContext.capabilities.add: "
                         "[SYS_PTRACE]; or start the program by `culprit "
                         "record`";
  if (Yama == 3)
    return {Check::Yama,
            "kernel.yama.ptrace_scope is 3: no process may be traced until "
            "the next boot",
            "start the program by `culprit record`"};
  if (!MayTrace && OtherUser && Own.EffectiveUid != 0)
    return {Check::OtherUser,
            (Who + " belongs to user " + llvm::Twine(S.EffectiveUid) +
             ", culprit runs as user " + llvm::Twine(Own.EffectiveUid))
                .str(),
            "run culprit as that user or as root"};
  if (!MayTrace && Own.EffectiveUid == 0 && (OtherUser || Yama > 0))
    return {Check::NoCapability,
            "root has no CAP_SYS_PTRACE here, without which " + Who +
                " may not be traced",
            InDocker};
  if (!MayTrace && Yama > 0)
    return {Check::Yama,
            ("kernel.yama.ptrace_scope is " + llvm::Twine(Yama) +
             (Yama == 1 ? ": only a parent may trace " : ": only root may "
                                                         "trace ") +
             Who)
                .str(),
            "run culprit as root, or allow it: sysctl "
            "kernel.yama.ptrace_scope=0; or start the program by `culprit "
            "record`"};
  if (!MayTrace && (S.Permitted & ~Own.Permitted) != 0)
    return {Check::NoCapability,
            Who + " has capabilities that culprit has not",
            InContainer ? InDocker : "run culprit as root"};
  return {Check::NotPermitted,
          "the kernel does not allow " + Who + " to be traced" +
              (MayTrace ? ", though culprit has CAP_SYS_PTRACE"
                        : "; it may have turned that off (PR_SET_DUMPABLE)"),
          MayTrace      ? "it may belong to whoever started this container or "
                          "sandbox: attach from outside of it; else see "
                          "whether a security module forbids it (dmesg, "
                          "ausearch -m avc)"
          : InContainer ? InDocker
                        : "run culprit as root"};
}

namespace {
struct Client {
  llvm::StringLiteral Prefix; ///< Of a library's name.
  llvm::StringLiteral Tool;
  llvm::StringLiteral Remedy;
};
} // namespace

static constexpr char EndIt[] =
    "CUPTI serves one tool at a time: start the program without it";
static constexpr char BetweenProfiles[] =
    "CUPTI serves one tool at a time: do not attach while torch.profiler "
    "records, nor for its first profile, after which it would record no GPU "
    "events";

static constexpr Client Clients[] = {
    {"libToolsInjection", "Nsight Systems (nsys)", EndIt},
    {"libcuda-injection", "Nsight Compute (ncu)", EndIt},
    {"libTreeLauncherTargetInjection", "Nsight Compute (ncu)", EndIt},
    {"libInterceptorInjectionTarget", "Nsight Compute (ncu)", EndIt},
    {"libsanitizer-collection", "compute-sanitizer", EndIt},
    {"libsanitizer-public", "compute-sanitizer", EndIt},
    {"libcudadebugger", "cuda-gdb", EndIt},
    {"libparcagpucupti", "Parca GPU", EndIt},
    {"libxpu_timer", "DLRover xpu_timer", EndIt},
    {"libkineto", "kineto (torch.profiler)", BetweenProfiles},
    {"libtorch_cuda", "kineto (torch.profiler)", BetweenProfiles},
    {"libvt-cupti", "VampirTrace", EndIt},
    {"libscorep_adapter_cuda", "Score-P", EndIt},
    {"libtau-cupti", "TAU", EndIt},
};

std::vector<Finding> otherClients(const ProcessMaps &Maps,
                                  llvm::StringRef Environment) {
  std::vector<Finding> Found;
  llvm::StringSet<> Told;
  for (const Client &C : Clients)
    for (const Mapping *M : Maps.images([&](llvm::StringRef Name) {
           return Name.starts_with(C.Prefix);
         }))
      if (Told.insert(C.Tool).second)
        Found.push_back({Check::OtherClient,
                         (C.Tool + " may be using CUPTI in the process: " +
                          M->Path)
                             .str(),
                         C.Remedy.str()});
  while (!Environment.empty()) {
    llvm::StringRef Entry;
    std::tie(Entry, Environment) = Environment.split('\0');
    if (!Entry.consume_front("CUDA_INJECTION64_PATH=") || Entry.empty())
      continue;
    llvm::StringRef Name = Entry.rsplit('/').second.empty()
                               ? Entry
                               : Entry.rsplit('/').second;
    bool Known = Name.starts_with("libculprit-agent") ||
                 llvm::any_of(Clients, [&](const Client &C) {
                   return Name.starts_with(C.Prefix) && Told.contains(C.Tool);
                 });
    if (!Known)
      Found.push_back({Check::OtherClient,
                       ("CUDA_INJECTION64_PATH of the process names " + Entry +
                        ", which may be using CUPTI")
                           .str(),
                       EndIt});
  }
  return Found;
}

} // namespace culprit::attach
