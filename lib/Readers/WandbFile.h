//===- WandbFile.h - run-<id>.wandb files -----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Reads the transaction log that W&B keeps of every run, online or offline:
/// history into `scalars`, system metrics into `counters`, settings into
/// `config`, and, where no files/output.log lies beside it, what was printed
/// into `log_lines` and `errors`.
///
/// It is a LevelDB log of protobuf records: blocks of 32 KiB, in which a record
/// is whole or in pieces, each piece with a checksum. A damaged piece costs its
/// record.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_WANDBFILE_H
#define CULPRIT_READERS_WANDBFILE_H

#include "Readers/Reader.h"

namespace culprit {

class WandbFileReader : public Reader {
public:
  llvm::StringRef name() const override { return "W&B run"; }
  llvm::StringRef endings() const override { return ".wandb"; }
  llvm::StringRef about() const override {
    return "run-<id>.wandb, the log that W&B keeps of a run";
  }
  Match matches(const InputFile &File) const override;
  llvm::Error read(InputFile &File, Source &Into) const override;
};

} // namespace culprit

#endif // CULPRIT_READERS_WANDBFILE_H
