//===- AccessLine.h - One line of an access log -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// The line that a web server writes for a request:
///
///   10.0.0.1 - - [05/Jan/2026:08:59:57 +0000] "POST /v1/completions HTTP/1.1"
///       200 512 "-" "curl/8.5" 0.532                      nginx, Apache
///   INFO:     10.0.0.1:46228 - "POST /v1/completions HTTP/1.1" 200 OK  uvicorn
///   [GIN] 2026/01/05 - 08:59:57 | 200 | 1.5s | 10.0.0.1 | POST "/api/chat"
///
/// How long it took is no part of the common formats; people append
/// $request_time bare, or with a name: rt=0.532, request_time=0.532.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_ACCESSLINE_H
#define CULPRIT_READERS_ACCESSLINE_H

#include "Readers/RequestRows.h"
#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <optional>

namespace culprit {

/// Views of the line.
struct AccessLine {
  llvm::StringRef Method, Endpoint, Id;
  int64_t Status = 0;
  std::optional<int64_t> Bytes;
  std::optional<double> Latency; ///< Seconds.
  std::optional<double> At;      ///< Unix seconds, when it was answered.
  bool Begun = false;            ///< The time is that of its beginning.
  bool Combined = false;         ///< Of nginx or Apache.
};

std::optional<AccessLine> parseAccessLine(llvm::StringRef Line);

/// Puts the request of \p Line, logged at \p At in line \p Place, into \p R. A
/// record that is used again keeps the memory of its texts.
void setRequest(const AccessLine &Line, std::optional<double> At, int64_t Place,
                RequestRecord &R);

/// A length of time with its unit: 1.5s, 36.7ms, 12µs, 1m2.5s; seconds.
std::optional<double> parseDuration(llvm::StringRef Text);

} // namespace culprit

#endif // CULPRIT_READERS_ACCESSLINE_H
