//===- MlflowStore.h - A run in MLflow's file store -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Reads the files of a run that MLflow keeps as mlruns/<experiment>/<run>:
/// each of metrics/<key> is one series in `scalars`, each of params/<key> and
/// tags/<key> a setting, and meta.yaml says how the run ended. A key with
/// slashes is a path of folders. The run is the folder of meta.yaml.
///
///   1767603597600 2.5 10        metrics/train/loss: ms since 1970, value, step
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_MLFLOWSTORE_H
#define CULPRIT_READERS_MLFLOWSTORE_H

#include "Readers/Reader.h"

namespace culprit {

class MlflowStoreReader : public Reader {
public:
  llvm::StringRef name() const override { return "MLflow run"; }
  llvm::StringRef about() const override {
    return "metrics, params, tags and meta.yaml of a run in MLflow's mlruns";
  }
  Match matches(const InputFile &File) const override;
  llvm::Error read(InputFile &File, Source &Into) const override;
};

} // namespace culprit

#endif // CULPRIT_READERS_MLFLOWSTORE_H
