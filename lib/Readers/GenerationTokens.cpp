//===- GenerationTokens.cpp -------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/GenerationTokens.h"
#include <cmath>

using namespace llvm;

namespace culprit {

/// A text, or vLLM's "token_id:17" of return_tokens_as_token_ids.
static void setText(TokenChoice &C, StringRef Text) {
  int64_t Id;
  StringRef Digits = Text;
  if (Digits.consume_front("token_id:") && !Digits.getAsInteger(10, Id)) {
    C.Id = Id;
    return;
  }
  C.Text = Text;
  C.HasText = true;
}

static TokenChoice fromObject(LooseValue V) {
  static constexpr StringLiteral Texts[] = {"token", "text", "decoded_token"};
  static constexpr StringLiteral Ids[] = {"id", "token_id"};
  TokenChoice C;
  if (LooseValue Text = V.any(Texts); Text.isText())
    setText(C, Text.text());
  if (LooseValue Id = V.any(Ids))
    C.Id = Id.integer();
  C.Logprob = V["logprob"].number();
  // llama.cpp, where probabilities were asked for behind the samplers.
  if (std::optional<double> P = V["prob"].number(); P && !C.Logprob && *P >= 0)
    C.Logprob = std::log(*P);
  C.Rank = V["rank"].integer();
  return C;
}

/// [logprob, id, text]; the text is null unless it was asked for.
static TokenChoice fromTuple(LooseValue V) {
  TokenChoice C;
  LooseValue Logprob = V.first(), Id = Logprob.next(), Text = Id.next();
  C.Logprob = Logprob.number();
  C.Id = Id.integer();
  if (Text.isText())
    setText(C, Text.text());
  return C;
}

/// "17": {"logprob": -0.1, "rank": 1, "decoded_token": "a"}
static TokenChoice fromEntry(LooseValue V) {
  TokenChoice C = V.isObject() ? fromObject(V) : TokenChoice();
  if (!V.isObject())
    C.Logprob = V.number();
  int64_t Id;
  if (!C.Id && !V.key().getAsInteger(10, Id))
    C.Id = Id;
  return C;
}

void GenerationTokens::add(const TokenChoice &Chosen, bool OfPrompt,
                           int64_t Place) {
  int64_t &Next = OfPrompt ? NextOfPrompt : NextOfAnswer;
  Rows.token(Request, Next++, OfPrompt, Chosen, Others, Place);
}

void GenerationTokens::chat(LooseValue Content, int64_t Place) {
  for (LooseValue V = Content.first(); V; V = V.next()) {
    Others.clear();
    static constexpr StringLiteral Tops[] = {"top_logprobs", "top_probs"};
    for (LooseValue A = V.any(Tops).first(); A; A = A.next())
      Others.push_back(fromObject(A));
    add(fromObject(V), false, Place);
  }
}

void GenerationTokens::legacy(LooseValue Logprobs,
                              std::optional<int64_t> Answer, int64_t Place) {
  int64_t Count = Logprobs["tokens"].size();
  int64_t Echoed = Answer && Count > *Answer ? Count - *Answer : 0;
  LooseValue Lp = Logprobs["token_logprobs"].first();
  LooseValue Top = Logprobs["top_logprobs"].first();
  int64_t Index = 0;
  for (LooseValue V = Logprobs["tokens"].first(); V; V = V.next(), ++Index) {
    Others.clear();
    for (LooseValue A = Top.first(); A; A = A.next()) {
      TokenChoice C;
      setText(C, A.key());
      C.Logprob = A.number();
      Others.push_back(C);
    }
    TokenChoice Chosen;
    setText(Chosen, V.text());
    Chosen.Logprob = Lp.number();
    add(Chosen, Index < Echoed, Place);
    Lp = Lp.next();
    Top = Top.next();
  }
}

void GenerationTokens::byId(LooseValue Positions, LooseValue Ids,
                            bool OfPrompt, int64_t Place) {
  LooseValue Id = Ids.first();
  for (LooseValue V = Positions.first(); V; V = V.next()) {
    Others.clear();
    for (LooseValue A = V.first(); A; A = A.next())
      Others.push_back(fromEntry(A));
    // vLLM puts the token itself before the likeliest ones.
    TokenChoice Chosen = Others.empty() ? TokenChoice() : Others.front();
    if (std::optional<int64_t> Known = Id.integer()) {
      if (Chosen.Id != Known)
        Chosen = TokenChoice();
      Chosen.Id = Known;
      for (const TokenChoice &C : Others)
        if (C.Id == Known)
          Chosen = C;
    }
    add(Chosen, OfPrompt, Place);
    Id = Id.next();
  }
}

void GenerationTokens::objects(LooseValue List, LooseValue Tops, bool OfPrompt,
                               int64_t Place) {
  LooseValue Top = Tops.first();
  for (LooseValue V = List.first(); V; V = V.next()) {
    Others.clear();
    for (LooseValue A = Top.first(); A; A = A.next())
      Others.push_back(fromObject(A));
    add(fromObject(V), OfPrompt, Place);
    Top = Top.next();
  }
}

void GenerationTokens::tuples(LooseValue List, LooseValue Tops, bool OfPrompt,
                              int64_t Place) {
  LooseValue Top = Tops.first();
  for (LooseValue V = List.first(); V; V = V.next()) {
    Others.clear();
    for (LooseValue A = Top.first(); A; A = A.next())
      Others.push_back(fromTuple(A));
    add(fromTuple(V), OfPrompt, Place);
    Top = Top.next();
  }
}

void GenerationTokens::choice(LooseValue Choice, std::optional<int64_t> Answer,
                              int64_t Place) {
  byId(Choice["prompt_logprobs"], Choice["prompt_token_ids"], true, Place);
  LooseValue Logprobs = Choice["logprobs"];
  chat(Logprobs["content"], Place);
  if (Logprobs["tokens"])
    legacy(Logprobs, Answer, Place);
  if (Logprobs.isArray())
    byId(Logprobs, Choice["token_ids"], false, Place);
}

void GenerationTokens::response(LooseValue Body, int64_t Place) {
  byId(Body["prompt_logprobs"], Body["prompt_token_ids"], true, Place);
  if (LooseValue Details = Body["details"]; Details.isObject()) {
    objects(Details["prefill"], {}, true, Place);
    objects(Details["tokens"], Details["top_tokens"], false, Place);
  }
  chat(Body["completion_probabilities"], Place); // llama.cpp
  // One token of a stream of TGI.
  if (LooseValue Token = Body["token"]; Token.isObject()) {
    Others.clear();
    for (LooseValue A = Body["top_tokens"].first(); A; A = A.next())
      Others.push_back(fromObject(A));
    add(fromObject(Token), false, Place);
  }
  if (LooseValue Meta = Body["meta_info"]; Meta.isObject()) {
    tuples(Meta["input_token_logprobs"], Meta["input_top_logprobs"], true,
           Place);
    tuples(Meta["output_token_logprobs"], Meta["output_top_logprobs"], false,
           Place);
  }
}

} // namespace culprit
