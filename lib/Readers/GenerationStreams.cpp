//===- GenerationStreams.cpp ------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/GenerationStreams.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace culprit {

/// Its id, or the number of the record in the file.
std::string GenerationStreams::nameOf(const GenerationParts &P) {
  std::string Id = idOf(P);
  return Id.empty() ? "#" + itostr(Number) : Id;
}

/// One of several answers to a request has its number in its id.
static std::string idOfChoice(const std::string &Id, LooseValue Choice) {
  std::optional<int64_t> Index = Choice["index"].integer();
  return Index && *Index > 0 ? Id + "#" + itostr(*Index) : Id;
}

static bool hasContent(const RequestRecord &R) {
  return R.Prompt || R.Response || !R.Error.empty() || R.Status;
}

bool GenerationStreams::whole(const GenerationParts &P, int64_t Place) {
  RequestRecord R = requestOf(P);
  R.Id = nameOf(P);
  R.Place = Place;
  if (!P.Choices) {
    if (!hasContent(R))
      return false;
    if (Rows.keepsTexts(R.Id)) {
      GenerationTokens Tokens(Rows, R.Id);
      Tokens.response(P.Response, Place);
    }
    Rows.add(R);
    return true;
  }
  bool First = true;
  // One record for all of them: a long prompt is not copied for each.
  RequestRecord Own = R;
  for (LooseValue C = P.Choices.first(); C; C = C.next()) {
    Own.Id = idOfChoice(R.Id, C);
    Own.Response = R.Response;
    Own.FinishReason = R.FinishReason;
    Own.CompletionTokens = R.CompletionTokens;
    addChoice(C, Own);
    // With several answers nobody says how many tokens each has.
    bool Alone = First && !C.next();
    if (Rows.keepsTexts(Own.Id)) {
      GenerationTokens Tokens(Rows, Own.Id);
      if (First)
        Tokens.response(P.Response, Place);
      Tokens.choice(C, Alone ? R.CompletionTokens : std::nullopt, Place);
    }
    if (!Alone)
      Own.CompletionTokens = std::nullopt;
    Rows.add(Own);
    First = false;
  }
  return true;
}

GenerationStreams::Stream &
GenerationStreams::stream(const std::string &Id, const RequestRecord &Begin,
                          int64_t Place) {
  if (auto Known = ById.find(Id); Known != ById.end())
    return *Known->second;
  if (Open.size() >= MaxOpen)
    flush();
  RequestRecord R = Begin;
  // A stream without an id is named by its first record.
  R.Id = Id.empty() ? "#" + itostr(Number) : Id;
  R.Place = Place;
  R.Response.reset();
  std::string Name = R.Id;
  Open.push_back(std::make_unique<Stream>(
      Stream{std::move(R), GenerationTokens(Rows, std::move(Name))}));
  return *(ById[Id] = Open.back().get());
}

bool GenerationStreams::chunk(const GenerationParts &P, int64_t Place) {
  std::string Id = idOf(P);
  RequestRecord Now = requestOf(P);
  auto Update = [&](RequestRecord &R) {
    if (Now.PromptTokens)
      R.PromptTokens = Now.PromptTokens;
    if (Now.CompletionTokens)
      R.CompletionTokens = Now.CompletionTokens;
    if (!Now.Error.empty())
      R.Error = Now.Error;
    if (Now.Seed)
      R.Seed = Now.Seed;
    if (Now.Latency)
      R.Latency = Now.Latency;
    if (Now.Ttft)
      R.Ttft = Now.Ttft;
  };
  if (P.Choices) {
    for (LooseValue C = P.Choices.first(); C; C = C.next()) {
      Stream &S = stream(idOfChoice(Id, C), Now, Place);
      if (!S.R.Response || S.R.Response->size() < RequestRows::MaxText)
        addChoice(C, S.R);
      else if (C["finish_reason"].isText())
        S.R.FinishReason = C["finish_reason"].text().str();
      if (!S.Whole)
        S.Tokens.choice(C, std::nullopt, Place);
      Update(S.R);
    }
    return true;
  }
  bool Token = P.Response["token"].isObject();
  bool Again = P.Response["meta_info"].isObject();
  if (!Token && !Again && !ById.contains(Id) && !hasContent(Now))
    return ById.empty() ? false : true; // usage alone, or a ping
  Stream &S = stream(Id, Now, Place);
  Update(S.R);
  if (!Now.FinishReason.empty())
    S.R.FinishReason = Now.FinishReason;
  if (Token) { // TGI
    if (!S.R.Response)
      S.R.Response.emplace();
    LooseValue Piece = P.Response["token"];
    // Its last chunk has all of the text.
    if (P.Response["generated_text"].isText())
      S.R.Response = P.Response["generated_text"].text().str();
    else if (S.R.Response->size() < RequestRows::MaxText)
      *S.R.Response += Piece["text"].text();
    S.Tokens.response(P.Response, Place);
    if (P.Response["generated_text"].isText())
      flush();
  } else if (Again) { // SGLang: of a stream the last one counts
    S.R.Response = Now.Response;
    // Tokens are taken once, from the chunk that ends the stream.
    if (!Now.FinishReason.empty() && !S.Whole) {
      S.Tokens.response(P.Response, Place);
      S.Whole = true;
    }
  } else if (Now.Response) { // Ollama and others: pieces of text
    if (!S.R.Response)
      S.R.Response.emplace();
    if (S.R.Response->size() < RequestRows::MaxText)
      *S.R.Response += *Now.Response;
  }
  if (P.Response["done"].boolean() == true)
    flush();
  return true;
}

bool GenerationStreams::record(LooseValue Record, bool Event, int64_t Place) {
  ++Number;
  if (!Record.isObject())
    return false;
  GenerationParts P = partsOf(Record);
  bool Piece = P.Choices.first()["delta"].isObject() ||
               P.Response["object"].text() == "chat.completion.chunk" ||
               P.Response["done"].boolean(); // Ollama
  return Event || Piece ? chunk(P, Place) : whole(P, Place);
}

void GenerationStreams::flush() {
  for (std::unique_ptr<Stream> &S : Open)
    Rows.add(S->R);
  Open.clear();
  ById.clear();
}

} // namespace culprit
