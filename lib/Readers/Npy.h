//===- Npy.h - NumPy arrays -------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Reads .npy files of versions 1 to 3
/// (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html).
/// A row-major little-endian array is not copied.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_NPY_H
#define CULPRIT_READERS_NPY_H

#include "Readers/Reader.h"

namespace culprit {

class NpyReader : public Reader {
public:
  llvm::StringRef name() const override { return "NumPy array"; }
  llvm::StringRef endings() const override { return ".npy"; }
  Match matches(const InputFile &File) const override;
  llvm::Error read(InputFile &File, Source &Into) const override;
};

/// Reads the array in \p Bytes, the content of a .npy file. A copy, where one
/// is needed, is given to \p Into to keep. \p Where begins messages.
llvm::Expected<TensorView> readNpy(llvm::StringRef Bytes, llvm::StringRef Where,
                                   Source &Into);

} // namespace culprit

#endif // CULPRIT_READERS_NPY_H
