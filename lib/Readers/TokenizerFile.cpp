//===- TokenizerFile.cpp ----------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/TokenizerFile.h"
#include "Readers/ConfigRows.h"
#include "Readers/TokenizerWalk.h"
#include "Readers/TreeFile.h"
#include "Support/DataTree.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace culprit {

bool isTokenizerFile(StringRef Head) {
  // Its own order is version, truncation, padding, added_tokens, ..., model;
  // the added tokens may be thousands, so the model need not be in the head.
  return isJsonObject(Head) && Head.contains("\"added_tokens\"") &&
         (Head.contains("\"truncation\"") ||
          Head.contains("\"pre_tokenizer\"") ||
          Head.contains("\"normalizer\"") || Head.contains("\"vocab\""));
}

Match TokenizerFileReader::matches(const InputFile &File) const {
  return isTokenizerFile(File.head()) ? Match::Certain : Match::No;
}

namespace {
/// Makes rows of what the walk meets.
class Rows : public TokenizerVisitor {
public:
  Rows(Source &Into, StringRef Text)
      : Into(Into), Lines(Text), Config(Into, "tokenizer.") {}

  void piece(StringRef, int64_t Id) override {
    ++Base;
    Largest = std::max(Largest, Id);
    if (Id >= 0 && Id < MaxIds)
      Ids.insert(static_cast<uint32_t>(Id));
  }

  void added(StringRef Content, int64_t Id, bool Special,
             size_t Offset) override {
    int64_t Line = Lines.lineOf(Offset);
    std::string Key = "added_tokens." + itostr(Id);
    Config.add(Key, Content, Line);
    Config.add(Key + ".special", Special ? "true" : "false", Line);
    Largest = std::max(Largest, Id);
    if (Id >= 0 && Id < MaxIds)
      Added.push_back(static_cast<uint32_t>(Id));
  }

  void setting(StringRef Key, StringRef Value, size_t Offset) override {
    Config.add(Key, Value, Lines.lineOf(Offset));
  }

  void part(StringRef Name, StringRef Value, size_t Offset) override;
  void finish(bool Complete);
  size_t rows() const { return Config.rows(); }
  LineCounter &lines() { return Lines; }

private:
  /// Ids beyond it are counted as largest but not told apart; no vocabulary
  /// comes near it.
  static constexpr int64_t MaxIds = int64_t(1) << 28;

  void preTokenizer(const DataTree &Tree, DataValue V, unsigned Depth);
  void postProcessor(const DataTree &Tree, DataValue V, unsigned Depth);

  Source &Into;
  LineCounter Lines;
  ConfigRows Config;
  int64_t Base = 0, Largest = -1;
  DenseSet<uint32_t> Ids;
  std::vector<uint32_t> Added;
  std::string Types, Begin, End;
  std::vector<std::string> Patterns;
};
} // namespace

/// Deeper nested sequences are nobody's.
static constexpr unsigned MaxDepth = 8;

void Rows::preTokenizer(const DataTree &Tree, DataValue V, unsigned Depth) {
  StringRef Type = Tree.text(Tree.find(V, "type"));
  if (Type == "Sequence" && Depth < MaxDepth) {
    for (DataValue Part : Tree.items(Tree.find(V, "pretokenizers")))
      preTokenizer(Tree, Part, Depth + 1);
    return;
  }
  if (Type.empty() || Types.size() > 1000)
    return;
  Types += (Types.empty() ? "" : ", ") + Type.str();
  DataValue Pattern = Tree.find(V, "pattern");
  StringRef Regex = Tree.text(Tree.find(Pattern, "Regex"));
  if (!Regex.empty())
    Patterns.push_back(Regex.str());
}

/// The id of the special token in a piece of a template; empty for the text.
static StringRef specialIn(const DataTree &Tree, DataValue Piece) {
  return Tree.text(Tree.find(Tree.find(Piece, "SpecialToken"), "id"));
}

void Rows::postProcessor(const DataTree &Tree, DataValue V, unsigned Depth) {
  StringRef Type = Tree.text(Tree.find(V, "type"));
  if (Type == "Sequence" && Depth < MaxDepth) {
    for (DataValue Part : Tree.items(Tree.find(V, "processors")))
      postProcessor(Tree, Part, Depth + 1);
  } else if (Type == "TemplateProcessing") {
    ArrayRef<DataValue> Single = Tree.items(Tree.find(V, "single"));
    if (Single.empty())
      return;
    Begin = specialIn(Tree, Single.front()).str();
    End = specialIn(Tree, Single.back()).str();
  } else if (Type == "BertProcessing" || Type == "RobertaProcessing") {
    // Pairs of text and id.
    const auto First = [&](StringRef Key) {
      ArrayRef<DataValue> Pair = Tree.items(Tree.find(V, Key));
      return Pair.empty() ? std::string() : Tree.text(Pair[0]).str();
    };
    Begin = First("cls");
    End = First("sep");
  }
}

void Rows::part(StringRef Name, StringRef Value, size_t Offset) {
  int64_t Line = Lines.lineOf(Offset);
  Expected<DataTree> Tree = readJsonTree(Value);
  if (!Tree)
    return consumeError(Tree.takeError());
  if (Name == "pre_tokenizer") {
    preTokenizer(*Tree, Tree->root(), 0);
    if (!Types.empty())
      Config.add("pre_tokenizer", Types, Line);
    for (size_t I = 0; I != Patterns.size(); ++I)
      Config.add("pre_tokenizer.pattern" + (I ? "." + utostr(I) : ""),
                 Patterns[I], Line);
  } else if (Name == "post_processor") {
    postProcessor(*Tree, Tree->root(), 0);
    if (!Begin.empty())
      Config.add("template.begin", Begin, Line);
    if (!End.empty())
      Config.add("template.end", End, Line);
  }
  // The settings as they stand. A map of characters is a megabyte of base64
  // and tells nobody anything.
  if (Value.contains("\"precompiled_charsmap\""))
    return;
  LooseJson In(Value);
  if (In.next() != LooseJson::Token::Object)
    return;
  LineCounter Within(Value, Line);
  std::string Prefix = ("tokenizer." + Name + ".").str();
  ConfigRows Settings(Into, Prefix);
  ScalarRows Scalars(Into);
  (void)readSettings(In, Value, Settings, Scalars, Within);
  Settings.finish();
  Scalars.finish();
}

void Rows::finish(bool Complete) {
  // Half a vocabulary would look like the tokenizer of another model.
  if (Complete && (Base != 0 || !Added.empty())) {
    Ids.insert(Added.begin(), Added.end());
    Config.add("base_vocab_size", itostr(Base), 1);
    Config.add("vocab_size", utostr(Ids.size()), 1);
    Config.add("largest_id", itostr(Largest), 1);
  }
  Config.finish();
}

Error TokenizerFileReader::read(InputFile &File, Source &Into) const {
  Expected<StringRef> Contents = File.contents();
  if (!Contents)
    return Contents.takeError();
  StringRef Text = *Contents;
  Text.consume_front("\xEF\xBB\xBF");
  LooseJson In(Text);
  Rows Out(Into, Text);
  const bool Complete = walkTokenizer(In, Text, Out);
  Out.finish(Complete);
  if (Complete)
    return Error::success();
  return brokenOff(In, Out.lines(), Out.rows(), Into);
}

} // namespace culprit
