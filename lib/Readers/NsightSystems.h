//===- NsightSystems.h - SQLite exports of Nsight Systems -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Reads what `nsys export --type sqlite` writes, of any version: tables and
/// columns are looked up first, since nsys creates them only when it has
/// something to put in. The file is opened immutable and never written to, not
/// even a journal or an index. Rows cite the rowid in their table.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_NSIGHTSYSTEMS_H
#define CULPRIT_READERS_NSIGHTSYSTEMS_H

#include "Readers/Reader.h"

namespace culprit {

class NsightSystemsReader : public Reader {
public:
  llvm::StringRef name() const override { return "Nsight Systems export"; }
  Match matches(const InputFile &File) const override;
  llvm::Error read(InputFile &File, Source &Into) const override;
};

} // namespace culprit

#endif // CULPRIT_READERS_NSIGHTSYSTEMS_H
