//===- RequestTimes.cpp -----------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/RequestTimes.h"
#include "Readers/TimeStamp.h"
#include "llvm/ADT/STLExtras.h"
#include <cmath>

using namespace llvm;

namespace culprit {

std::optional<double> unixTimeOf(LooseValue V) {
  std::optional<double> Time = V.number();
  if (!Time && V.isText())
    if (std::optional<TimeStamp> Stamp = leadingTimeStamp(V.text()))
      return Stamp->Unix;
  if (!Time)
    return std::nullopt;
  while (*Time > 1e11) // ms, us, ns
    *Time /= 1000;
  return *Time > 1e8 ? Time : std::nullopt;
}

/// \p Key without the unit at its end, which sets \p Factor to seconds.
static StringRef withoutUnit(StringRef Key, double &Factor) {
  struct Unit {
    StringLiteral Suffix;
    double Factor;
  };
  static constexpr Unit Units[] = {
      {"_ms", 1e-3},    {"_milliseconds", 1e-3}, {"_us", 1e-6}, {"_ns", 1e-9},
      {"_seconds", 1.}, {"_sec", 1.},            {"_secs", 1.}, {"_s", 1.}};
  Factor = 1;
  for (const Unit &U : Units)
    if (Key.consume_back(U.Suffix)) {
      Factor = U.Factor;
      break;
    }
  return Key;
}

/// `metrics` of vllm.LLM.generate are points in time.
static void findVllmTimes(LooseValue Metrics, RequestRecord &R) {
  std::optional<double> Arrival = Metrics["arrival_time"].number(),
                        First = Metrics["first_token_time"].number(),
                        End = Metrics["finished_time"].number();
  if (!Arrival)
    return;
  if (First && *First >= *Arrival)
    R.Ttft = *First - *Arrival;
  if (End && *End >= *Arrival)
    R.Latency = *End - *Arrival;
}

void findTimes(LooseValue Object, RequestRecord &R) {
  static constexpr StringLiteral Firsts[] = {"ttft", "time_to_first_token",
                                             "first_token_latency",
                                             "first_token_time"};
  static constexpr StringLiteral Wholes[] = {
      "latency",       "e2e_latency",   "elapsed",      "elapsed_time",
      "duration",      "total_latency", "total_time",   "response_time",
      "request_time",  "time_taken",    "e2e_duration", "total_duration",
      "request_latency"};
  if (!Object.isObject())
    return;
  findVllmTimes(Object, R);
  // `timings` of llama.cpp: the prompt, then the answer.
  std::optional<double> Prompt = Object["prompt_ms"].number(),
                        Answer = Object["predicted_ms"].number();
  if (Prompt && Answer && *Prompt >= 0 && *Answer >= 0) {
    if (!R.Ttft)
      R.Ttft = *Prompt * 1e-3;
    if (!R.Latency)
      R.Latency = (*Prompt + *Answer) * 1e-3;
  }
  for (LooseValue V = Object.first(); V; V = V.next()) {
    double Factor;
    StringRef Base = withoutUnit(V.key(), Factor);
    bool First = is_contained(Firsts, Base);
    if (!First && !is_contained(Wholes, Base))
      continue;
    std::optional<double> Value = V.number();
    // A point in time has the name of a length with some.
    if (!Value || !(*Value >= 0) || std::isinf(*Value) ||
        (Factor == 1 && *Value > 1e8 && Base != "total_duration"))
      continue;
    if (V.key() == "total_duration") // Ollama
      Factor = 1e-9;
    std::optional<double> &To = First ? R.Ttft : R.Latency;
    if (!To)
      To = *Value * Factor;
  }
}

} // namespace culprit
