//===- StackDump.h - What the threads of a process do -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Reads files that are stacks of threads and nothing else: py-spy dump, as
/// text or with --json, faulthandler's output and gdb's `thread apply all bt`.
/// Stacks inside a log are found by the reader of text logs.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_STACKDUMP_H
#define CULPRIT_READERS_STACKDUMP_H

#include "Readers/Reader.h"

namespace culprit {

class StackDumpReader : public Reader {
public:
  llvm::StringRef name() const override { return "stack dump"; }
  llvm::StringRef about() const override {
    return "stacks of threads: py-spy dump, faulthandler, gdb";
  }
  Match matches(const InputFile &File) const override;
  llvm::Error read(InputFile &File, Source &Into) const override;
};

} // namespace culprit

#endif // CULPRIT_READERS_STACKDUMP_H
