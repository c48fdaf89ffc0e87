//===- Launch.h - A command that is recorded from its start -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Runs a command with the environment that makes libcuda load the agent, in
/// it and in its children. culprit stands aside: the command keeps the
/// terminal, its signals and its exit status.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_ATTACH_LAUNCH_H
#define CULPRIT_ATTACH_LAUNCH_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <chrono>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace culprit::attach {

struct LaunchOptions {
  std::vector<std::string> Command; ///< Not empty; looked up in PATH.
  std::string Agent;                ///< Path of the library.
  std::string Control;  ///< Path of the control socket.
  std::string Fallback; ///< Pattern of the capture's path; may be empty.
  std::string Options;  ///< For CULPRIT_OPTIONS.
  std::string Cupti;    ///< The libcupti that was asked for, or empty.
  /// Have NVTX load the agent too: libraries initialise it before CUDA.
  bool Nvtx = true;
};

/// What makes libcuda and NVTX load a library into a process.
inline constexpr char CudaInjection[] = "CUDA_INJECTION64_PATH";
inline constexpr char NvtxInjection[] = "NVTX_INJECTION64_PATH";

/// Whether \p Value of one of them stands for a tool that is not culprit.
bool isOtherTool(llvm::StringRef Value);

/// \p Environment ("NAME=value") with what the agent needs. Refuses one that
/// makes libcuda or NVTX load another tool, which would not be loaded then.
llvm::Expected<std::vector<std::string>>
launchEnvironment(llvm::ArrayRef<std::string> Environment,
                  const LaunchOptions &Options);

/// How a command ended.
struct ExitStatus {
  int Code = 0;   ///< Of exit; when a signal ended it 128 + Signal, as shells
                  ///< have it.
  int Signal = 0; ///< 0 when it exited.
};

/// A running command. While one lives, signals that other processes send to
/// culprit to end or steer it are passed on to the command; those of the
/// terminal reach it by themselves. One at a time in a process, since handlers
/// of signals are the process's.
class Launch {
public:
  static llvm::Expected<Launch> start(const LaunchOptions &Options);

  Launch(Launch &&Other);
  Launch &operator=(Launch &&) = delete;
  /// Puts the handlers back. Does not wait for the command.
  ~Launch();

  pid_t pid() const { return Pid; }

  /// The status when the command has ended within \p Timeout.
  std::optional<ExitStatus> wait(std::chrono::milliseconds Timeout);

  bool send(int Signal);

  /// How often the terminal asked culprit and the command to end (Ctrl-C)
  /// since the start: culprit itself does not end by it.
  static unsigned interruptions();

private:
  explicit Launch(pid_t Pid) : Pid(Pid) {}

  pid_t Pid = 0; ///< 0 after a move.
  std::optional<ExitStatus> Status;
};

} // namespace culprit::attach

#endif // CULPRIT_ATTACH_LAUNCH_H
