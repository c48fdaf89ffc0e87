//===- TrainerState.h - Transformers' trainer_state.json --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Reads the state that Transformers' Trainer (and TRL, ms-swift, Axolotl, all
/// built on it) saves with each checkpoint: log_history into `scalars`, the
/// values beside it (max_steps, logging_steps, ...) into `config`.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_TRAINERSTATE_H
#define CULPRIT_READERS_TRAINERSTATE_H

#include "Readers/Reader.h"

namespace culprit {

class TrainerStateReader : public Reader {
public:
  llvm::StringRef name() const override { return "trainer state"; }
  llvm::StringRef about() const override {
    return "trainer_state.json of Transformers, TRL and what builds on them";
  }
  Match matches(const InputFile &File) const override;
  llvm::Error read(InputFile &File, Source &Into) const override;
};

} // namespace culprit

#endif // CULPRIT_READERS_TRAINERSTATE_H
