//===- ModelSettings.cpp ----------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/ModelSettings.h"
#include "Readers/ConfigRows.h"
#include "Readers/TreeFile.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Path.h"

using namespace llvm;

namespace culprit {

namespace {
enum class Part { None, Tokenizer, SpecialTokens, Generation, Template };
} // namespace

/// The name without what a compression put behind it.
static StringRef nameOf(const InputFile &File) {
  StringRef Name = sys::path::filename(File.path());
  if (!Name.consume_back(".gz"))
    Name.consume_back(".zst");
  return Name;
}

/// Which of the files it is: by its name where it has it, else by keys that no
/// other file has.
static Part partOf(const InputFile &File) {
  StringRef Head = File.head(), Name = nameOf(File);
  if (Name.ends_with(".jinja"))
    return Head.contains("{%") || Head.contains("{{") ? Part::Template
                                                      : Part::None;
  if (!isJsonObject(Head))
    return Part::None;
  if (Name.ends_with("generation_config.json"))
    return Part::Generation;
  if (Name.ends_with("tokenizer_config.json") ||
      Name.ends_with("chat_template.json"))
    return Part::Tokenizer;
  if (Name.ends_with("special_tokens_map.json"))
    return Part::SpecialTokens;
  if (Head.contains("\"_from_model_config\""))
    return Part::Generation;
  // A model's own config may name the class of its tokenizer too.
  const bool Model =
      Head.contains("\"model_type\"") || Head.contains("\"architectures\"");
  if (!Model && Head.contains("\"tokenizer_class\"") &&
      (Head.contains("\"added_tokens_decoder\"") ||
       Head.contains("\"model_max_length\"")))
    return Part::Tokenizer;
  return Part::None;
}

Match ModelSettingsReader::matches(const InputFile &File) const {
  return partOf(File) == Part::None ? Match::No : Match::Certain;
}

/// What a key of a tokenizer's settings is called in the table.
/// "bos_token.content" is "bos_token": a token may be an object that says how
/// it is matched in text, which is left out. "chat_template.0.template" is
/// "chat_template.0", and its ".name" stays.
static std::string tokenizerKey(StringRef Key) {
  StringRef Part = Key;
  const bool Added = Part.consume_front("added_tokens_decoder.");
  if (Added || Part.contains("_token.") ||
      Part.starts_with("additional_special_tokens.")) {
    auto [Path, Field] = Part.rsplit('.');
    std::string Name = (Added ? "added_tokens." : "") + Path.str();
    if (Field == "content")
      return Name;
    if (Field == "special" && Added)
      return Name + ".special";
    if (Field == "__type" || Field == "lstrip" || Field == "rstrip" ||
        Field == "normalized" || Field == "single_word" || Field == "special")
      return "";
  }
  if (Part.starts_with("chat_template."))
    Part.consume_back(".template");
  return Part.str();
}

Error ModelSettingsReader::read(InputFile &File, Source &Into) const {
  Expected<StringRef> Contents = File.contents();
  if (!Contents)
    return Contents.takeError();
  StringRef Text = *Contents;
  Text.consume_front("\xEF\xBB\xBF");
  const Part What = partOf(File);
  if (What == Part::Template) {
    // additional_chat_templates/tool_use.jinja is the template tool_use.
    StringRef Name = sys::path::stem(nameOf(File));
    ConfigRows Config(Into, "tokenizer.");
    Config.add(Name == "chat_template" ? "chat_template"
                                       : ("chat_template." + Name).str(),
               Text, 1);
    return Error::success();
  }
  ConfigRows Config =
      What == Part::Generation
          ? ConfigRows(Into, "generation.")
          : ConfigRows(Into, "tokenizer.", tokenizerKey);
  LooseJson In(Text);
  LineCounter Lines(Text);
  ScalarRows Scalars(Into);
  In.next();
  const bool Complete = readSettings(In, Text, Config, Scalars, Lines);
  Config.finish();
  Scalars.finish();
  if (Complete)
    return Error::success();
  return brokenOff(In, Lines, Config.rows(), Into);
}

} // namespace culprit
