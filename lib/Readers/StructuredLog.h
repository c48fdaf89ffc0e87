//===- StructuredLog.h - Log lines that are JSON ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Loggers of servers write an object a line:
///
///   {"timestamp":"2026-01-05T08:59:57.6Z","level":"INFO","message":"Success",
///    "target":"text_generation_router::server","span":{"total_time":"1.5s",
///    "name":"generate"}}
///
/// They become the line that the same logger writes as text, so that the rest
/// of the reader of logs need not know:
///
///   2026-01-05T08:59:57.6Z INFO generate{total_time="1.5s"}:
///       text_generation_router::server: Success
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_STRUCTUREDLOG_H
#define CULPRIT_READERS_STRUCTUREDLOG_H

#include "Support/LooseTree.h"
#include <string>

namespace culprit {

/// Whether \p Line may be one: cheap, and never true for a plain line.
bool isStructuredLine(llvm::StringRef Line);

/// Converts lines, with memory that is used again. Not thread-safe.
class StructuredLog {
public:
  /// \p Line as text, valid until the next call, or \p Line itself when it is
  /// no such object. A message of several lines, as of an exception, has them
  /// all.
  llvm::StringRef plain(llvm::StringRef Line);

private:
  LooseTree Tree;
  std::string Buffer;
};

} // namespace culprit

#endif // CULPRIT_READERS_STRUCTUREDLOG_H
