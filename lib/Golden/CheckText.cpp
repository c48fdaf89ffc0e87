//===- CheckText.cpp - Answers, prompts and token ids -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Golden/Check.h"
#include "Golden/LockFile.h"
#include "Support/Text.h"
#include "Support/Units.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace culprit {

static bool isContinued(char C) { return (uint8_t(C) & 0xc0) == 0x80; }

/// Bytes up to the character in which \p A and \p B first differ.
static size_t commonPrefix(StringRef A, StringRef B) {
  size_t I = 0;
  while (I < A.size() && I < B.size() && A[I] == B[I])
    ++I;
  const auto Within = [&](StringRef S) {
    return I < S.size() && isContinued(S[I]);
  };
  while (I > 0 && (Within(A) || Within(B)))
    --I;
  return I;
}

static int64_t characters(StringRef Text) {
  return count_if(Text, [](char C) { return !isContinued(C); });
}

/// A few words of \p Text around the byte \p At, in quotes.
static std::string around(StringRef Text, size_t At) {
  size_t Begin = At > 32 ? At - 32 : 0;
  while (Begin < Text.size() && Begin > 0 && isContinued(Text[Begin]))
    ++Begin;
  StringRef Part = wholeCharacters(Text.substr(Begin), At - Begin + 40);
  return (Begin ? "..." : "") + quotedText(Part) +
         (Begin + Part.size() < Text.size() ? "..." : "");
}

/// The first difference of the held text of \p Locked and \p Text. \p What
/// names the text.
static void describeText(const GoldenItem &Locked, StringRef Text,
                         StringRef What, GoldenFinding &F) {
  const StringRef Held = Locked.text("text");
  const int64_t Bytes = Locked.integer("bytes").value_or(int64_t(Held.size()));
  const bool Cut = Bytes > int64_t(Held.size());
  const size_t At = commonPrefix(Held, Text);
  if (Cut && At == Held.size()) {
    F.What = (What + " differs behind the " +
              formatCount(characters(Held)) +
              " characters that the lock holds of it")
                 .str();
    F.Expected = formatCount(Bytes) + " bytes, " + Locked.text("hash").str();
    F.Found = formatCount(int64_t(Text.size())) + " bytes, " + goldenHash(Text);
    return;
  }
  if (At == Held.size() && At == Text.size()) {
    F.What = (What + " does not fit its hash in the lock").str();
    F.Next = "the text or the hash was edited by hand: accept the item, which "
             "renews both";
    return;
  }
  if (At == Text.size())
    F.First = "the text found ends there";
  else if (At == Held.size())
    F.First = "the text held ends there";
  F.What = (What + " differs from character " +
            formatCount(characters(Text.take_front(At)) + 1) + " on")
               .str();
  F.Expected = around(Held, At);
  F.Found = around(Text, At);
}

void checkText(const GoldenItem &Locked, const Observation &Seen,
               GoldenFinding &F) {
  const GoldenItem &New = Seen.Item;
  const auto Fail = [&](std::string What) {
    F.Is = GoldenFinding::Outcome::Failed;
    if (F.What.empty())
      F.What = std::move(What);
    else
      F.What += "; " + What;
  };
  const bool Answer = Locked.Of == GoldenSubject::Answer;
  const bool Exact = Locked.Kind == GoldenKind::Exact;
  if (Exact && Locked.find("hash") &&
      Locked.text("hash") != goldenHash(Seen.Text)) {
    F.Is = GoldenFinding::Outcome::Failed;
    describeText(Locked, Seen.Text, Answer ? "the answer" : "the prompt", F);
    if (F.Next.empty())
      F.Next =
          Answer ? "decoding is to be without chance here, so the weights, the "
                   "prompt's tokens, the numerics or a setting changed: see "
                   "whether items of prompts, settings and tensors fail as "
                   "well, the first of these is the cause"
                 : "another prompt has another answer: mend the prompt before "
                   "its answer is looked at";
  }
  if (!Exact && Seen.Text.empty()) {
    Fail("the answer is empty");
    F.Next = "see the reason to stop and the server's log";
  }
  if (Locked.find("finish") && Locked.text("finish") != New.text("finish")) {
    Fail("it ended with '" + New.text("finish").str() + "', not with '" +
         Locked.text("finish").str() + "'");
    if (F.Next.empty())
      F.Next = "see max_tokens and the stop tokens of the request";
  }
  const std::optional<int64_t> Before = Locked.integer("tokens"),
                               After = New.integer("tokens");
  if (Before && After && *Before != *After) {
    Fail("the prompt has " + formatCount(*After) + " tokens, not " +
         formatCount(*Before));
    if (F.Next.empty()) // of one text
      F.Next = *After == *Before + 1
                 ? "one more on the same text is mostly a second "
                   "begin-of-sequence token: see whether both the template and "
                   "the tokenizer add it"
                 : "the tokenizer or the template changed: compare the files "
                   "of both model folders";
  }
}

/// "1234 ("word")".
static std::string idText(int64_t Id, const GoldenRun &Run) {
  std::string Out = std::to_string(Id);
  if (std::optional<std::string> Piece = Run.piece(Id))
    Out += " " + quotedText(*Piece);
  return Out;
}

/// The ids from \p At on, a few of them.
static std::string idsFrom(ArrayRef<int64_t> Ids, size_t At,
                           const GoldenRun &Run) {
  if (At >= Ids.size())
    return "no more ids";
  std::string Out;
  const size_t End = std::min(Ids.size(), At + 4);
  for (size_t I = At; I != End; ++I)
    Out += (I == At ? "" : ", ") + idText(Ids[I], Run);
  return Out + (End < Ids.size() ? ", ..." : "");
}

void checkIds(const GoldenItem &Locked, const Observation &Seen,
              const GoldenRun &Run, GoldenFinding &F) {
  const int64_t Count = *Locked.number("count");
  const int64_t Own = int64_t(Seen.Ids.size());
  const std::vector<double> Shape = Locked.numbers("shape"),
                            OwnShape = Seen.Item.numbers("shape");
  const std::string Length = formatCount(Own) + " instead of " +
                             formatCount(Count) + " ids";
  if (Shape != OwnShape) {
    F.Is = GoldenFinding::Outcome::Failed;
    F.What = "the tensor has another shape";
    F.Next = "the batch or the sequence has another length";
  }
  if (Locked.Kind == GoldenKind::Structural) {
    if (Own == Count)
      return;
    F.Is = GoldenFinding::Outcome::Failed;
    F.What = "there are " + Length;
    return;
  }
  if (Locked.text("hash") == Seen.Item.text("hash"))
    return;
  F.Is = GoldenFinding::Outcome::Failed;
  const std::vector<int64_t> Held = Locked.integers("ids");
  size_t At = 0;
  while (At < Held.size() && At < Seen.Ids.size() && Held[At] == Seen.Ids[At])
    ++At;
  const std::string Lengths = Own == Count ? "" : "; there are " + Length;
  if (At == Held.size() && int64_t(At) < Count) {
    F.What = "the ids differ behind the " + formatCount(int64_t(At)) +
             " that the lock holds" + Lengths;
  } else if (At == Held.size() && At == Seen.Ids.size()) {
    F.What = "the ids do not fit their hash in the lock";
    F.Next = "the ids or the hash were edited by hand: accept the item, which "
             "renews both";
    return;
  } else {
    F.What = "the ids differ from index " + formatCount(int64_t(At)) + " on" +
             Lengths;
    F.First = "index " + formatCount(int64_t(At));
    F.Expected = idsFrom(Held, At, Run);
    F.Found = idsFrom(Seen.Ids, At, Run);
  }
  // The same ids one further on: something was put in between, or left out.
  if (At < Held.size() && At + 1 < Seen.Ids.size() &&
      Seen.Ids[At + 1] == Held[At] && Own == Count + 1)
    F.Next = "one id was put in: " + idText(Seen.Ids[At], Run) +
             (At == 0 ? "; a begin-of-sequence token that the template or the "
                        "tokenizer now adds"
                      : "");
  else if (At + 1 < Held.size() && At < Seen.Ids.size() &&
           Held[At + 1] == Seen.Ids[At] && Own + 1 == Count)
    F.Next = "one id is gone: " + idText(Held[At], Run);
  else if (F.Next.empty())
    F.Next = StringRef(Seen.Item.Id).starts_with("answer-ids/")
                 ? "see the answer and what is wrong with its prompt, if "
                   "anything"
                 : "compare the tokenizer files and the template of both sides";
}

} // namespace culprit
