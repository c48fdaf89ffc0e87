//===- LaunchScript.h - Settings of a command line --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Reads the settings that a shell script, or a command that was kept in a
/// file, gives to a trainer or a server: the flags of `vllm serve`, `torchrun`,
/// `accelerate launch`, `python` and the like, and the variables it exports.
/// Nothing is run; of variables those that the script sets itself are known.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_LAUNCHSCRIPT_H
#define CULPRIT_READERS_LAUNCHSCRIPT_H

#include "Readers/Reader.h"

namespace culprit {

class LaunchScriptReader : public Reader {
public:
  llvm::StringRef name() const override { return "command line"; }
  llvm::StringRef about() const override {
    return "scripts that start a trainer or a server: vllm serve, torchrun, "
           "accelerate, python";
  }
  Match matches(const InputFile &File) const override;
  llvm::Error read(InputFile &File, Source &Into) const override;
};

} // namespace culprit

#endif // CULPRIT_READERS_LAUNCHSCRIPT_H
