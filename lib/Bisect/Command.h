//===- Command.h - Running another program ----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Spawns a command and says how it ended.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_BISECT_COMMAND_H
#define CULPRIT_BISECT_COMMAND_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include <optional>
#include <string>

namespace culprit {

struct CommandResult {
  enum class End {
    Exited,      ///< With Status.
    Crashed,     ///< By a signal.
    TimedOut,
    Interrupted, ///< By the signals that people stop a program with.
    NotFound,    ///< There is no such program.
  };
  End Kind = End::Exited;
  int Status = 0;
  std::string Reason; ///< In words, where it did not exit.
};

struct CommandOptions {
  unsigned TimeoutSeconds = 0; ///< 0: none.
  /// Files for its output; none: that of this program.
  std::optional<std::string> Stdout, Stderr;
};

/// Runs \p Command, its first word looked up in PATH. An error only where it
/// could not be started though it is there.
llvm::Expected<CommandResult> runCommand(llvm::ArrayRef<std::string> Command,
                                         const CommandOptions &Options = {});

/// What `git` with \p Arguments prints, without the last line break. Fails
/// with what git said where it did not succeed.
llvm::Expected<std::string> gitOutput(llvm::ArrayRef<std::string> Arguments);

} // namespace culprit

#endif // CULPRIT_BISECT_COMMAND_H
