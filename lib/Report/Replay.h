//===- Replay.h - A recorded request as a command ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// The smallest thing that shows a bad answer again: one recorded request as a
/// curl command, decoded greedily with a fixed seed, so that two runs of it are
/// to give the same.
///
///   # 7f3a: status 500, 12.4 s; CUDA out of memory
///   curl -sS 'http://localhost:8000/v1/completions' -d '{"model": ...}'
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_REPORT_REPLAY_H
#define CULPRIT_REPORT_REPLAY_H

#include "Case/Case.h"
#include "Support/Error.h"
#include <string>

namespace culprit {

/// The request \p Id of \p C as a command. With an empty \p Id, of those whose
/// prompt is on record, the first that failed, else the first that was
/// answered wrongly, else the slowest. Where the ids of the prompt's tokens
/// are known and the endpoint is not one of chat, they are sent instead of the
/// text, so that no tokenizer stands between.
llvm::Expected<std::string> replayCommand(const Case &C, llvm::StringRef Id);

} // namespace culprit

#endif // CULPRIT_REPORT_REPLAY_H
