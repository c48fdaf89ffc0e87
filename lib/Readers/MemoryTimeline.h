//===- MemoryTimeline.h - Memory by category, from the profiler -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Reads what torch.profiler's export_memory_timeline writes into
/// `memory_events`: which tensors live, and whether they are parameters,
/// gradients, activations and so on. It writes two forms of numbers, told
/// apart by their content, and a picture, of which nothing can be read:
///
///   raw    [[ns, action, bytes, category], ...]   x.raw.json.gz
///   sizes  [[us, ...], [[0, bytes by category], ...]]   x.json, x.json.gz
///   HTML   a page with a PNG                      x.html
///
/// A file is of one device, which it does not name.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_MEMORYTIMELINE_H
#define CULPRIT_READERS_MEMORYTIMELINE_H

#include "Readers/Reader.h"

namespace culprit {

class MemoryTimelineReader : public Reader {
public:
  llvm::StringRef name() const override { return "PyTorch memory timeline"; }
  llvm::StringRef about() const override {
    return "live memory by category: export_memory_timeline, raw or as JSON";
  }
  Match matches(const InputFile &File) const override;
  llvm::Error read(InputFile &File, Source &Into) const override;
};

} // namespace culprit

#endif // CULPRIT_READERS_MEMORYTIMELINE_H
