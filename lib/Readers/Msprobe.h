//===- Msprobe.h - Dumps of Ascend's msprobe --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Reads a dump of msprobe (MindStudio probe, also for NVIDIA GPUs):
/// step0/rank0/dump.json with the statistics of every input, output, parameter
/// and gradient in the order of execution, and dump_tensor_data/*.pt or *.npy
/// with their values where the task was "tensor". Values are read with
/// dump.json, which knows their order; a tensor without them gets a row of
/// what dump.json says of it.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_MSPROBE_H
#define CULPRIT_READERS_MSPROBE_H

#include "Readers/Reader.h"

namespace culprit {

class MsprobeReader : public Reader {
public:
  llvm::StringRef name() const override { return "msprobe dump"; }
  llvm::StringRef about() const override {
    return "dump.json of msprobe with its statistics and tensors";
  }
  Match matches(const InputFile &File) const override;
  llvm::Error read(InputFile &File, Source &Into) const override;
};

/// Whether \p Head begins the dump.json of a dump.
bool isMsprobeDump(llvm::StringRef Head);

/// The folder of values beside the dump.json at \p Path.
std::string msprobeDataFolder(llvm::StringRef Path);

} // namespace culprit

#endif // CULPRIT_READERS_MSPROBE_H
