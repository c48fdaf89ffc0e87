//===- ProcessMaps.cpp - What a process has mapped --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Attach/ProcessMaps.h"
#include "Attach/ProcFile.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>

namespace culprit::attach {

llvm::StringRef Mapping::name() const {
  return llvm::StringRef(Path).rsplit('/').second.empty()
             ? llvm::StringRef(Path)
             : llvm::StringRef(Path).rsplit('/').second;
}

/// The kernel writes a newline in a path as `\012`, and nothing else that way.
static std::string unescape(llvm::StringRef Path) {
  std::string Out;
  while (!Path.empty()) {
    if (Path.consume_front("\\012")) {
      Out += '\n';
      continue;
    }
    Out += Path.front();
    Path = Path.drop_front();
  }
  return Out;
}

/// `7f00-7f10 r-xp 00026000 fe:00 1234   /path with blanks (deleted)`
static bool parseLine(llvm::StringRef Line, Mapping &M) {
  if (Line.consumeInteger(16, M.Begin) || !Line.consume_front("-") ||
      Line.consumeInteger(16, M.End) || !Line.consume_front(" ") ||
      Line.size() < 5 || M.End <= M.Begin)
    return false;
  M.Readable = Line[0] == 'r';
  M.Writable = Line[1] == 'w';
  M.Executable = Line[2] == 'x';
  Line = Line.drop_front(4).ltrim(' ');
  if (Line.consumeInteger(16, M.Offset))
    return false;
  Line = Line.ltrim(' ');
  Line = Line.drop_until([](char C) { return C == ' '; }).ltrim(' ');
  if (Line.consumeInteger(10, M.Inode))
    return false;
  Line = Line.ltrim(' ');
  if (Line.starts_with("/") && Line.consume_back(" (deleted)"))
    M.Deleted = true;
  M.Path = unescape(Line);
  return true;
}

ProcessMaps ProcessMaps::parse(llvm::StringRef Text) {
  ProcessMaps Maps;
  while (!Text.empty()) {
    llvm::StringRef Line;
    std::tie(Line, Text) = Text.split('\n');
    Mapping M;
    if (parseLine(Line, M))
      Maps.Mappings.push_back(std::move(M));
  }
  // The kernel's order already; a parsed text may have another.
  llvm::stable_sort(Maps.Mappings, [](const Mapping &A, const Mapping &B) {
    return A.Begin < B.Begin;
  });
  return Maps;
}

llvm::Expected<ProcessMaps> ProcessMaps::read(pid_t Pid) {
  llvm::Expected<std::string> Text = readProcFile(Pid, "maps");
  if (!Text)
    return Text.takeError();
  return parse(*Text);
}

const Mapping *ProcessMaps::find(uint64_t Address) const {
  auto After = llvm::upper_bound(
      Mappings, Address,
      [](uint64_t A, const Mapping &M) { return A < M.Begin; });
  if (After == Mappings.begin())
    return nullptr;
  const Mapping &M = *std::prev(After);
  return M.contains(Address) ? &M : nullptr;
}

const Mapping *ProcessMaps::below(const Mapping &M) const {
  return M.Begin == 0 ? nullptr : find(M.Begin - 1);
}

/// `libc.so.6` or `libc-2.31.so`.
static bool isLibraryName(llvm::StringRef Name, llvm::StringRef Base,
                          llvm::StringRef Version) {
  if (!Name.consume_front(Base))
    return false;
  return Name == (".so." + Version).str() ||
         (Name.starts_with("-2.") && Name.ends_with(".so"));
}

bool isLibcName(llvm::StringRef Name) {
  return isLibraryName(Name, "libc", "6");
}
bool isLibpthreadName(llvm::StringRef Name) {
  return isLibraryName(Name, "libpthread", "0");
}
bool isLibdlName(llvm::StringRef Name) {
  return isLibraryName(Name, "libdl", "2");
}
bool isLoaderName(llvm::StringRef Name) {
  return (Name.starts_with("ld-linux") && Name.contains(".so")) ||
         (Name.starts_with("ld-2.") && Name.ends_with(".so")) ||
         Name == "ld64.so.1" || Name == "ld64.so.2";
}

} // namespace culprit::attach
