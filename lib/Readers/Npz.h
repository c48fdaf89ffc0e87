//===- Npz.h - NumPy archives -----------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Reads what numpy.savez and numpy.savez_compressed write: a zip archive of
/// .npy members. The order of the members is taken for that of execution.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_NPZ_H
#define CULPRIT_READERS_NPZ_H

#include "Readers/Reader.h"

namespace culprit {

class NpzReader : public Reader {
public:
  llvm::StringRef name() const override { return "NumPy archive"; }
  llvm::StringRef endings() const override { return ".npz"; }
  Match matches(const InputFile &File) const override;
  llvm::Error read(InputFile &File, Source &Into) const override;
};

} // namespace culprit

#endif // CULPRIT_READERS_NPZ_H
