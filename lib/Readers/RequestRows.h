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
#include <vector>

namespace culprit {

/// A request, as far as it is known; texts that are empty are not.
struct RequestRecord {
  std::string Id;
  std::string Model;
  std::string AskedModel; ///< Of the request, where both are on record.
  std::optional<double> Created; ///< When the answer says it was made.
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
  std::optional<int64_t> Id = std::nullopt;
  /// In nats; none where it was null.
  std::optional<double> Logprob = std::nullopt;
  /// In the vocabulary, where recorded.
  std::optional<int64_t> Rank = std::nullopt;
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
///
/// Memory does not grow with the file. Of more requests than MaxRows, or than
/// MaxRowsOfLarge of a large file, every second is given up, then every second
/// of these, and so on; those that failed are counted apart, so that they go
/// last. Which ones stay depends on the id alone: all attempts of a request
/// share its fate. `weight` says how many requests a row stands for.
class RequestRows {
public:
  /// \p Bytes: of the file, as far as it is known. Of a large one texts and
  /// tokens are kept of some requests alone.
  explicit RequestRows(Source &S, uint64_t Bytes = 0);

  /// Rows are written, but for what is known only at the end: finish() must
  /// follow the last one.
  void add(const RequestRecord &R);
  void finish();
  /// Counts a request that did not fail and of which add() would keep nothing;
  /// false, and nothing is counted, where it would. Saves making the record.
  bool passOver(llvm::StringRef Id);
  /// Whether add() and token() would keep texts and tokens of the request.
  bool keepsTexts(llvm::StringRef Id) const;
  /// Adds the token at \p Position of the answer (or of the prompt).
  void token(llvm::StringRef Request, int64_t Position, bool OfPrompt,
             const TokenChoice &Chosen, llvm::ArrayRef<TokenChoice> Others,
             int64_t Place);

  /// Requests given, kept or not.
  size_t requests() const { return NumRequests; }
  size_t tokens() const { return NumTokens; }

  /// Texts are cut to this, before a character.
  static constexpr size_t MaxText = 64 * 1024;
  static llvm::StringRef capped(llvm::StringRef Text);

  /// Rows of one kind, failed or not, at most.
  static constexpr size_t MaxRows = 1 << 18, MaxRowsOfLarge = 1 << 16;
  /// A file of more bytes than this is large, and texts are kept of this much
  /// of it.
  static constexpr uint64_t TextBytes = 64 << 20;

private:
  /// Requests that ended well, or those that failed.
  struct Kind {
    unsigned Stride = 1; ///< One in so many is kept.
    size_t Rows = 0;
  };
  void thinOut(bool Failed);

  Source &S;
  StringId Run, Variant, PathHop, PromptId, AnswerId;
  size_t NumRequests = 0, NumTokens = 0;
  unsigned TextStride = 1;
  size_t RowLimit = MaxRows;
  Kind Kinds[2];
  /// Of each row: the hash that decides about it, its lowest bit replaced by
  /// whether it failed.
  std::vector<uint64_t> Fates;
};

} // namespace culprit

#endif // CULPRIT_READERS_REQUESTROWS_H
