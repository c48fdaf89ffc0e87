//===- Command.cpp ----------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Bisect/Command.h"
#include "Support/Error.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Errno.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"
#include <cerrno>
#include <csignal>
#include <cstring>

using namespace llvm;

namespace culprit {

/// LLVM names the signal that ended a child in words alone.
static bool isInterrupt(StringRef Reason) {
  for (int Signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT})
    if (Reason.starts_with(strsignal(Signal)))
      return true;
  return false;
}

Expected<CommandResult> runCommand(ArrayRef<std::string> Command,
                                   const CommandOptions &Options) {
  CommandResult Out;
  std::string Program = Command[0];
  if (StringRef(Program).contains('/')) {
    if (!sys::fs::can_execute(Program)) {
      Out.Kind = CommandResult::End::NotFound;
      Out.Reason = Program + " is not there, or may not be executed";
      return Out;
    }
  } else {
    ErrorOr<std::string> Found = sys::findProgramByName(Program);
    if (!Found) {
      Out.Kind = CommandResult::End::NotFound;
      Out.Reason = "there is no program '" + Program + "'";
      return Out;
    }
    Program = *Found;
  }
  SmallVector<StringRef, 16> Arguments(Command.begin(), Command.end());
  std::optional<StringRef> Redirects[3];
  if (Options.Stdout)
    Redirects[1] = *Options.Stdout;
  if (Options.Stderr)
    Redirects[2] = *Options.Stderr;
  std::string Message;
  bool Failed = false;
  Out.Status = sys::ExecuteAndWait(Program, Arguments, std::nullopt, Redirects,
                                   Options.TimeoutSeconds, /*MemoryLimit=*/0,
                                   &Message, &Failed);
  // LLVM takes the statuses 126 and 127 of a shell for its own.
  if (!Failed && Out.Status == -1 && Message == sys::StrError(ENOENT))
    Out.Status = 127;
  else if (!Failed && Message == "Program could not be executed")
    Out.Status = 126;
  if (Failed || Out.Status == -1)
    return failure(Program + ": could not be started: " + Message,
                   "check that it may be executed");
  if (Out.Status != -2)
    return Out;
  Out.Reason = Message;
  Out.Kind = StringRef(Message).contains("timed out")
                 ? CommandResult::End::TimedOut
             : isInterrupt(Message) ? CommandResult::End::Interrupted
                                    : CommandResult::End::Crashed;
  return Out;
}

Expected<std::string> gitOutput(ArrayRef<std::string> Arguments) {
  SmallString<128> Printed, Complaint;
  if (std::error_code EC =
          sys::fs::createTemporaryFile("culprit-git", "out", Printed))
    return failure("no temporary file could be made: " + EC.message());
  FileRemover RemovePrinted(Printed);
  if (std::error_code EC =
          sys::fs::createTemporaryFile("culprit-git", "err", Complaint))
    return failure("no temporary file could be made: " + EC.message());
  FileRemover RemoveComplaint(Complaint);
  std::vector<std::string> Command = {"git"};
  Command.insert(Command.end(), Arguments.begin(), Arguments.end());
  CommandOptions Options;
  Options.Stdout = Printed.str().str();
  Options.Stderr = Complaint.str().str();
  Expected<CommandResult> Result = runCommand(Command, Options);
  if (!Result)
    return Result.takeError();
  if (Result->Kind == CommandResult::End::NotFound)
    return failure("git: " + Result->Reason, "install git");
  const auto TextOf = [](StringRef Path) {
    ErrorOr<std::unique_ptr<MemoryBuffer>> Buffer = MemoryBuffer::getFile(Path);
    return Buffer ? (*Buffer)->getBuffer().rtrim().str() : std::string();
  };
  if (Result->Kind != CommandResult::End::Exited || Result->Status != 0) {
    std::string Text = TextOf(Complaint);
    StringRef Said = StringRef(Text).split('\n').first;
    Said.consume_front("fatal: ");
    return failure("git " + join(Arguments, " ") + ": " +
                   (Said.empty() ? Result->Reason : Said.str()));
  }
  return TextOf(Printed);
}

} // namespace culprit
