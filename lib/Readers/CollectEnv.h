//===- CollectEnv.h - Output of collect_env ---------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Reads what `python -m torch.utils.collect_env` prints, and what vLLM's
/// collect_env.py makes of it: packages into `packages`, the rest into
/// `config` rows under "env.". What matters has a short name: env.pytorch,
/// env.cuda, env.cuda_runtime, env.driver, env.cudnn, env.gpu.0, env.os,
/// env.python, env.cpu; a line without one keeps its words:
/// env.is_debug_build. "Could not collect" and "N/A" are no values.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_COLLECTENV_H
#define CULPRIT_READERS_COLLECTENV_H

#include "Readers/Reader.h"

namespace culprit {

class CollectEnvReader : public Reader {
public:
  llvm::StringRef name() const override { return "environment"; }
  llvm::StringRef about() const override {
    return "output of python -m torch.utils.collect_env, also vLLM's";
  }
  Match matches(const InputFile &File) const override;
  llvm::Error read(InputFile &File, Source &Into) const override;
};

} // namespace culprit

#endif // CULPRIT_READERS_COLLECTENV_H
