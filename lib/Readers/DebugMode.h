//===- DebugMode.h - Operator logs of PyTorch's DebugMode -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Reads what DebugMode.debug_string() gives, one line an operator, nested
/// under modules, with the hashes that log_tensor_hashes() adds:
///
///   [nn.Mod] Net.fc
///     aten::mm(t: f32[8, 4], t: f32[4, 2])  ->  t: f32[8, 2]  # {'hash': 3.5}
///
/// Each operator with a hash becomes a row of `tensors`, the first thing it
/// gave, and each input that was hashed one before it. The default hash is the
/// norm of sums of magnitudes (L1) in double precision: it is NaN or infinite
/// exactly if some value is.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_DEBUGMODE_H
#define CULPRIT_READERS_DEBUGMODE_H

#include "Readers/Reader.h"

namespace culprit {

class DebugModeReader : public Reader {
public:
  llvm::StringRef name() const override { return "DebugMode log"; }
  llvm::StringRef about() const override {
    return "operators and tensor hashes of PyTorch's DebugMode";
  }
  Match matches(const InputFile &File) const override;
  llvm::Error read(InputFile &File, Source &Into) const override;
};

} // namespace culprit

#endif // CULPRIT_READERS_DEBUGMODE_H
