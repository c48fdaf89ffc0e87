//===- DocumentShape.cpp ----------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/DocumentShape.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/Path.h"

using namespace llvm;

namespace culprit {

using Token = LooseJson::Token;

static constexpr StringLiteral Texts[] = {"text", "content", "raw_content",
                                          "document", "article"};
static constexpr StringLiteral Questions[] = {
    "instruction", "question", "prompt", "problem", "query", "input"};
static constexpr StringLiteral Answers[] = {"output", "completion", "answer",
                                            "answers", "solution", "target",
                                            "chosen"};
static constexpr StringLiteral Turns[] = {"messages", "conversations",
                                          "conversation"};

/// What servers, clients, judges, loggers and trainers write.
static constexpr StringLiteral Foreign[] = {
    "response",    "responses",      "logprobs",  "finish_reason",
    "model",       "usage",          "choices",   "prediction",
    "predictions", "generated_text", "generation", "model_output",
    "correct",     "is_correct",     "latency",   "latency_ms",
    "ttft",        "temperature",    "top_p",     "max_tokens",
    "custom_id",   "resps",          "meta_info", "request",
    "body",        "level",          "severity",  "logger",
    "loss",        "step",           "global_step", "status",
    "stop_reason", "token_logprobs", "role",      "stream",
    "levelname",   "error",          "latency_s", "record",
    "traceback",   "exc_info"};

/// Keys that stand beside the turns of an example.
static constexpr StringLiteral KeysBesideTurns[] = {
    "id",     "_id",    "uuid",      "source",   "dataset", "split",
    "system", "tools",  "category",  "idx",      "index",   "language",
    "lang",   "prompt", "prompt_id", "metadata", "meta",    "tags"};

ArrayRef<StringLiteral> textKeys() { return Texts; }
ArrayRef<StringLiteral> questionKeys() { return Questions; }
ArrayRef<StringLiteral> answerKeys() { return Answers; }
ArrayRef<StringLiteral> turnsKeys() { return Turns; }

static bool isForeign(StringRef Key) { return is_contained(Foreign, Key); }

/// Whether the last turn is an answer.
static bool endsWithAnswer(LooseValue List) {
  LooseValue Last;
  for (LooseValue V = List.first(); V; V = V.next())
    Last = V;
  StringRef Role = Last["role"].text();
  if (Role.empty())
    Role = Last["from"].text();
  return Role == "assistant" || Role == "gpt" || Role == "model" ||
         Role == "bot" || Role == "chatgpt";
}

DocumentShape documentShape(LooseValue Record) {
  if (!Record.isObject())
    return DocumentShape::None;
  bool Plain = true; // nothing that an example has not
  for (LooseValue V = Record.first(); V; V = V.next()) {
    if (isForeign(V.key()))
      return DocumentShape::None;
    Plain &=
        is_contained(KeysBesideTurns, V.key()) || is_contained(Turns, V.key());
  }
  if (LooseValue List = Record.any(Turns); List.isArray())
    return !endsWithAnswer(List) ? DocumentShape::None
           : Plain               ? DocumentShape::Turns
                                 : DocumentShape::Pair;
  if (Record.any(Texts).isText())
    return DocumentShape::Text;
  return Record.any(Questions).isText() && Record.any(Answers)
             ? DocumentShape::Pair
             : DocumentShape::None;
}

DocumentShape documentShapeOfStart(StringRef Text) {
  LooseJson In(Text);
  if (In.next() != Token::Object)
    return DocumentShape::None;
  std::string Key;
  for (;;) {
    Token T = In.next();
    if (T == Token::Key) {
      Key = In.text().str();
      if (isForeign(Key))
        return DocumentShape::None;
      continue;
    }
    const bool Texting = is_contained(Texts, Key);
    if (T == Token::String && Texting)
      return DocumentShape::Text;
    if (T == Token::Error)
      // The value that breaks off, if it is one of text.
      return Texting && Text.drop_front(In.offset()).starts_with("\"")
                 ? DocumentShape::Text
                 : DocumentShape::None;
    if (T == Token::EndObject || T == Token::End || !In.skip(T))
      return DocumentShape::None;
  }
}

StringRef splitOfWord(StringRef Word) {
  return StringSwitch<StringRef>(Word)
      .CasesLower("train", "training", "sft", "pretrain", "trainset", "train")
      .CasesLower("valid", "validation", "val", "dev", "validation")
      .CasesLower("eval", "evaluation", "validation")
      .CasesLower("test", "testing", "heldout", "holdout", "testset", "test")
      .CasesLower("benchmark", "bench", "test")
      .Default("");
}

/// Calls \p Each with every word of \p Name until it returns true.
template <typename EachT> static bool anyWord(StringRef Name, EachT Each) {
  while (!Name.empty()) {
    Name = Name.drop_until(isAlpha);
    StringRef Word = Name.take_while(isAlpha);
    if (!Word.empty() && Each(Word))
      return true;
    Name = Name.drop_front(Word.size());
  }
  return false;
}

/// The name without any of its endings: train.jsonl.gz is train.
static StringRef stemOf(StringRef Path) {
  return sys::path::filename(Path).take_until([](char C) { return C == '.'; });
}

StringRef splitOfPath(StringRef Path) {
  StringRef Found;
  auto Look = [&](StringRef Word) {
    Found = splitOfWord(Word);
    return !Found.empty();
  };
  if (anyWord(stemOf(Path), Look))
    return Found;
  // Whole names, and no further up: a run may lie below somebody's "test".
  StringRef Folder = sys::path::parent_path(Path);
  if (Look(sys::path::filename(Folder)) ||
      Look(sys::path::filename(sys::path::parent_path(Folder))))
    return Found;
  return "";
}

bool isNamedLikeData(StringRef Path) {
  bool Data = false, Else = false;
  anyWord(stemOf(Path), [&](StringRef Word) {
    Data |= !splitOfWord(Word).empty();
    for (StringRef Other : {"dataset", "data", "corpus", "alpaca", "sharegpt"})
      Data |= Word.equals_insensitive(Other);
    for (StringRef Other :
         {"answers", "generations", "generated", "predictions", "preds",
          "outputs", "output", "responses", "results", "result", "completions",
          "samples", "log", "logs", "requests", "metrics", "config", "replies"})
      Else |= Word.equals_insensitive(Other);
    return false;
  });
  StringRef Folder = sys::path::filename(sys::path::parent_path(Path));
  for (StringRef Other : {"dataset", "datasets", "data", "corpus"})
    Data |= Folder.equals_insensitive(Other);
  return Data && !Else;
}

} // namespace culprit
