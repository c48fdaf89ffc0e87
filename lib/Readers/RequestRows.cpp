//===- RequestRows.cpp ------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/RequestRows.h"
#include "Support/Text.h"
#include "Support/Units.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/xxhash.h"
#include <cmath>

using namespace llvm;

namespace culprit {

bool isEndToken(StringRef Text) {
  static constexpr StringLiteral Known[] = {
      "</s>",          "<|endoftext|>",     "<|im_end|>",
      "<|eot_id|>",    "<|end_of_text|>",   "<|eom_id|>",
      "<eos>",         "<end_of_turn>",     "<|end|>",
      "<|return|>",    "<|eot|>",           "<|end_of_turn|>",
      "<|eos|>",       "[EOS]",             "<EOS>",
      "<|END_OF_TURN_TOKEN|>", "[|endofturn|]", "<|endofturn|>",
      "<|end_of_sentence|>", "<|end_of_role|>", "<|im_end|>\n",
      "<｜end▁of▁sentence｜>", "<|endofassistant|>"};
  Text = Text.trim(' ');
  // Nearly no token is one.
  if (Text.size() < 4 || (Text[0] != '<' && Text[0] != '['))
    return false;
  return is_contained(Known, Text);
}

static bool isSame(const TokenChoice &A, const TokenChoice &B) {
  if (A.Id && B.Id)
    return *A.Id == *B.Id;
  return A.HasText && B.HasText && A.Text == B.Text;
}

TokenOdds oddsOf(const TokenChoice &Chosen, ArrayRef<TokenChoice> Others) {
  TokenOdds Out;
  Out.Rank = Chosen.Rank;
  if (Others.empty())
    return Out;
  // Two ids may have the same text, as pieces of characters do; the one that
  // is as likely as the chosen one is it.
  const TokenChoice *Own = nullptr;
  for (const TokenChoice &C : Others)
    if (isSame(C, Chosen) && (!Own || C.Logprob == Chosen.Logprob))
      Own = &C;
  const TokenChoice *Second = nullptr;
  double Mass = 0, Entropy = 0;
  auto Outcome = [&](const TokenChoice &C) {
    if (!C.Logprob || std::isnan(*C.Logprob))
      return;
    double P = std::exp(*C.Logprob);
    Mass += P;
    if (P > 0 && std::isfinite(P))
      Entropy -= P * *C.Logprob;
    if (!Out.Best || *C.Logprob > *Out.Best->Logprob) {
      Second = Out.Best;
      Out.Best = &C;
    } else if (!Second || *C.Logprob > *Second->Logprob) {
      Second = &C;
    }
    if (isEndToken(C.Text) && C.HasText)
      if (!Out.EndLogprob || *C.Logprob > *Out.EndLogprob)
        Out.EndLogprob = C.Logprob;
  };
  for (const TokenChoice &C : Others)
    Outcome(C);
  if (!Own)
    Outcome(Chosen);
  if (!Out.Best)
    return Out;
  Out.BestLogprob = Out.Best->Logprob;
  if (Second && std::isfinite(*Out.BestLogprob))
    Out.Margin = *Out.BestLogprob - *Second->Logprob;
  if (double Rest = 1 - Mass; Rest > 1e-12)
    Entropy -= Rest * std::log(Rest);
  Out.Mass = std::min(Mass, 1.0);
  Out.Entropy = std::max(Entropy, 0.0);
  if (!Out.Rank && Own && Own->Logprob && !std::isnan(*Own->Logprob))
    Out.Rank = 1 + count_if(Others, [&](const TokenChoice &C) {
                 return C.Logprob && *C.Logprob > *Own->Logprob;
               });
  return Out;
}

namespace {
struct PathWord {
  StringLiteral Word, Means;
};
} // namespace

static constexpr PathWord Variants[] = {
    {"before", "before"},       {"after", "after"},
    {"train", "train"},         {"training", "train"},
    {"serve", "serve"},         {"served", "serve"},
    {"serving", "serve"},       {"base", "base"},
    {"chat", "chat"},           {"instruct", "chat"},
    {"good", "good"},           {"bad", "bad"},
    {"baseline", "baseline"},   {"candidate", "candidate"},
    {"reference", "reference"}, {"ref", "reference"},
    {"golden", "golden"},       {"canary", "canary"},
    {"control", "control"},     {"treatment", "treatment"},
    {"old", "old"},             {"new", "new"},
    {"direct", "direct"}};

static constexpr PathWord Hops[] = {
    {"client", "client"},   {"clients", "client"}, {"gateway", "gateway"},
    {"proxy", "gateway"},   {"nginx", "gateway"},  {"envoy", "gateway"},
    {"ingress", "gateway"}, {"server", "server"},  {"engine", "engine"}};

static StringRef meaning(StringRef Word, ArrayRef<PathWord> Words) {
  for (const PathWord &W : Words)
    if (Word.equals_insensitive(W.Word))
      return W.Means;
  return "";
}

/// The first of \p Words in the name of the file, whose parts are divided by
/// anything but letters, or a folder that is called so.
static StringRef wordOfPath(StringRef Path, ArrayRef<PathWord> Words) {
  StringRef Name = sys::path::filename(Path);
  while (!Name.empty()) {
    StringRef Part = Name.take_while(isAlpha);
    Name = Name.drop_front(std::max<size_t>(Part.size(), 1));
    // A file of chat completions, chat.json, is of no side.
    bool Kind = Part.equals_insensitive("chat") &&
                (Name.starts_with(".") ||
                 Name.drop_front(!Name.empty())
                     .starts_with_insensitive("completion"));
    if (StringRef Found = meaning(Part, Words); !Found.empty() && !Kind)
      return Found;
  }
  StringRef Folder = sys::path::parent_path(Path);
  for (unsigned Level = 0; Level != 4 && !Folder.empty(); ++Level) {
    if (StringRef Found = meaning(sys::path::filename(Folder), Words);
        !Found.empty())
      return Found;
    Folder = sys::path::parent_path(Folder);
  }
  return "";
}

StringRef variantOfPath(StringRef Path) { return wordOfPath(Path, Variants); }
StringRef hopOfPath(StringRef Path) { return wordOfPath(Path, Hops); }

RequestRows::RequestRows(Source &S, uint64_t Bytes) : S(S) {
  while (Bytes / TextStride > TextBytes)
    TextStride *= 2;
  if (TextStride > 1)
    RowLimit = MaxRowsOfLarge;
  auto Id = [&](StringRef Text) {
    return Text.empty() ? NullString : S.pool().intern(Text);
  };
  Run = Id(S.Run);
  Variant = Id(variantOfPath(S.path()));
  PathHop = Id(hopOfPath(S.path()));
  PromptId = Id("prompt");
  AnswerId = Id("answer");
}

StringRef RequestRows::capped(StringRef Text) {
  return wholeCharacters(Text, MaxText);
}

/// A number that looks random and that all attempts of a request share; bit 0
/// decides nothing.
static uint64_t fateOf(StringRef Id, size_t Number) {
  if (!Id.empty())
    return xxh3_64bits(Id);
  uint64_t Mixed = (Number + 1) * 0x9e3779b97f4a7c15;
  return Mixed ^ (Mixed >> 29);
}

/// Whether one of \p Stride, a power of 2, is the one with \p Fate.
static bool isChosen(uint64_t Fate, unsigned Stride) {
  return (Fate >> 1) % Stride == 0;
}

bool RequestRows::keepsTexts(StringRef Id) const {
  return TextStride == 1 || isChosen(fateOf(Id, NumRequests), TextStride);
}

bool RequestRows::passOver(StringRef Id) {
  unsigned Stride = Kinds[false].Stride;
  if (Stride == 1 || isChosen(fateOf(Id, NumRequests), Stride))
    return false;
  ++NumRequests;
  return true;
}

/// Gives up every second row of a kind.
void RequestRows::thinOut(bool Failed) {
  Kind &K = Kinds[Failed];
  K.Stride *= 2;
  std::vector<uint32_t> Kept;
  std::vector<uint64_t> KeptFates;
  for (uint32_t Row = 0; Row != Fates.size(); ++Row) {
    bool Ours = (Fates[Row] & 1) == Failed;
    if (Ours && !isChosen(Fates[Row], K.Stride))
      continue;
    Kept.push_back(Row);
    KeptFates.push_back(Fates[Row]);
  }
  K.Rows -= Fates.size() - Kept.size();
  S.table(TableId::requests).keep(Kept);
  Fates = std::move(KeptFates);
}

void RequestRows::finish() {
  if (Kinds[0].Stride == 1 && Kinds[1].Stride == 1)
    return;
  std::vector<int64_t> Weights;
  for (uint64_t Fate : Fates)
    Weights.push_back(Kinds[Fate & 1].Stride);
  S.table(TableId::requests).fill(requests::weight, Weights);
  auto Share = [](const Kind &K) {
    return K.Stride == 1 ? std::string("all") : "one in " + utostr(K.Stride);
  };
  S.Remarks.push_back(
      {Severity::Note,
       S.path() + ": of " + formatCount(NumRequests) + " requests " +
           formatCount(Fates.size()) + " are kept",
       Share(Kinds[0]) + " of those that ended well and " + Share(Kinds[1]) +
           " of those that failed, chosen by id; requests.weight counts the "
           "others"});
}

void RequestRows::add(const RequestRecord &R) {
  namespace column = requests;
  bool Failed = !R.Error.empty() || (R.Status && *R.Status >= 400);
  uint64_t Fate = fateOf(R.Id, NumRequests);
  bool Texts = keepsTexts(R.Id);
  ++NumRequests;
  Kind &K = Kinds[Failed];
  if (!isChosen(Fate, K.Stride))
    return;
  if (K.Rows == RowLimit) {
    thinOut(Failed);
    if (!isChosen(Fate, K.Stride))
      return;
  }
  ++K.Rows;
  Fates.push_back((Fate & ~uint64_t(1)) | Failed);
  TableBuilder &Row = S.table(TableId::requests);
  Row.addRow();
  auto Set = [&](unsigned Column, const auto &Value) {
    if (Value)
      Row.set(Column, *Value);
  };
  // Of words that come again and again; texts go to the pool at once.
  auto Word = [&](unsigned Column, StringRef Text) {
    if (!Text.empty())
      Row.set(Column, Text);
  };
  auto Long = [&](unsigned Column, const std::optional<std::string> &Text) {
    if (Text && Texts)
      Row.setId(Column, S.pool().intern(capped(*Text)));
  };
  if (!R.Id.empty())
    Row.setId(column::id, S.pool().intern(R.Id));
  Word(column::model, R.Model);
  Set(column::prompt_tokens, R.PromptTokens);
  Set(column::completion_tokens, R.CompletionTokens);
  Set(column::ttft, R.Ttft);
  Set(column::latency, R.Latency);
  Set(column::status, R.Status);
  Word(column::finish_reason, R.FinishReason);
  Row.set(column::place, R.Place);
  if (Run)
    Row.setId(column::run, Run);
  if (Variant)
    Row.setId(column::variant, Variant);
  if (PathHop)
    Row.setId(column::hop, PathHop);
  else
    Word(column::hop, R.Hop);
  Set(column::at, R.At);
  Long(column::prompt, R.Prompt);
  Long(column::response, R.Response);
  Long(column::expected, R.Expected);
  if (R.Correct)
    Row.setBool(column::correct, *R.Correct);
  Set(column::temperature, R.Temperature);
  Set(column::top_p, R.TopP);
  Set(column::max_tokens, R.MaxTokens);
  Set(column::seed, R.Seed);
  Word(column::error, capped(R.Error));
  Set(column::attempt, R.Attempt);
  Word(column::endpoint, R.Endpoint);
  Word(column::method, R.Method);
  Set(column::bytes, R.Bytes);
  Set(column::created, R.Created);
  Word(column::asked_model, R.AskedModel);
}

void RequestRows::token(StringRef Request, int64_t Position, bool OfPrompt,
                        const TokenChoice &Chosen,
                        ArrayRef<TokenChoice> Others, int64_t Place) {
  namespace column = tokens;
  if (TextStride != 1 && !keepsTexts(Request))
    return;
  TableBuilder &Row = S.table(TableId::tokens);
  Row.addRow();
  ++NumTokens;
  auto Set = [&](unsigned Column, const auto &Value) {
    if (Value)
      Row.set(Column, *Value);
  };
  if (!Request.empty())
    Row.set(column::request, Request);
  Row.set(column::position, Position);
  Set(column::id, Chosen.Id);
  if (Chosen.HasText)
    Row.set(column::text, capped(Chosen.Text));
  Set(column::logprob, Chosen.Logprob);
  Row.set(column::place, Place);
  if (Run)
    Row.setId(column::run, Run);
  if (Variant)
    Row.setId(column::variant, Variant);
  Row.setId(column::part, OfPrompt ? PromptId : AnswerId);
  TokenOdds Odds = oddsOf(Chosen, Others);
  Set(column::entropy, Odds.Entropy);
  Set(column::rank, Odds.Rank);
  if (Odds.Best && Odds.Best->HasText)
    Row.set(column::best, capped(Odds.Best->Text));
  Set(column::best_logprob, Odds.BestLogprob);
  Set(column::margin, Odds.Margin);
  Set(column::mass, Odds.Mass);
  Set(column::end_logprob, Odds.EndLogprob);
}

} // namespace culprit
