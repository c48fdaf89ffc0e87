//===- PreflightTest.cpp - Reasons and remedies -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Attach/Preflight.h"
#include "gtest/gtest.h"
#include <csignal>
#include <fcntl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace culprit;
using namespace culprit::attach;

namespace {
/// A child that waits for its end.
struct Child {
  Child() : Pid(fork()) {
    if (Pid == 0)
      for (;;)
        pause();
  }
  ~Child() {
    kill(Pid, SIGKILL);
    waitpid(Pid, nullptr, 0);
  }
  pid_t Pid;
};
} // namespace

static std::vector<Check> checksOf(const Preflight &P) {
  std::vector<Check> Ids;
  for (const Finding &F : P.Findings)
    Ids.push_back(F.Id);
  return Ids;
}

TEST(PreflightTest, AChildCanBeAttachedTo) {
  Child C;
  Preflight P = examine(C.Pid, "culprit test");
  EXPECT_FALSE(P.isRefused());
  EXPECT_EQ(checksOf(P), std::vector<Check>{Check::NoCuda});
  EXPECT_NE(P.Process.Dlopen, 0u);
  EXPECT_NE(P.Process.Debug, 0u);
  EXPECT_NE(P.Process.ErrnoLocation, 0u);
  EXPECT_NE(P.Process.Malloc, 0u);
  EXPECT_FALSE(P.Process.Agent);
  EXPECT_FALSE(bool(P.refusal()));
}

TEST(PreflightTest, StatesThatAreRefused) {
  EXPECT_EQ(checksOf(examine(getpid(), "")), std::vector<Check>{Check::Itself});
  EXPECT_EQ(checksOf(examine(0x3fffffff, "")),
            std::vector<Check>{Check::NoProcess});
  Child C;
  kill(C.Pid, SIGSTOP);
  waitpid(C.Pid, nullptr, WUNTRACED);
  EXPECT_EQ(checksOf(examine(C.Pid, "")),
            std::vector<Check>{Check::StoppedProcess});
  kill(C.Pid, SIGCONT);
  ASSERT_EQ(ptrace(PTRACE_SEIZE, C.Pid, 0, 0), 0);
  Preflight Traced = examine(C.Pid, "");
  EXPECT_EQ(checksOf(Traced), std::vector<Check>{Check::Traced});
  EXPECT_NE(Traced.Findings[0].Reason.find(std::to_string(getpid())),
            std::string::npos);
  kill(C.Pid, SIGKILL);
  siginfo_t Info;
  waitid(P_PID, id_t(C.Pid), &Info, WEXITED | WNOWAIT);
  EXPECT_EQ(checksOf(examine(C.Pid, "")), std::vector<Check>{Check::Zombie});
}

TEST(PreflightTest, WhyNotPermitted) {
  ProcessInfo Info;
  Info.Pid = 5;
  Info.Status.Name = "train";
  Info.Status.RealUid = Info.Status.EffectiveUid = Info.Status.SavedUid = 1000;
  ProcessStatus User, Root, OtherUser;
  User.RealUid = User.EffectiveUid = User.FileUid = 1000;
  OtherUser.RealUid = OtherUser.EffectiveUid = OtherUser.FileUid = 1001;
  Root.Effective = 1u << 19;
  ProcessStatus WeakRoot; // Of a container without the capability.
  auto Why = [&](const ProcessStatus &Own, unsigned Yama, bool Inside = false) {
    return whyNotPermitted(Info, Own, Yama, Inside);
  };
  EXPECT_EQ(Why(OtherUser, 1).Id, Check::OtherUser);
  EXPECT_EQ(Why(User, 1).Id, Check::Yama);
  EXPECT_NE(Why(User, 1).Reason.find("ptrace_scope is 1"), std::string::npos);
  EXPECT_NE(Why(User, 1).Remedy.find("sysctl"), std::string::npos);
  EXPECT_EQ(Why(Root, 3).Id, Check::Yama);
  EXPECT_EQ(Why(WeakRoot, 0).Id, Check::NoCapability);
  EXPECT_NE(Why(WeakRoot, 0).Remedy.find("--cap-add SYS_PTRACE"),
            std::string::npos);
  EXPECT_EQ(Why(User, 0).Id, Check::NotPermitted);
  EXPECT_EQ(Why(Root, 0).Id, Check::NotPermitted);
  // Who has the capability is not told to get it, in a container neither.
  EXPECT_EQ(Why(Root, 0, true).Remedy.find("--cap-add"), std::string::npos);
  Info.Status.Permitted = 1;
  EXPECT_EQ(Why(User, 0).Id, Check::NoCapability);
}

TEST(PreflightTest, OtherClients) {
  auto Of = [](const char *Library, llvm::StringRef Environment = "") {
    std::string Text = "1000-2000 r--p 00000000 fe:00 1 ";
    return otherClients(ProcessMaps::parse(Text + Library + "\n"), Environment);
  };
  EXPECT_TRUE(Of("/usr/lib/libc.so.6").empty());
  // CUPTI itself in a process says nothing: torch links to it.
  EXPECT_TRUE(Of("/usr/lib/libcupti.so.13").empty());
  std::vector<Finding> Found = Of("/opt/nsys/libToolsInjection64.so");
  ASSERT_EQ(Found.size(), 1u);
  EXPECT_EQ(Found[0].Id, Check::OtherClient);
  EXPECT_NE(Found[0].Reason.find("nsys"), std::string::npos);
  EXPECT_NE(Of("/x/libsanitizer-collection.so")[0].Reason.find("sanitizer"),
            std::string::npos);
  EXPECT_NE(Of("/x/libtorch_cuda.so")[0].Remedy.find("torch.profiler"),
            std::string::npos);
  using namespace llvm;
  StringRef Theirs("A=1\0CUDA_INJECTION64_PATH=/x/libmine.so\0B=2", 44);
  Found = Of("/usr/lib/libc.so.6", Theirs);
  ASSERT_EQ(Found.size(), 1u);
  EXPECT_NE(Found[0].Reason.find("/x/libmine.so"), std::string::npos);
  EXPECT_TRUE(Of("/usr/lib/libc.so.6",
                 "CUDA_INJECTION64_PATH=/c/libculprit-agent.so")
                  .empty());
}

TEST(PreflightTest, NameOfTheAgent) {
  EXPECT_TRUE(isAgentName("libculprit-agent.so"));
  EXPECT_TRUE(isAgentName("memfd:libculprit-agent.so"));
  EXPECT_FALSE(isAgentName("memfd:other"));
  EXPECT_FALSE(isAgentName("libculprit-agent.so.1"));
}

TEST(PreflightTest, ProcessesByName) {
  Child C; // Of this program's name.
  std::string Name = ownStatus().Name;
  auto Has = [&](pid_t Pid) {
    for (const Namesake &N : processesNamed(Name))
      if (N.Pid == Pid)
        return !N.HasCuda;
    return false;
  };
  EXPECT_TRUE(Has(C.Pid));
  EXPECT_FALSE(Has(getpid()));
  EXPECT_TRUE(processesNamed("").empty());
  EXPECT_TRUE(processesNamed("no such program at all").empty());
}

TEST(PreflightTest, EveryCheckHasAName) {
#define ATTACH_CHECK(Id, Name, Level)                                          \
  EXPECT_EQ(checkName(Check::Id), Name);                                       \
  EXPECT_EQ(checkLevel(Check::Id), Severity::Level);
#include "Attach/Checks.def"
}
