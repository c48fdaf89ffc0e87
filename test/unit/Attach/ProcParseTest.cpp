//===- ProcParseTest.cpp - What the kernel writes in /proc ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Attach/ProcessInfo.h"
#include "Attach/ProcessMaps.h"
#include "Attach/ThreadState.h"
#include "gtest/gtest.h"
#include <elf.h>
#include <unistd.h>

using namespace culprit;
using namespace culprit::attach;

TEST(ProcessMapsTest, Lines) {
  ProcessMaps Maps = ProcessMaps::parse(
      "7f0000001000-7f0000003000 r-xp 00026000 fe:00 1234      "
      "/usr/lib/libc.so.6\n"
      "7f0000000000-7f0000001000 r--p 00000000 fe:00 1234      "
      "/usr/lib/libc.so.6\n"
      "7f0000003000-7f0000005000 rw-p 00000000 00:00 0 \n"
      "not a line\n"
      "7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0         [stack]\n"
      "7f0000006000-7f0000007000 r--p 00000000 fe:00 99        "
      "/tmp/with blank\\012and end (deleted)\n");
  ASSERT_EQ(Maps.all().size(), 5u);
  EXPECT_EQ(Maps.all()[0].Offset, 0u);
  const Mapping *Text = Maps.find(0x7f0000001000);
  ASSERT_TRUE(Text);
  EXPECT_TRUE(Text->Executable && Text->Readable && !Text->Writable);
  EXPECT_EQ(Text->Offset, 0x26000u);
  EXPECT_EQ(Text->Inode, 1234u);
  EXPECT_EQ(Text->name(), "libc.so.6");
  EXPECT_EQ(Maps.below(*Text), &Maps.all()[0]);
  EXPECT_EQ(Maps.find(0x7f0000005000), nullptr);
  EXPECT_EQ(Maps.find(0), nullptr);
  const Mapping *Gone = Maps.find(0x7f0000006fff);
  ASSERT_TRUE(Gone);
  EXPECT_TRUE(Gone->Deleted);
  EXPECT_EQ(Gone->Path, "/tmp/with blank\nand end");
  EXPECT_EQ(Maps.images(isLibcName).size(), 1u);
  EXPECT_FALSE(Maps.find(0x7ffd00000000)->isFile());
}

TEST(ProcessMapsTest, LibraryNames) {
  EXPECT_TRUE(isLibcName("libc.so.6"));
  EXPECT_TRUE(isLibcName("libc-2.31.so"));
  EXPECT_FALSE(isLibcName("libc++.so.1"));
  EXPECT_FALSE(isLibcName("libcuda.so.1"));
  EXPECT_FALSE(isLibcName("libc.musl-x86_64.so.1"));
  EXPECT_TRUE(isLibpthreadName("libpthread-2.31.so"));
  EXPECT_TRUE(isLoaderName("ld-linux-x86-64.so.2"));
  EXPECT_TRUE(isLoaderName("ld-2.31.so"));
  EXPECT_FALSE(isLoaderName("ld-musl-x86_64.so.1"));
}

TEST(SystemCallTest, Lines) {
  std::optional<SystemCall> Call = SystemCall::parse(
      "7 0x7ffe0 0x1 0xffffffff 0x0 0x8 0x5 0x7ffe1234 0x7f0000001234\n");
  ASSERT_TRUE(Call);
  EXPECT_EQ(Call->Number, 7);
  EXPECT_EQ(Call->Arguments[2], 0xffffffffu);
  EXPECT_EQ(Call->StackPointer, 0x7ffe1234u);
  EXPECT_EQ(Call->Pc, 0x7f0000001234u);
  EXPECT_FALSE(SystemCall::parse("running\n"));
  EXPECT_FALSE(SystemCall::parse("-1 0x7ffe 0x7f00\n"));
  EXPECT_FALSE(SystemCall::parse("7 0x7ffe0 0x1\n"));
  EXPECT_FALSE(SystemCall::parse(""));
}

TEST(ProcessStatusTest, Fields) {
  ProcessStatus S = ProcessStatus::parse("Name:\tpy thon\n"
                                         "State:\tS (sleeping)\n"
                                         "Tgid:\t100\n"
                                         "TracerPid:\t7\n"
                                         "Uid:\t1\t2\t3\t4\n"
                                         "Gid:\t5\t6\t7\t8\n"
                                         "NStgid:\t100\t1\n"
                                         "VmSize:\t   10 kB\n"
                                         "Threads:\t12\n"
                                         "SigCgt:\t0000000180000002\n"
                                         "CapPrm:\t00000000a80425fb\n"
                                         "CapEff:\t0000000000080000\n"
                                         "Seccomp:\t2\n"
                                         "x86_Thread_features:\tshstk \n");
  EXPECT_EQ(S.Name, "py thon");
  EXPECT_EQ(S.State, 'S');
  EXPECT_EQ(S.ThreadGroup, 100);
  EXPECT_EQ(S.TracerPid, 7);
  EXPECT_EQ(S.RealUid, 1u);
  EXPECT_EQ(S.FileUid, 4u);
  EXPECT_EQ(S.FileGid, 8u);
  EXPECT_EQ(S.InnerPid, 1);
  EXPECT_EQ(S.Threads, 12u);
  EXPECT_EQ(S.Caught, 0x180000002u);
  EXPECT_EQ(S.Effective, 0x80000u);
  EXPECT_EQ(S.Seccomp, 2u);
  EXPECT_TRUE(S.HasMemory);
  EXPECT_TRUE(S.ShadowStack);
  EXPECT_FALSE(ProcessStatus::parse("Name:\tkthreadd\n").HasMemory);
  EXPECT_EQ(ProcessStatus::parse("Tgid:\t5\nNStgid:\t5\n").InnerPid, 5);
  // A terminal must not obey a name: ESC, BEL, DEL; letters of others may stay.
  EXPECT_EQ(ProcessStatus::parse("Name:\ta\x1b[31m\x07\x7f\xc3\xa9\n").Name,
            "a\\x1b[31m\\x07\\x7f\xc3\xa9");
}

TEST(FileKindTest, Headers) {
  std::string File(256, '\0');
  Elf64_Ehdr H = {};
  memcpy(H.e_ident, ELFMAG, SELFMAG);
  H.e_ident[EI_CLASS] = ELFCLASS64;
  H.e_ident[EI_DATA] = ELFDATA2LSB;
  H.e_machine = EM_AARCH64;
  H.e_phoff = 64;
  H.e_phnum = 1;
  Elf64_Phdr P = {};
  P.p_type = PT_INTERP;
  P.p_offset = 200;
  P.p_filesz = 8;
  memcpy(&File[0], &H, sizeof H);
  memcpy(&File[64], &P, sizeof P);
  memcpy(&File[200], "/lib/ld\0", 8);
  FileKind Kind = FileKind::parse(File);
  EXPECT_TRUE(Kind.IsElf);
  EXPECT_EQ(Kind.Bits, 64u);
  EXPECT_EQ(Kind.Machine, EM_AARCH64);
  EXPECT_EQ(Kind.Interpreter, "/lib/ld");
  File[EI_CLASS] = ELFCLASS32;
  EXPECT_EQ(FileKind::parse(File).Bits, 32u);
  EXPECT_FALSE(FileKind::parse("#!/bin/sh\n").IsElf);
  // Cut anywhere it is read without going beyond.
  File[EI_CLASS] = ELFCLASS64;
  for (size_t Size = 0; Size < File.size(); ++Size)
    FileKind::parse(llvm::StringRef(File).take_front(Size));
}

TEST(ProcessInfoTest, Ourselves) {
  llvm::Expected<ProcessInfo> Info = ProcessInfo::read(getpid());
  ASSERT_TRUE(bool(Info));
  EXPECT_EQ(Info->Status.ThreadGroup, getpid());
  EXPECT_EQ(Info->Status.EffectiveUid, geteuid());
  EXPECT_GT(Info->StartTime, 0u);
  EXPECT_EQ(Info->Kind.Bits, sizeof(void *) * 8);
  EXPECT_FALSE(Info->OwnNamespaces);
  llvm::Expected<ProcessInfo> None = ProcessInfo::read(0x3fffffff);
  EXPECT_FALSE(bool(None));
  llvm::consumeError(None.takeError());
}
