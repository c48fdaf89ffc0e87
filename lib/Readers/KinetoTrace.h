//===- KinetoTrace.h - Chrome traces of PyTorch -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Reads the JSON that torch.profiler (libkineto) exports, of any age, plain
/// or compressed, from NVIDIA and AMD devices. Rows cite the event by its
/// position in `traceEvents`, from 0.
///
/// The file is streamed: one thread decompresses and cuts it between events
/// (KinetoTraceSplitter), the others parse (KinetoTraceRows), and results are
/// joined in the order of the file, so that they do not depend on the number
/// of threads.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_KINETOTRACE_H
#define CULPRIT_READERS_KINETOTRACE_H

#include "Readers/Reader.h"

namespace culprit {

class KinetoTraceReader : public Reader {
public:
  llvm::StringRef name() const override { return "Kineto trace"; }
  Match matches(const InputFile &File) const override;
  llvm::Error read(InputFile &File, Source &Into) const override;
};

} // namespace culprit

#endif // CULPRIT_READERS_KINETOTRACE_H
