//===- MergesFile.h - merges.txt --------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Reads the merges.txt of a byte-pair encoding into `config`:
/// tokenizer.merges, the number of its rules, and tokenizer.type, BPE.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_MERGESFILE_H
#define CULPRIT_READERS_MERGESFILE_H

#include "Readers/Reader.h"

namespace culprit {

class MergesFileReader : public Reader {
public:
  llvm::StringRef name() const override { return "tokenizer merges"; }
  llvm::StringRef about() const override {
    return "merges.txt, the rules of a byte-pair encoding";
  }
  Match matches(const InputFile &File) const override;
  llvm::Error read(InputFile &File, Source &Into) const override;
};

} // namespace culprit

#endif // CULPRIT_READERS_MERGESFILE_H
