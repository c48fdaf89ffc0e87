//===- ModelSettings.h - The small files of a model folder ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Reads what Transformers writes beside the weights: tokenizer_config.json,
/// special_tokens_map.json and the chat template become `config` rows under
/// "tokenizer.", generation_config.json under "generation.". A token is its
/// text, whether the file spells it as text or as an object; added tokens are
/// "tokenizer.added_tokens.ID" and "....special", as those of tokenizer.json.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_MODELSETTINGS_H
#define CULPRIT_READERS_MODELSETTINGS_H

#include "Readers/Reader.h"

namespace culprit {

class ModelSettingsReader : public Reader {
public:
  llvm::StringRef name() const override { return "tokenizer settings"; }
  llvm::StringRef about() const override {
    return "tokenizer_config.json, special_tokens_map.json, "
           "generation_config.json and chat_template.jinja of a model folder";
  }
  Match matches(const InputFile &File) const override;
  llvm::Error read(InputFile &File, Source &Into) const override;
};

} // namespace culprit

#endif // CULPRIT_READERS_MODELSETTINGS_H
