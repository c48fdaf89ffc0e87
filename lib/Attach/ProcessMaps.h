//===- ProcessMaps.h - What a process has mapped ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// /proc/PID/maps as a list ordered by address. A snapshot: the process goes on
/// mapping and unmapping, so a user either checks again at the place of use or
/// looks only at what stays (libc, the dynamic linker, stacks of parked
/// threads).
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_ATTACH_PROCESSMAPS_H
#define CULPRIT_ATTACH_PROCESSMAPS_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <string>
#include <sys/types.h>
#include <vector>

namespace culprit::attach {

struct Mapping {
  uint64_t Begin = 0, End = 0;
  uint64_t Offset = 0; ///< In the file, bytes.
  bool Readable = false, Writable = false, Executable = false;
  uint64_t Inode = 0;
  std::string Path;     ///< As the kernel tells it, `\012` made a newline
                        ///< again; "[stack]" and the like; empty is anonymous.
  bool Deleted = false; ///< The file is gone; the mark is taken off Path.

  bool isFile() const { return !Path.empty() && Path.front() == '/'; }
  bool contains(uint64_t Address) const {
    return Begin <= Address && Address < End;
  }
  /// The last part of the path.
  llvm::StringRef name() const;
};

class ProcessMaps {
public:
  /// Fails when the process is gone or may not be looked at.
  static llvm::Expected<ProcessMaps> read(pid_t Pid);

  /// Lines that are not of the kernel's form are left out.
  static ProcessMaps parse(llvm::StringRef Text);

  llvm::ArrayRef<Mapping> all() const { return Mappings; }

  /// The mapping that holds \p Address, or null.
  const Mapping *find(uint64_t Address) const;

  /// The mapping just before \p M with no gap between, or null.
  const Mapping *below(const Mapping &M) const;

  /// The mappings of begin-of-file (offset 0), one for each mapped file of
  /// whose name \p Wanted is true.
  template <typename Predicate>
  std::vector<const Mapping *> images(Predicate Wanted) const {
    std::vector<const Mapping *> Found;
    for (const Mapping &M : Mappings)
      if (M.isFile() && M.Offset == 0 && Wanted(M.name()))
        Found.push_back(&M);
    return Found;
  }

private:
  std::vector<Mapping> Mappings;
};

/// Is \p Name, the last part of a path, glibc's libc, or the libpthread that
/// held its blocking calls before glibc 2.34?
bool isLibcName(llvm::StringRef Name);
bool isLibpthreadName(llvm::StringRef Name);
bool isLibdlName(llvm::StringRef Name);
/// glibc's dynamic linker.
bool isLoaderName(llvm::StringRef Name);

} // namespace culprit::attach

#endif // CULPRIT_ATTACH_PROCESSMAPS_H
