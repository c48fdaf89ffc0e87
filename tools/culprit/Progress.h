//===- Progress.h - A line for who waits ------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Says on stderr what is being done, from one second on and on a terminal
/// only. The line is wiped before anything else is printed.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_TOOL_PROGRESS_H
#define CULPRIT_TOOL_PROGRESS_H

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace culprit {

/// Shows \p What while it lives. Owns a thread where stderr is a terminal.
class Progress {
public:
  explicit Progress(std::string What);
  ~Progress();

private:
  void show();

  std::string What;
  std::mutex Lock;
  std::condition_variable Wake;
  bool Done = false;
  std::thread Shower;
};

} // namespace culprit

#endif // CULPRIT_TOOL_PROGRESS_H
