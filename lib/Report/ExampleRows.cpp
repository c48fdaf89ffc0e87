//===- ExampleRows.cpp ------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Report/ExampleRows.h"
#include "Support/Units.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace culprit {

/// The label that a loss leaves out.
static constexpr int64_t Ignored = -100;
ExampleRows::ExampleRows(const Case &C, const TokenVocabulary &Words)
    : C(C), Tensors(C.table(TableId::tensors)), Words(Words) {
  findMarks();
}

StringRef ExampleRows::text(size_t Row, unsigned Column) const {
  const ColumnView &View = Tensors.columns()[Column];
  return Tensors.cell(Row, View).String;
}

/// Whether row \p Row holds the values of a matrix or a line of integers.
bool ExampleRows::usable(size_t Row) const {
  const TensorView &T = C.tensor(Row);
  StringRef Type = text(Row, tensors::dtype);
  return !T.Shape.empty() && T.Shape.size() <= 2 && T.numel() > 0 &&
         static_cast<size_t>(T.numel()) <= T.Bytes.size() &&
         (Type.starts_with("int") || Type.starts_with("uint") ||
          Type == "bool");
}

/// Which part of a batch a tensor of that name is.
static std::optional<size_t> Batch::*partOf(StringRef Name) {
  if (Name.ends_with("labels") || Name.ends_with("targets"))
    return &Batch::Labels;
  if (Name.ends_with("loss_mask") || Name.ends_with("assistant_masks") ||
      Name.ends_with("assistant_mask") || Name.ends_with("completion_mask"))
    return &Batch::Answer;
  return Name.ends_with("attention_mask") ? &Batch::Attention : nullptr;
}

std::vector<Batch> ExampleRows::batches(size_t Most) const {
  std::vector<Batch> Out;
  std::vector<size_t> Parts;
  for (size_t I = 0; I != Tensors.rows(); ++I) {
    StringRef Name = text(I, tensors::name);
    if (Name.starts_with("battery.") || !usable(I))
      continue;
    if (partOf(Name))
      Parts.push_back(I);
    else if (Name.ends_with("input_ids") && Out.size() < Most)
      Out.push_back({I, std::nullopt, std::nullopt, std::nullopt});
  }
  const ColumnView &Step = Tensors.columns()[tensors::step];
  const ColumnView &Rank = Tensors.columns()[tensors::rank];
  for (Batch &B : Out)
    for (size_t J : Parts) {
      std::optional<size_t> &Place = B.*partOf(text(J, tensors::name));
      if (!Place && Step.getInt(B.Ids) == Step.getInt(J) &&
          Rank.getInt(B.Ids) == Rank.getInt(J) &&
          text(B.Ids, tensors::run) == text(J, tensors::run) &&
          text(B.Ids, tensors::variant) == text(J, tensors::variant) &&
          C.tensor(J).numel() == C.tensor(B.Ids).numel())
        Place = J;
    }
  return Out;
}

/// End and padding, from the settings of tokenizer, generation and model.
void ExampleRows::findMarks() {
  const Table &Config = C.table(TableId::config);
  const ColumnView &Keys = Config.columns()[config::key];
  const ColumnView &Values = Config.columns()[config::value];
  std::set<std::string> EndTexts;
  std::string PadText;
  for (size_t I = 0; I != Config.rows(); ++I) {
    StringRef Key = Config.cell(I, Keys).String;
    StringRef Value = Config.cell(I, Values).String;
    if (Key == "tokenizer.eos_token" ||
        Key == "gguf.tokenizer.ggml.eos_token" ||
        Key == "gguf.tokenizer.ggml.eot_token")
      EndTexts.insert(Value.str());
    else if (Key == "tokenizer.pad_token")
      PadText = Value.str();
    else if (Key.ends_with("eos_token_id")) {
      SmallVector<StringRef, 4> Parts;
      Value.trim("[]").split(Parts, ',');
      for (StringRef Part : Parts)
        if (int64_t Id; !Part.trim().getAsInteger(10, Id))
          Known.Ends.insert(Id);
    } else if (Key.ends_with("pad_token_id")) {
      if (int64_t Id; !Value.getAsInteger(10, Id) && Id >= 0)
        Known.Pad = Id;
    }
  }
  if (EndTexts.empty() && PadText.empty())
    return;
  for (size_t Id = 0; Id != Words.size(); ++Id) {
    StringRef Piece = Words.piece(static_cast<int64_t>(Id));
    if (Piece.empty())
      continue;
    if (EndTexts.count(Piece.str()))
      Known.Ends.insert(static_cast<int64_t>(Id));
    if (Piece == PadText)
      Known.Pad = static_cast<int64_t>(Id);
  }
}

Example ExampleRows::example(const Batch &B, int64_t Line) const {
  const TensorView &Ids = C.tensor(B.Ids);
  const int64_t Width = Ids.Shape.back(), Begin = Line * Width;
  Example Out;
  const auto Value = [&](size_t Row, int64_t T) {
    return C.tensor(Row).intAt(Begin + T);
  };
  for (int64_t T = 0; T != Width; ++T)
    Out.Ids.push_back(Ids.intAt(Begin + T));

  Out.Padding.assign(Out.Ids.size(), false);
  if (B.Attention) {
    for (int64_t T = 0; T != Width; ++T)
      Out.Padding[T] = Value(*B.Attention, T) == 0;
  } else if (Known.Pad) {
    // Behind the text; where padding is the end token, the first one ends it.
    int64_t T = Width;
    while (T > 0 && Out.Ids[T - 1] == *Known.Pad)
      Out.Padding[--T] = true;
    if (T < Width && Known.Ends.count(*Known.Pad))
      Out.Padding[T] = false;
    // In front; alone it may be the token that begins a text.
    int64_t Front = 0;
    while (Front < Width && Out.Ids[Front] == *Known.Pad && !Out.Padding[Front])
      ++Front;
    if (Front > 1 || !Known.Ends.count(*Known.Pad))
      std::fill_n(Out.Padding.begin(), Front, true);
  }
  if (B.Answer)
    for (int64_t T = 0; T != Width; ++T)
      Out.Answer.push_back(Value(*B.Answer, T) != 0);

  Out.Counted.assign(Out.Ids.size(), false);
  Out.HasLoss = B.Labels || B.Answer;
  if (B.Labels) {
    // Labels stand at their token, or one place before it.
    int64_t There = 0, Before = 0;
    for (int64_t T = 0; T != Width; ++T) {
      int64_t Label = Value(*B.Labels, T);
      There += Label != Ignored && Label == Out.Ids[T];
      Before += Label != Ignored && T + 1 < Width && Label == Out.Ids[T + 1];
    }
    const int64_t Lag = Before > There ? 1 : 0;
    for (int64_t T = 0; T + Lag < Width; ++T)
      Out.Counted[T + Lag] = Value(*B.Labels, T) != Ignored;
    // Where the model shifts them itself, nothing predicts the first token.
    if (There > 0 && Lag == 0)
      Out.Counted[0] = false;
  } else if (B.Answer) {
    Out.Counted = Out.Answer;
  }
  return Out;
}

std::vector<std::string> ExampleRows::oddities(const Example &E) const {
  std::vector<std::string> Out;
  const size_t Size = E.Ids.size();
  size_t Counted = 0, Padding = 0, Outside = 0, Text = 0, Unknown = 0;
  std::optional<size_t> First, Last;
  int64_t UnknownId = 0;
  for (size_t I = 0; I != Size; ++I) {
    Counted += E.Counted[I];
    if (E.Padding[I]) {
      Padding += E.Counted[I];
      continue;
    }
    ++Text;
    First = First.value_or(I);
    Last = I;
    Outside += E.Counted[I] && !E.Answer.empty() && !E.Answer[I];
    if (!Words.has(E.Ids[I]) && Unknown++ == 0)
      UnknownId = E.Ids[I];
  }
  const auto Tokens = [](size_t Count) {
    return formatCount(static_cast<int64_t>(Count)) +
           (Count == 1 ? " token" : " tokens");
  };
  if (Unknown)
    Out.push_back(Tokens(Unknown) + " not in the tokenizer, id " +
                  itostr(UnknownId) + " first: is it the tokenizer of this "
                  "data?");
  if (First && *First < Size - 1 && Words.isSpecial(E.Ids[*First]) &&
      E.Ids[*First] == E.Ids[*First + 1] && !E.Padding[*First + 1])
    Out.push_back("the first token stands twice");
  if (!E.HasLoss || !Last)
    return Out;
  if (Counted == 0) {
    Out.push_back("no token counts in the loss");
    return Out;
  }
  if (Padding)
    Out.push_back("padding counts in the loss: " + Tokens(Padding));
  if (Outside)
    Out.push_back(Tokens(Outside) +
                  " outside the batch's own mask of answers count");
  // The first token is never predicted.
  size_t Roles = 0;
  for (size_t I = *First + 1; I < *Last; ++I)
    Roles += Words.isSpecial(E.Ids[I]) && !E.Padding[I];
  if (E.Answer.empty() && Roles >= 2 && Counted - Padding + 1 >= Text)
    Out.push_back("the whole row counts, questions too");
  if (Known.Ends.empty())
    return Out;
  // A template may put a line break behind the end.
  std::optional<size_t> Ended;
  for (size_t Back = 0; Back != 3 && *Last >= Back && !Ended; ++Back)
    if (Known.Ends.count(E.Ids[*Last - Back]))
      Ended = *Last - Back;
  if (!Ended)
    Out.push_back("the row ends without an end token: cut, or none was added");
  else if (!E.Counted[*Ended])
    Out.push_back("the end token does not count: the model never learns to "
                  "stop");
  return Out;
}

} // namespace culprit
