//===- Prometheus.h - Text dumps of /metrics --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Reads what a server answers under /metrics, as vLLM, SGLang, TGI, Triton
/// and llama.cpp do, into `counters`: gauges, counters, and of histograms and
/// summaries the sum and the count. Several scrapes may stand behind each
/// other. Device counters of DCGM's exporter have a reader of their own.
///
///   # TYPE vllm:num_requests_running gauge
///   vllm:num_requests_running{engine="0",model_name="m"} 8.0
///
/// Labels that tell series apart stay in the name, in the order of the file:
/// vllm:request_success_total{finished_reason="stop"}. The engine is the rank,
/// the GPU the device; names of models, pods and jobs are left out.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_PROMETHEUS_H
#define CULPRIT_READERS_PROMETHEUS_H

#include "Readers/Reader.h"

namespace culprit {

class PrometheusReader : public Reader {
public:
  llvm::StringRef name() const override { return "Prometheus metrics"; }
  llvm::StringRef about() const override {
    return "text of a /metrics endpoint: vLLM, SGLang, TGI, Triton";
  }
  Match matches(const InputFile &File) const override;
  llvm::Error read(InputFile &File, Source &Into) const override;
};

} // namespace culprit

#endif // CULPRIT_READERS_PROMETHEUS_H
