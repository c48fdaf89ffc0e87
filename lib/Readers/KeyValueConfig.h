//===- KeyValueConfig.h - Settings as key = value ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Reads settings of the form key = value into `config`: TOML as torchtitan has
/// it, INI, .env, and the Python files of plain assignments that nanoGPT takes
/// for configurations. The section stands before the key with a dot. Inline
/// tables and lists are kept as text.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_KEYVALUECONFIG_H
#define CULPRIT_READERS_KEYVALUECONFIG_H

#include "Readers/Reader.h"

namespace culprit {

class KeyValueConfigReader : public Reader {
public:
  llvm::StringRef name() const override { return "settings"; }
  llvm::StringRef about() const override {
    return "TOML, INI, .env and files of plain assignments";
  }
  Match matches(const InputFile &File) const override;
  llvm::Error read(InputFile &File, Source &Into) const override;
};

} // namespace culprit

#endif // CULPRIT_READERS_KEYVALUECONFIG_H
