//===- GenerationShape.cpp --------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/GenerationShape.h"
#include "Readers/JsonRecords.h"
#include "Support/LooseJson.h"
#include "llvm/ADT/StringSet.h"

using namespace llvm;

namespace culprit {

using Token = LooseJson::Token;

namespace {
/// Paths of keys down to the fourth level, by the kind of their values. The
/// elements of lists have the path of the list.
struct SeenKeys {
  StringSet<> Texts, Objects, Lists, Others;

  bool text(StringRef Path) const { return Texts.contains(Path); }
  bool object(StringRef Path) const { return Objects.contains(Path); }
  bool list(StringRef Path) const { return Lists.contains(Path); }
  bool any(StringRef Path) const {
    return text(Path) || object(Path) || list(Path) || Others.contains(Path);
  }
};
} // namespace

/// Reads the keys of one value; false when the text breaks off.
static bool collect(LooseJson &In, SeenKeys &Out) {
  // For each open container, where its own part of the path ends.
  SmallVector<std::pair<Token, size_t>, 16> Open;
  std::string Path;
  size_t Before = 0;
  bool HasKey = false;
  unsigned Values = 0;
  for (;;) {
    Token T = In.next();
    switch (T) {
    case Token::Error:
    case Token::End:
      // A long prompt goes on beyond the head.
      if (HasKey)
        Out.Texts.insert(Path);
      return false;
    case Token::Key:
      Before = Path.size();
      if (!Path.empty())
        Path += '/';
      Path += In.text().take_front(40);
      HasKey = true;
      continue;
    case Token::EndObject:
    case Token::EndArray:
      Path.resize(Open.pop_back_val().second);
      if (Open.empty())
        return true;
      continue;
    default:
      break;
    }
    bool Deep = std::count(Path.begin(), Path.end(), '/') > 3;
    if (HasKey && !Deep)
      (T == Token::String   ? Out.Texts
       : T == Token::Object ? Out.Objects
       : T == Token::Array  ? Out.Lists
                            : Out.Others)
          .insert(Path);
    else if (!HasKey && T == Token::Object && !Path.empty() && !Deep)
      Out.Objects.insert(Path + "[]"); // an element of a list
    if (T == Token::Object || T == Token::Array) {
      Open.push_back({T, HasKey ? Before : Path.size()});
      HasKey = false;
      continue;
    }
    if (Open.empty())
      return true;
    if (HasKey)
      Path.resize(Before);
    HasKey = false;
    // A list of numbers tells nothing more.
    if (++Values > 20000)
      return false;
  }
}

static bool isServer(const SeenKeys &Keys) {
  for (StringRef Body : {"", "response/body/", "response/", "output/", "body/",
                         "completion/", "result/"}) {
    auto At = [&](const char *Key) { return (Body + Key).str(); };
    if (Keys.object(At("choices[]")) &&
        (Keys.object(At("choices/message")) ||
         Keys.object(At("choices/delta")) || Keys.text(At("choices/text")) ||
         Keys.any(At("choices/finish_reason"))))
      return true;
    if (Keys.text(At("object")) && Keys.list(At("choices")) &&
        Keys.any(At("created")))
      return true; // the last chunk of a stream has usage alone
    if (Keys.object(At("meta_info")) && Keys.any(At("text")))
      return true;
    if (Keys.object(At("details")) && Keys.any(At("generated_text")))
      return true;
    if (Keys.object(At("token")) && Keys.any(At("token/logprob")) &&
        Keys.any(At("generated_text")))
      return true;
    if (Keys.object(At("outputs[]")) && Keys.text(At("outputs/text")) &&
        Keys.any(At("outputs/finish_reason")))
      return true;
    if (Keys.text(At("role")) && Keys.list(At("content")) &&
        Keys.any(At("stop_reason")))
      return true; // Anthropic
    if (Keys.any(At("tokens_predicted")) && Keys.text(At("content")))
      return true; // llama.cpp
    if (Keys.any(At("done")) && Keys.any(At("created_at")) &&
        (Keys.object(At("message")) || Keys.text(At("response"))))
      return true; // Ollama
  }
  if (Keys.any("custom_id") && (Keys.any("response") || Keys.object("body")))
    return true;
  for (StringRef Side : {"", "request/", "body/", "request/body/"}) {
    auto At = [&](const char *Key) { return (Side + Key).str(); };
    if (Keys.object(At("messages[]")) && Keys.text(At("messages/role")) &&
        Keys.any(At("messages/content")))
      return true;
    if (Keys.text(At("prompt")) && Keys.text(At("model")) &&
        (Keys.any(At("max_tokens")) || Keys.any(At("temperature"))))
      return true;
    if (Keys.text(At("inputs")) && Keys.object(At("parameters")))
      return true;
  }
  return Keys.list("resps") && Keys.any("doc_id"); // lm-evaluation-harness
}

static GenerationShape shapeByNames(const SeenKeys &Keys) {
  bool ClearPrompt = Keys.text("prompt") || Keys.text("question") ||
                     Keys.text("query") || Keys.text("instruction") ||
                     Keys.text("problem");
  bool Prompt = ClearPrompt || Keys.text("input") || Keys.text("inputs");
  bool ClearAnswer = false;
  for (StringRef Key : {"response", "answer", "completion", "generated_text",
                        "prediction", "generation", "model_output"})
    ClearAnswer |= Keys.text(Key);
  // A row without texts: how many tokens, how long, and how it ended.
  bool Count = false, Length = false, Ended = false;
  for (StringRef Key : {"prompt_tokens", "input_tokens", "completion_tokens",
                        "output_tokens"})
    Count |= Keys.any(Key) || Keys.any(("usage/" + Key).str());
  for (StringRef Base : {"latency", "e2e_latency", "duration", "elapsed",
                         "response_time", "request_time", "total_time"})
    for (StringRef Unit : {"", "_s", "_ms", "_us", "_seconds"})
      Length |= Keys.any((Base + Unit).str());
  for (StringRef Key : {"status", "status_code", "http_status",
                        "finish_reason"})
    Ended |= Keys.any(Key);
  if (Count && Length && Ended && !Keys.any("level"))
    return GenerationShape::Clear;
  bool Answer = ClearAnswer || Keys.text("output");
  bool Judged = false;
  for (StringRef Key : {"expected", "reference", "target", "gold",
                        "ground_truth", "correct", "is_correct"})
    Judged |= Keys.any(Key);
  if (Keys.list("conversations") && Keys.text("conversations/from"))
    return GenerationShape::Clear;
  if (ClearPrompt && ClearAnswer)
    return GenerationShape::Clear;
  if ((Prompt && Answer) || (ClearAnswer && Judged))
    return GenerationShape::Possible;
  return GenerationShape::None;
}

GenerationShape generationShape(StringRef Text, size_t &End) {
  SeenKeys Keys;
  LooseJson In(Text);
  End = collect(In, Keys) ? In.end() : 0;
  if (isServer(Keys))
    return GenerationShape::Server;
  // Nothing else has a prompt that fills the head.
  if (!End && Text.size() > (1 << 15) &&
      (Keys.text("prompt") || Keys.text("question")))
    return GenerationShape::Clear;
  return shapeByNames(Keys);
}

StringRef withoutEventPrefix(StringRef Line) {
  if (Line.consume_front("data:"))
    return Line.ltrim();
  return Line;
}

} // namespace culprit
