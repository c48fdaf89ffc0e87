//===- JsonConfig.h - Settings as JSON --------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Reads any JSON object into `config`, one row a leaf, keys joined by dots.
/// Lists of step records, at the top or inside, are metrics and go to
/// `scalars`.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_JSONCONFIG_H
#define CULPRIT_READERS_JSONCONFIG_H

#include "Readers/Reader.h"

namespace culprit {

class JsonConfigReader : public Reader {
public:
  llvm::StringRef name() const override { return "JSON settings"; }
  llvm::StringRef about() const override {
    return "config.json and other JSON objects; a list of step records is read "
           "as metrics";
  }
  Match matches(const InputFile &File) const override;
  llvm::Error read(InputFile &File, Source &Into) const override;
};

} // namespace culprit

#endif // CULPRIT_READERS_JSONCONFIG_H
