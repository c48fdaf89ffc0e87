//===- CaseTables.h - Tables written by hand --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// A case as text, for tests of detectors and for telling somebody about a
/// run one may not share. YAML (so JSON will do), one table a key:
///
///   culprit_case: 1
///   gpu_work:
///     columns: [kind, name, start, stop, device]
///     rows: [[kernel, a, 0, 60000, 0], [kernel, b, 100000, 160000, 0]]
///     repeat: 20          # optional: the rows again, 19 times,
///     every: 200000       # every time later by this, correlation and step up
///   tensors:              # optional: with values
///     - {name: x.output, step: 3, dtype: float32, data: [1, .nan, 2]}
///
/// `dur` is filled from start and stop, `rank` with 0, `name`, `metric` and
/// `run` of scalars from one another, where they are left out. docs/case-format.md
/// says more.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_CASETABLES_H
#define CULPRIT_READERS_CASETABLES_H

#include "Readers/Reader.h"

namespace culprit {

class CaseTablesReader : public Reader {
public:
  llvm::StringRef name() const override { return "culprit case"; }
  llvm::StringRef about() const override {
    return "tables written by hand, as docs/case-format.md describes";
  }
  Match matches(const InputFile &File) const override;
  llvm::Error read(InputFile &File, Source &Into) const override;
};

/// Reads the tables of \p Text, a map from their names as above, into \p Into;
/// \p Path and the lines of \p Text are what errors name.
llvm::Error readCaseTables(llvm::StringRef Path, llvm::StringRef Text,
                           Source &Into);

} // namespace culprit

#endif // CULPRIT_READERS_CASETABLES_H
