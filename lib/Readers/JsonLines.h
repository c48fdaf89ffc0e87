//===- JsonLines.h - Metrics, one JSON object a line ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Reads metrics.jsonl and its kin into `scalars`: any keys, one object a
/// line, NaN and Infinity as Python writes them. An object that names a layer
/// (or a metric) beside its numbers gives scalars of that layer.
///
///   {"step": 3, "train/loss": 2.5, "train/lr": 0.0003}
///   {"step": 3, "layer": "blocks.0.attn", "act_rms": 0.2, "zero_frac": 0.5}
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_JSONLINES_H
#define CULPRIT_READERS_JSONLINES_H

#include "Readers/Reader.h"

namespace culprit {

class JsonLinesReader : public Reader {
public:
  llvm::StringRef name() const override { return "JSON lines"; }
  llvm::StringRef about() const override {
    return "metrics as one JSON object a line: metrics.jsonl, W&B history, "
           "per-layer statistics";
  }
  Match matches(const InputFile &File) const override;
  llvm::Error read(InputFile &File, Source &Into) const override;
};

} // namespace culprit

#endif // CULPRIT_READERS_JSONLINES_H
