//===- ConfigDiff.h - A diff of settings ------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Reads a diff of configurations, as git or diff -u write it, or as people
/// paste it without headers:
///
///   - temperature: 0.2
///   + temperature: 0.0
///
/// Both sides become `config` rows, of the runs "before" and "after" below the
/// run of the file; lines that both sides have are of both. Lines of pinned
/// packages become `packages`. YAML, JSON, TOML, and KEY=value are read; files
/// whose name says that they are something else are passed over.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_CONFIGDIFF_H
#define CULPRIT_READERS_CONFIGDIFF_H

#include "Readers/Reader.h"

namespace culprit {

class ConfigDiffReader : public Reader {
public:
  llvm::StringRef name() const override { return "diff of settings"; }
  llvm::StringRef about() const override {
    return "a diff of YAML, JSON or TOML settings, or of pinned packages; both "
           "sides are read";
  }
  Match matches(const InputFile &File) const override;
  llvm::Error read(InputFile &File, Source &Into) const override;
};

} // namespace culprit

#endif // CULPRIT_READERS_CONFIGDIFF_H
