//===- RequestRows.h - Rows of requests and their tokens --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// What the readers of responses, server logs and access logs share: filling
/// `requests` and `tokens`, and what follows from the alternatives that a
/// server recorded for a token.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_REQUESTROWS_H
#define CULPRIT_READERS_REQUESTROWS_H

#include "Case/Source.h"
#include "llvm/ADT/ArrayRef.h"
#include <optional>
#include <string>

namespace culprit {

/// A request, as far as it is known; texts that are empty are not.
struct RequestRecord {
  std::string Id;
  std::string Model;
  std::optional<int64_t> PromptTokens, CompletionTokens;
  std::optional<double> Ttft, Latency; ///< Seconds.
  std::optional<int64_t> Status;
  std::string FinishReason;
  std::string Hop; ///< Empty: what the path tells, if it does.
  std::optional<double> At; ///< Unix seconds.
  /// An empty text that was sent or answered is one.
  std::optional<std::string> Prompt, Response;
  std::optional<std::string> Expected;
  std::optional<bool> Correct;
  std::optional<double> Temperature, TopP;
  std::optional<int64_t> MaxTokens, Seed;
  std::string Error;
  std::optional<int64_t> Attempt;
  std::string Endpoint, Method;
  std::optional<int64_t> Bytes;
  int64_t Place = 0; ///< Line, from 1.
};

/// A token that might have been chosen.
struct TokenChoice {
  llvm::StringRef Text;
  std::optional<int64_t> Id;
  std::optional<double> Logprob; ///< In nats; none where it was null.
  std::optional<int64_t> Rank;   ///< In the vocabulary, where recorded.
  bool HasText = false;
};

/// What a distribution that is known in parts tells of one token.
struct TokenOdds {
  std::optional<double> Entropy, BestLogprob, Margin, Mass, EndLogprob;
  std::optional<int64_t> Rank;
  const TokenChoice *Best = nullptr;
};

/// \p Others are the recorded alternatives, with the \p Chosen one or without
/// it. Null but for the rank without any. Probability that none of them has
/// counts as one more outcome of the entropy, which is a lower bound then.
TokenOdds oddsOf(const TokenChoice &Chosen, llvm::ArrayRef<TokenChoice> Others);

/// Whether \p Text is a token by which models end an answer.
bool isEndToken(llvm::StringRef Text);

/// The side that a path tells, as in before/answers.jsonl and serve_run.log;
/// folders count from the innermost, as whole names. Empty where none does.
llvm::StringRef variantOfPath(llvm::StringRef Path);

/// Likewise the hop: client, gateway, server or engine.
llvm::StringRef hopOfPath(llvm::StringRef Path);

/// Fills the tables of one Source, which must outlive it. Not thread-safe.
class RequestRows {
public:
  explicit RequestRows(Source &S);

  void add(const RequestRecord &R);
  /// Adds the token at \p Position of the answer (or of the prompt).
  void token(llvm::StringRef Request, int64_t Position, bool OfPrompt,
             const TokenChoice &Chosen, llvm::ArrayRef<TokenChoice> Others,
             int64_t Place);

  size_t requests() const { return NumRequests; }
  size_t tokens() const { return NumTokens; }

  /// Texts are cut to this, before a character.
  static constexpr size_t MaxText = 64 * 1024;
  static llvm::StringRef capped(llvm::StringRef Text);

private:
  Source &S;
  StringId Run, Variant, PathHop, PromptId, AnswerId;
  size_t NumRequests = 0, NumTokens = 0;
};

} // namespace culprit

#endif // CULPRIT_READERS_REQUESTROWS_H
