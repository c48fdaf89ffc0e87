//===- YamlConfig.h - Settings as YAML --------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Reads YAML settings into `config`, key paths joined by dots: config.yaml,
/// hparams.yaml, Hydra's and W&B's files. A small reader of its own for block
/// mappings and lists: hand-written configurations are often not quite YAML
/// (tabs, Python tags, a stray line), and one bad line must not cost the rest.
/// Flow lists are kept as text, flow maps taken apart; anchors and aliases are
/// not resolved.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_YAMLCONFIG_H
#define CULPRIT_READERS_YAMLCONFIG_H

#include "Readers/ConfigRows.h"
#include "Readers/Reader.h"
#include "llvm/ADT/ArrayRef.h"

namespace culprit {

class YamlConfigReader : public Reader {
public:
  llvm::StringRef name() const override { return "YAML settings"; }
  llvm::StringRef about() const override {
    return "config.yaml, hparams.yaml and other block mappings";
  }
  Match matches(const InputFile &File) const override;
  llvm::Error read(InputFile &File, Source &Into) const override;
};

/// A line of YAML and where it stands in its file.
struct NumberedLine {
  std::string Text;
  int64_t Number = 0;
};

/// Adds the settings of \p Lines, a part of a YAML file, to \p Config. A line
/// that is no setting is passed over.
void readYamlLines(llvm::ArrayRef<NumberedLine> Lines, Source &Into,
                   ConfigRows &Config);

} // namespace culprit

#endif // CULPRIT_READERS_YAMLCONFIG_H
