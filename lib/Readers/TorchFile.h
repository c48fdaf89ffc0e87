//===- TorchFile.h - Files of torch.save ------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Reads .pt, .pth and .bin files of PyTorch without PyTorch and without
/// running anything: state_dicts, checkpoints with optimizers, dumps of single
/// tensors, TorchScript archives. Tensors become rows of `tensors` under the
/// path of keys to them, numbers and texts rows of `config`. The data are
/// mapped, not copied, but for views that are not contiguous.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_TORCHFILE_H
#define CULPRIT_READERS_TORCHFILE_H

#include "Readers/Reader.h"

namespace culprit {

class TorchFileReader : public Reader {
public:
  llvm::StringRef name() const override { return "PyTorch file"; }
  llvm::StringRef endings() const override { return ".pt .pth"; }
  llvm::StringRef about() const override {
    return "what torch.save wrote: .pt, .pth, .bin; nothing of it is run";
  }
  Match matches(const InputFile &File) const override;
  llvm::Error read(InputFile &File, Source &Into) const override;
};

/// Reads the content \p Bytes of a file of torch.save into \p Into. \p As
/// gives what is known of its tensors from elsewhere and may name the only
/// one; its data are ignored.
llvm::Error readTorchFile(llvm::StringRef Bytes, const TensorRecord &As,
                          Source &Into);

} // namespace culprit

#endif // CULPRIT_READERS_TORCHFILE_H
