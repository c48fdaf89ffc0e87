//===- AddEntryFile.h - Replaces a file, all or nothing ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// A log is somebody's work: a reader sees the old one or the new one, a
/// writer that dies leaves the old one, and two writers take turns.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_KB_ADDENTRYFILE_H
#define CULPRIT_KB_ADDENTRYFILE_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <string>

namespace culprit {

/// Gives the content of \p Path, empty when there is no such file, to
/// \p Change and puts what it returns in its place: written beside it, flushed
/// to the disk, renamed. Symbolic links are followed and kept, so are the
/// permissions. \p Change is called again when somebody else wrote the file
/// meanwhile without taking the lock, as editors do. When it fails, or returns
/// the same content, nothing is written.
llvm::Error updateFile(
    llvm::StringRef Path,
    llvm::function_ref<llvm::Expected<std::string>(llvm::StringRef Old)>
        Change);

} // namespace culprit

#endif // CULPRIT_KB_ADDENTRYFILE_H
