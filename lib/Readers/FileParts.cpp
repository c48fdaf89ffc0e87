//===- FileParts.cpp --------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/FileParts.h"
#include "Readers/Msprobe.h"
#include "Readers/ShardIndex.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include <set>

using namespace llvm;

namespace culprit {

/// Whether the file at \p Path, named like a dump of msprobe, is one.
static bool isDump(StringRef Path) {
  Expected<std::unique_ptr<InputFile>> File = InputFile::open(Path);
  if (!File) {
    consumeError(File.takeError());
    return false;
  }
  return isMsprobeDump((*File)->head());
}

std::vector<std::string> withParts(std::vector<std::string> Files) {
  StringSet<> DataFolders;
  std::set<sys::fs::UniqueID> Given;
  bool Any = false;
  for (const std::string &File : Files) {
    StringRef Name = sys::path::filename(File);
    if (Name == "dump.json" && isDump(File)) {
      DataFolders.insert(msprobeDataFolder(File));
      Any = true;
    }
    Any |= Name.ends_with(".index.json");
  }
  if (!Any)
    return Files;
  for (const std::string &File : Files) {
    sys::fs::UniqueID Id;
    if (!sys::fs::getUniqueID(File, Id))
      Given.insert(Id);
  }
  std::vector<std::string> Out;
  for (std::string &File : Files) {
    if (DataFolders.contains(sys::path::parent_path(File)))
      continue;
    const bool Index =
        StringRef(sys::path::filename(File)).ends_with(".index.json");
    Out.push_back(std::move(File));
    if (!Index)
      continue;
    for (std::string &Shard : shardsOf(Out.back())) {
      sys::fs::UniqueID Id;
      if (!sys::fs::getUniqueID(Shard, Id) && Given.insert(Id).second)
        Out.push_back(std::move(Shard));
    }
  }
  return Out;
}

} // namespace culprit
