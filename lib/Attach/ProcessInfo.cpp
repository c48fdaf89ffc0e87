//===- ProcessInfo.cpp - What /proc says of a process -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Attach/ProcessInfo.h"
#include "Attach/ProcFile.h"
#include "Support/Error.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/BinaryFormat/ELF.h"
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

using namespace llvm::ELF;

namespace culprit::attach {

/// The numbers of "1000\t1000\t1000\t1000" into \p To, as far as there are any.
static void ids(llvm::StringRef Text, std::initializer_list<uint32_t *> To) {
  for (uint32_t *Id : To) {
    Text = Text.ltrim();
    if (Text.consumeInteger(10, *Id))
      return;
  }
}

ProcessStatus ProcessStatus::parse(llvm::StringRef Text) {
  ProcessStatus S;
  while (!Text.empty()) {
    llvm::StringRef Line, Key, Value;
    std::tie(Line, Text) = Text.split('\n');
    std::tie(Key, Value) = Line.split(':');
    Value = Value.trim();
    if (Key == "Name")
      S.Name = printable(Value);
    else if (Key == "State" && !Value.empty())
      S.State = Value[0];
    else if (Key == "Tgid")
      (void)Value.getAsInteger(10, S.ThreadGroup);
    else if (Key == "TracerPid")
      (void)Value.getAsInteger(10, S.TracerPid);
    else if (Key == "Uid")
      ids(Value, {&S.RealUid, &S.EffectiveUid, &S.SavedUid, &S.FileUid});
    else if (Key == "Gid")
      ids(Value, {&S.RealGid, &S.EffectiveGid, &S.SavedGid, &S.FileGid});
    else if (Key == "NStgid")
      (void)Value.rsplit('\t').second.getAsInteger(10, S.InnerPid);
    else if (Key == "Threads")
      (void)Value.getAsInteger(10, S.Threads);
    else if (Key == "Seccomp")
      (void)Value.getAsInteger(10, S.Seccomp);
    else if (Key == "SigCgt")
      (void)Value.getAsInteger(16, S.Caught);
    else if (Key == "CapEff")
      (void)Value.getAsInteger(16, S.Effective);
    else if (Key == "CapPrm")
      (void)Value.getAsInteger(16, S.Permitted);
    else if (Key == "VmSize")
      S.HasMemory = true;
    else if (Key == "x86_Thread_features")
      S.ShadowStack = Value.contains("shstk");
  }
  // A single namespace has one column, without a tab.
  if (S.InnerPid == 0)
    S.InnerPid = S.ThreadGroup;
  return S;
}

template <typename Header, typename Segment>
static void readElf(llvm::StringRef Bytes, FileKind &Kind) {
  Header H;
  if (Bytes.size() < sizeof H)
    return;
  memcpy(&H, Bytes.data(), sizeof H);
  Kind.Machine = H.e_machine;
  for (unsigned I = 0; I < H.e_phnum; ++I) {
    Segment P;
    uint64_t At = uint64_t(H.e_phoff) + I * sizeof P;
    if (At > Bytes.size() || Bytes.size() - At < sizeof P)
      return;
    memcpy(&P, Bytes.data() + At, sizeof P);
    if (P.p_type == PT_INTERP && P.p_offset < Bytes.size())
      Kind.Interpreter =
          Bytes.substr(P.p_offset, P.p_filesz).split('\0').first.str();
  }
}

FileKind FileKind::parse(llvm::StringRef Bytes) {
  FileKind Kind;
  if (Bytes.size() < EI_NIDENT || !Bytes.starts_with(ElfMagic))
    return Kind;
  Kind.IsElf = true;
  Kind.Bits = Bytes[EI_CLASS] == ELFCLASS64 ? 64 : 32;
  if (Bytes[EI_DATA] != ELFDATA2LSB)
    return Kind;
  if (Kind.Bits == 64)
    readElf<Elf64_Ehdr, Elf64_Phdr>(Bytes, Kind);
  else
    readElf<Elf32_Ehdr, Elf32_Phdr>(Bytes, Kind);
  return Kind;
}

/// Field 22 of a stat line; the name in field 2 may hold blanks and brackets.
static uint64_t startTime(llvm::StringRef Stat) {
  llvm::SmallVector<llvm::StringRef, 64> Fields;
  Stat.rsplit(')').second.trim().split(Fields, ' ');
  uint64_t Time = 0;
  if (Fields.size() > 19)
    (void)Fields[19].getAsInteger(10, Time);
  return Time;
}

/// The first bytes of the file at \p Path.
static std::string firstBytes(const std::string &Path) {
  Descriptor Fd(::open(Path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string Bytes(Fd ? 65536 : 0, '\0');
  size_t Used = 0;
  while (Used < Bytes.size()) {
    ssize_t Got = ::read(Fd.get(), Bytes.data() + Used, Bytes.size() - Used);
    if (Got <= 0)
      break;
    Used += size_t(Got);
  }
  Bytes.resize(Used);
  return Bytes;
}

llvm::Expected<ProcessInfo> ProcessInfo::read(pid_t Pid) {
  ProcessInfo Info;
  Info.Pid = Pid;
  llvm::Expected<std::string> Status = readProcFile(Pid, "status");
  if (!Status)
    return Status.takeError();
  Info.Status = ProcessStatus::parse(*Status);
  if (std::optional<std::string> Stat = readSmallFile(procPath(Pid, "stat")))
    Info.StartTime = startTime(*Stat);
  if (std::optional<std::string> Path = readLink(procPath(Pid, "exe")))
    Info.Executable = *Path;
  Info.Kind = FileKind::parse(firstBytes(procPath(Pid, "exe")));
  for (const char *Space : {"ns/mnt", "ns/pid"}) {
    std::optional<std::string> Its = readLink(procPath(Pid, Space));
    std::optional<std::string> Ours = readLink(llvm::Twine("/proc/self/") +
                                               Space);
    if (Its && Ours && *Its != *Ours)
      Info.OwnNamespaces = true;
  }
  return Info;
}

ProcessStatus ownStatus() {
  return ProcessStatus::parse(
      readSmallFile("/proc/self/status").value_or(std::string()));
}

/// Is \p Name the last part of one of the first three words of \p Command,
/// whose words end with zero bytes?
static bool isCalled(llvm::StringRef Command, llvm::StringRef Name) {
  for (unsigned I = 0; I < 3 && !Command.empty(); ++I) {
    llvm::StringRef Word;
    std::tie(Word, Command) = Command.split('\0');
    if (Word.substr(Word.rfind('/') + 1) == Name)
      return true;
  }
  return false;
}

std::vector<Namesake> processesNamed(llvm::StringRef Name) {
  std::vector<Namesake> Found;
  DIR *Folder = Name.empty() ? nullptr : ::opendir("/proc");
  if (!Folder)
    return Found;
  while (const dirent *Entry = ::readdir(Folder)) {
    pid_t Pid = 0;
    if (llvm::StringRef(Entry->d_name).getAsInteger(10, Pid) ||
        Pid == ::getpid())
      continue;
    std::string Short = readSmallFile(procPath(Pid, "comm")).value_or("");
    std::string Command = readSmallFile(procPath(Pid, "cmdline")).value_or("");
    if (llvm::StringRef(Short).trim() != Name && !isCalled(Command, Name))
      continue;
    std::string Maps = readSmallFile(procPath(Pid, "maps")).value_or("");
    Found.push_back({Pid, llvm::StringRef(Maps).contains("/libcuda.so")});
  }
  ::closedir(Folder);
  llvm::sort(Found, [](const Namesake &A, const Namesake &B) {
    return A.HasCuda != B.HasCuda ? A.HasCuda : A.Pid > B.Pid;
  });
  return Found;
}

std::string describe(pid_t Pid) {
  ProcessStatus S = ProcessStatus::parse(
      readSmallFile(procPath(Pid, "status")).value_or(std::string()));
  if (S.Name.empty())
    return ("pid " + llvm::Twine(int64_t(Pid))).str();
  return (S.Name + " (pid " + llvm::Twine(int64_t(Pid)) + ")").str();
}

} // namespace culprit::attach
