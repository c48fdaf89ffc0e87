//===- ThreadState.cpp - What each thread is waiting for --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Attach/ThreadState.h"
#include "Attach/ProcFile.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include <dirent.h>

namespace culprit::attach {

std::optional<SystemCall> SystemCall::parse(llvm::StringRef Line) {
  SystemCall Call;
  Line = Line.trim();
  if (Line.consumeInteger(10, Call.Number) || Call.Number < 0)
    return std::nullopt;
  auto Hex = [&](uint64_t &To) {
    Line = Line.ltrim();
    return Line.consume_front("0x") && !Line.consumeInteger(16, To);
  };
  for (uint64_t &Argument : Call.Arguments)
    if (!Hex(Argument))
      return std::nullopt;
  if (!Hex(Call.StackPointer) || !Hex(Call.Pc))
    return std::nullopt;
  return Call;
}

std::optional<ThreadState> threadState(pid_t Pid, pid_t Tid) {
  std::string Folder =
      procPath(Pid, "task/" + llvm::Twine(int64_t(Tid)) + "/");
  std::optional<std::string> Line = readSmallFile(Folder + "syscall");
  if (!Line)
    return std::nullopt;
  ThreadState State;
  State.Tid = Tid;
  State.Call = SystemCall::parse(*Line);
  State.Name =
      llvm::StringRef(readSmallFile(Folder + "comm").value_or("")).trim().str();
  return State;
}

std::vector<ThreadState> threadsOf(pid_t Pid) {
  std::vector<ThreadState> Threads;
  DIR *Folder = ::opendir(procPath(Pid, "task").c_str());
  if (!Folder)
    return Threads;
  while (const dirent *Entry = ::readdir(Folder)) {
    pid_t Tid = 0;
    if (llvm::StringRef(Entry->d_name).getAsInteger(10, Tid))
      continue;
    if (std::optional<ThreadState> State = threadState(Pid, Tid))
      Threads.push_back(std::move(*State));
  }
  ::closedir(Folder);
  llvm::sort(Threads, [](const ThreadState &A, const ThreadState &B) {
    return A.Tid < B.Tid;
  });
  return Threads;
}

uint64_t cpuTicks(pid_t Pid, pid_t Tid) {
  std::optional<std::string> Stat = readSmallFile(
      procPath(Pid, "task/" + llvm::Twine(int64_t(Tid)) + "/stat"));
  if (!Stat)
    return 0;
  llvm::SmallVector<llvm::StringRef, 64> Fields;
  llvm::StringRef(*Stat).rsplit(')').second.trim().split(Fields, ' ');
  uint64_t User = 0, System = 0;
  if (Fields.size() > 12) {
    (void)Fields[11].getAsInteger(10, User);
    (void)Fields[12].getAsInteger(10, System);
  }
  return User + System;
}

} // namespace culprit::attach
