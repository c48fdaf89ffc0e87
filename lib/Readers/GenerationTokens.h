//===- GenerationTokens.h - Log probabilities of an answer ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// The forms in which servers write the log probabilities of tokens:
///
///   OpenAI chat   "logprobs": {"content": [{"token", "logprob",
///                 "top_logprobs": [{"token", "logprob"}, ...]}, ...]}
///   completions   "logprobs": {"tokens": [...], "token_logprobs": [...],
///                 "top_logprobs": [{"text": logprob, ...}, ...]}
///   vLLM          "prompt_logprobs": [null, {"id": {"logprob", "rank",
///                 "decoded_token"}, ...}, ...], the same for answers of
///                 vllm.LLM.generate
///   TGI           "details": {"prefill": [{"id", "text", "logprob"}],
///                 "tokens": [...], "top_tokens": [[...], ...]}
///   SGLang        "meta_info": {"output_token_logprobs": [[logprob, id,
///                 text], ...], "output_top_logprobs": [[[...], ...], ...]}
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_GENERATIONTOKENS_H
#define CULPRIT_READERS_GENERATIONTOKENS_H

#include "Readers/RequestRows.h"
#include "Support/LooseTree.h"
#include "llvm/ADT/SmallVector.h"

namespace culprit {

/// Adds the tokens of one request, piece by piece where it was streamed.
/// Counts on in the prompt and in the answer.
class GenerationTokens {
public:
  GenerationTokens(RequestRows &Rows, std::string Request)
      : Rows(Rows), Request(std::move(Request)) {}

  /// Of an element of `choices`, or of `outputs` of vllm.LLM.generate.
  /// \p Answer is the number of tokens of the answer, where it is known: an
  /// echoed prompt is told by it.
  void choice(LooseValue Choice, std::optional<int64_t> Answer, int64_t Place);
  /// Of a response as a whole: TGI, SGLang, prompt_logprobs.
  void response(LooseValue Body, int64_t Place);

private:
  using Choices = llvm::SmallVector<TokenChoice, 24>;

  void chat(LooseValue Content, int64_t Place);
  void legacy(LooseValue Logprobs, std::optional<int64_t> Answer,
              int64_t Place);
  void byId(LooseValue Positions, LooseValue Ids, bool OfPrompt,
            int64_t Place);
  void objects(LooseValue List, LooseValue Tops, bool OfPrompt, int64_t Place);
  void tuples(LooseValue List, LooseValue Tops, bool OfPrompt, int64_t Place);
  void add(const TokenChoice &Chosen, bool OfPrompt, int64_t Place);

  RequestRows &Rows;
  std::string Request;
  Choices Others;
  int64_t NextOfPrompt = 0, NextOfAnswer = 0;
};

} // namespace culprit

#endif // CULPRIT_READERS_GENERATIONTOKENS_H
