//===- NumericsLog.h - Activation logs of torchtitan ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Reads the activation logs that torchtitan's numerics debugging writes from
/// PyTorch's DebugMode (numerics/rank_0_activations.log): one block for each
/// operator in the order of execution, with the statistics and the norm hash
/// of what it gave, and no values.
///
///   [layers.0.attention.wq/op_0_aten.mm.default]
///     Shape: [8, 2048]
///     L2 norm: 31.5
///     Min: -2.1
///     Output hash: 812.25
///     Phase: backward
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_NUMERICSLOG_H
#define CULPRIT_READERS_NUMERICSLOG_H

#include "Readers/Reader.h"

namespace culprit {

class NumericsLogReader : public Reader {
public:
  llvm::StringRef name() const override { return "DebugMode activations"; }
  llvm::StringRef about() const override {
    return "activation logs of torchtitan's numerics debugging";
  }
  Match matches(const InputFile &File) const override;
  llvm::Error read(InputFile &File, Source &Into) const override;
};

} // namespace culprit

#endif // CULPRIT_READERS_NUMERICSLOG_H
