//===- Commands.h - One function a subcommand -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Every subcommand is a file Foo.cpp that defines its options and a function
/// here. main() finds it in Commands.def. Results go to stdout, everything
/// else to stderr.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_TOOL_COMMANDS_H
#define CULPRIT_TOOL_COMMANDS_H

#include "Support/Error.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/CommandLine.h"
#include <string>

namespace culprit {

enum class OutputFormat { Text, Json, Markdown, Html, Sarif };

/// Exit codes, also in `culprit help exit-codes`.
enum ExitCode : int {
  ExitDone = 0,        ///< The analysis is complete, whatever it found.
  ExitRefused = 1,     ///< --fail-on was reached, `kb check` refused, a golden
                       ///< check failed, a capture broke its promise, or a
                       ///< process could not be recorded.
  ExitBadUse = 2,      ///< Wrong usage, or an input that cannot be read.
  ExitInterrupted = 130,
};

#define COMMAND(NAME, FUNCTION, SUMMARY) int FUNCTION();
#include "Commands.def"

/// `culprit diagnose FILE...` with all options as they are without it.
int diagnoseFiles(llvm::ArrayRef<std::string> Files);

/// Prints \p E to stderr in the house form, with its notes; ExitBadUse.
int report(llvm::Error E);
/// The same for remarks that stopped nothing.
void report(llvm::ArrayRef<Diagnostic> Diagnostics);

/// Where the shipped `plugins` and `kb` lie: beside the program in
/// ../share/culprit. CULPRIT_HOME names another place.
llvm::Expected<std::string> homeFolder();

/// The version that outputs name; tests pin it by CULPRIT_FAKE_VERSION.
std::string versionString();

/// Columns of the terminal: COLUMNS, or 100.
unsigned outputWidth();

/// Writes what stdout holds and ends the process without destructors: a script
/// that hangs goes on in a thread of its own with what they would end.
[[noreturn]] void exitAtOnce(int Exit);

} // namespace culprit

#endif // CULPRIT_TOOL_COMMANDS_H
