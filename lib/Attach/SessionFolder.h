//===- SessionFolder.h - A folder that both processes see -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Where the agent's library and the control socket of a session lie. The
/// process may have other mounts, another root and another user than culprit:
/// the folder is made inside the process's root and belongs to its user, and
/// has two names. Everything is done relative to open folders: a symbolic link
/// in the process's root must not lead into ours.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_ATTACH_SESSIONFOLDER_H
#define CULPRIT_ATTACH_SESSIONFOLDER_H

#include "Attach/ProcFile.h"
#include "Attach/ProcessInfo.h"

namespace culprit::attach {

class SessionFolder {
public:
  /// Makes "culprit-XXXXXX" in /tmp, /dev/shm or the working directory of the
  /// process: the first that can be written and from which a library can be
  /// loaded, else the first that can be written. Removes what culprits that
  /// were killed left there.
  static llvm::Expected<SessionFolder> create(const ProcessInfo &Info);
  /// For `record`: in the folder \p Parent of culprit itself.
  static llvm::Expected<SessionFolder> createHere(llvm::StringRef Parent);

  SessionFolder(SessionFolder &&) = default;
  SessionFolder &operator=(SessionFolder &&) = delete;
  /// Removes the folder and the files in it that are ours.
  ~SessionFolder();

  /// As the process sees it.
  const std::string &path() const { return Path; }
  int descriptor() const { return Folder.get(); }
  /// Can a library be loaded from it? Not where it is mounted noexec.
  bool mayHoldCode() const { return HoldsCode; }

  /// Copies the agent's library \p From into the folder.
  llvm::Error addAgent(llvm::StringRef From);

  /// A socket that listens on "control" in the folder.
  llvm::Expected<Descriptor> listen();

  void remove();

private:
  SessionFolder() = default;
  static llvm::Expected<SessionFolder>
  createIn(Descriptor Parent, llvm::StringRef ParentPath, uid_t User,
           gid_t Group, bool ForCode);

  Descriptor Parent, Folder;
  std::string Name; ///< In Parent.
  std::string Path;
  bool HoldsCode = true;
  uid_t User = 0;
  gid_t Group = 0;
};

/// Appends the file \p From to \p Out, which messages call \p To.
llvm::Error copyFile(llvm::StringRef From, int Out, llvm::StringRef To);

} // namespace culprit::attach

#endif // CULPRIT_ATTACH_SESSIONFOLDER_H
