//===- ServingLines.h - What servers of models print ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Takes requests and the state of the engine out of the lines of a text log:
///
///   INFO 02-01 06:36:05 logger.py:39] Received request cmpl-1-0: prompt:
///       'Hi', params: SamplingParams(n=1, temperature=0.7, ...),
///       prompt_token_ids: [1, 2], lora_request: None.
///   INFO 02-01 06:36:07 logger.py:80] Generated response cmpl-1-0: output:
///       'Hello', output_token_ids: [3, 4], finish_reason: stop
///   INFO 02-01 06:36:07 async_llm_engine.py:110] Finished request cmpl-1-0.
///   INFO 02-01 06:36:05 metrics.py:334] Avg prompt throughput: 4.1 tokens/s,
///       ..., Running: 1 reqs, ..., GPU KV cache usage: 99.0%, ...      vLLM
///   2026-01-05T08:59:57.6Z  INFO generate{parameters=GenerateParameters { ...
///       } total_time="986.5ms" ... seed="None"}: ...: Success           TGI
///
/// and access lines (AccessLine.h) into `requests`, numbers of the engine into
/// `counters`. vLLM's stamps have no year: such times are of 1970. A request
/// that arrives and ends in the same second has a latency of 0.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_SERVINGLINES_H
#define CULPRIT_READERS_SERVINGLINES_H

#include "Readers/LogLine.h"
#include "Readers/RequestRows.h"
#include "llvm/ADT/StringMap.h"
#include <vector>

namespace culprit {

/// Collects the requests of one log. Not thread-safe.
class ServingLines {
public:
  /// Of a log of \p Bytes.
  ServingLines(Source &S, uint64_t Bytes) : S(S), Rows(S, Bytes) {}

  /// What a line is to the requests.
  enum class Part {
    None,
    Access,
    TextGeneration,
    Received,
    Generated,
    Finished,
    Aborted,
    Engine
  };
  static Part partOf(const LogLine &L);
  /// Takes a line that is \p Is; lines that differ in numbers alone are the
  /// same part.
  void line(const LogLine &L, Part Is);

  /// Writes the requests that never ended.
  void finish() {
    flush();
    Rows.finish();
  }

private:
  void received(llvm::StringRef Text, const LogLine &L);
  void generated(llvm::StringRef Text, const LogLine &L);
  void ended(llvm::StringRef Text, const LogLine &L, bool Aborted);
  void engine(llvm::StringRef Text, const LogLine &L);
  void textGeneration(llvm::StringRef Text, const LogLine &L);
  void access(const LogLine &L);
  void sample(llvm::StringRef Name, double Value, std::optional<double> At,
              std::optional<int64_t> Engine, int64_t Line);
  std::optional<double> timeOf(const LogLine &L);
  void flush();

  /// Requests that are under way at most; the eldest are written then.
  static constexpr size_t MaxOpen = 8192;

  Source &S;
  RequestRows Rows;
  RequestRecord AccessRecord;
  std::vector<RequestRecord> Open; ///< In the order of their arrival.
  llvm::StringMap<size_t> ById;
  std::optional<double> FirstSample;
  int Months = 0;        ///< Of the stamp without a year that was read last.
  double YearStart = 0;  ///< Seconds of the years that passed in the log.
};

} // namespace culprit

#endif // CULPRIT_READERS_SERVINGLINES_H
