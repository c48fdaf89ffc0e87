//===- LogPlace.cpp ---------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/LogPlace.h"
#include "Readers/ScalarNames.h"
#include "llvm/ADT/StringExtras.h"
#include <cmath>

using namespace llvm;

namespace culprit {

/// Takes the word off that says of a step that it is an evaluation's.
static bool takeValidation(StringRef &Key) {
  for (StringRef Word : {"validate ", "validation ", "eval ", "val "})
    if (Key.consume_front_insensitive(Word))
      return true;
  return false;
}

/// Whether the words before a number say that it is a step: "step", "Iter",
/// "validation loss at iteration".
static bool namesStep(StringRef Key) {
  Key.consume_back("..."); // Flax' examples: "Step... (100 | Loss: 2.3"
  takeValidation(Key);
  // "saved best model at step 100" tells of another step than the line's.
  size_t At = Key.rfind_insensitive("at ");
  if (At == 0 || (At != StringRef::npos && Key[At - 1] == ' ' &&
                  Key.take_front(At).contains_insensitive("loss")))
    Key = Key.drop_front(At + 3);
  for (StringRef Word :
       {"train ", "training ", "global ", "in ", "completed "}) // MaxText
    Key.consume_front_insensitive(Word);
  return fieldKind(Key) == FieldKind::Step ||
         Key.equals_insensitive("iter(train)"); // MMEngine
}

/// Whether it counts epochs, or what stands in their place.
static bool isEpochKey(StringRef Key) {
  // A logger's name before the message: "root:Epoch".
  if (size_t Colon = Key.rfind(':');
      Colon != StringRef::npos && !Key.take_front(Colon).contains(' '))
    Key = Key.drop_front(Colon + 1);
  for (StringRef Word : {"train ", "training "})
    Key.consume_front_insensitive(Word);
  return Key.equals_insensitive("epoch") || Key.equals_insensitive("ep") ||
         Key.equals_insensitive("episode") ||
         Key.equals_insensitive("epoch(train)"); // MMEngine
}

/// Likewise of an evaluation: "Eval Epoch", "Epoch(val)".
static bool isValidationEpoch(StringRef Key) {
  return Key.equals_insensitive("epoch(val)") ||
         (takeValidation(Key) && Key.equals_insensitive("epoch"));
}

/// "Finished training it" of DLRM: the last of the words in front of a count.
static bool endsInStep(StringRef Key) {
  const size_t Blank = Key.rfind(' ');
  return Blank != StringRef::npos &&
         fieldKind(Key.drop_front(Blank + 1)) == FieldKind::Step;
}

/// "data epoch: [0]  [ 50/100]" of LAVIS: the last of the words in front of a
/// number in brackets.
static bool endsInEpoch(StringRef Text, const LoggedPair &P) {
  return P.Begin > 0 && Text[P.Begin - 1] == '[' && P.Assigned &&
         P.Key.ends_with_insensitive(" epoch");
}

static bool isBatchKey(StringRef Key) {
  for (StringRef Word : {"batch", "batches", "minibatch", "mini-batch"})
    if (Key.equals_insensitive(Word))
      return true;
  return false;
}

const LogKeys::Meaning &LogKeys::of(StringRef Key) {
  auto It = Known.find(Key);
  if (It != Known.end())
    return It->second;
  // Words of a sentence may be new on every line.
  if (Known.size() > 10'000)
    Known.clear();
  Meaning M;
  ScalarName Name = scalarName(Key);
  M.Step = namesStep(Key);
  StringRef Of = Key;
  M.Validation =
      M.Step && takeValidation(Of) && !Of.contains_insensitive(" at ");
  M.Epoch = isEpochKey(Key);
  if (isValidationEpoch(Key))
    M.Epoch = M.Validation = true;
  M.Batch = isBatchKey(Key);
  M.LossLike = !Key.empty() && isLossLike(Key);
  M.Ignored = M.Step || fieldKind(Key) != FieldKind::Scalar;
  M.Scalar = Name.Known && !M.Ignored;
  M.Short = !Key.empty() && isAlpha(Key[0]) && Key.size() <= 60 &&
            Key.count(' ') - Key.count(" set ") <= 1; // "Test set loss"
  M.Metric = Name.Metric;
  return Known.try_emplace(Key, std::move(M)).first->second;
}

bool isScalarKey(const LoggedPair &P, const LogKeys::Meaning &Key) {
  if (Key.Scalar || Key.Ignored)
    return Key.Scalar;
  return P.Assigned && Key.Short && (Key.LossLike || !P.Key.contains(' '));
}

/// Whether \p P is a loss or the like beyond doubt, and no number that a
/// sentence about losses has: "loss of 2 men", "the loss fell to 3".
static bool isMeasured(StringRef Text, const LoggedPair &P,
                       const LogKeys::Meaning &Key) {
  if (!Key.LossLike)
    return false;
  if (P.Assigned)
    return Key.Scalar || Key.Short;
  if (!Key.Scalar || P.Key.empty())
    return false;
  size_t Behind = P.Key.end() - Text.data();
  if (any_of(Text.slice(Behind, P.Begin), isAlpha))
    return false;
  if (!P.Unit.empty() && P.Unit != "%")
    return false;
  return P.Decimals > 0 || !std::isfinite(P.Value) ||
         Text.slice(P.Begin, P.End).contains_insensitive("e");
}

/// torchtune's bar, "<epoch>|<step>|Loss: 2.5:  5%|5   | 10/400 [...": whether
/// the first two numbers of \p Text are those.
static bool hasTorchtuneFront(StringRef Text) {
  StringRef Rest = Text.ltrim().drop_while(isDigit);
  if (!Rest.consume_front("|") || Rest.empty() || !isDigit(Rest[0]))
    return false;
  return Rest.drop_while(isDigit).starts_with("|Loss:");
}

/// "[1,  2000] loss: 2.2", epoch and step as tutorials print them.
static bool hasBracketedPair(StringRef Text) {
  if (!Text.consume_front("["))
    return false;
  StringRef Rest = Text.ltrim(' ').drop_while(isDigit);
  if (!Rest.consume_front(", "))
    return false;
  Rest = Rest.ltrim(' ');
  size_t Digits = Rest.take_while(isDigit).size();
  return Digits && Rest.drop_front(Digits).starts_with("]");
}

/// "[100] loss=2.3, learning_rate=0.001" of Google's CLU: the step in brackets
/// in front of what is assigned.
static bool hasBracketedStep(StringRef Text, ArrayRef<LoggedPair> Pairs) {
  if (Pairs[0].Begin != 1 || Pairs[0].Of > 0 || Pairs[0].Unit == "%" ||
      !Text.starts_with("[") ||
      !Text.drop_front(Pairs[0].End).starts_with("] "))
    return false;
  return all_of(Pairs.drop_front(), [&](const LoggedPair &P) {
    return P.Assigned || P.Of > 0 ||
           Text.drop_front(P.End).starts_with(")"); // the mean of a meter
  });
}

/// Whether \p P names an evaluation and counts its batches: "Test: [ 7/7]".
static bool countsEvaluation(const LoggedPair &P) {
  if (P.Of == 0 || !P.Assigned)
    return false;
  for (StringRef Word : {"test", "val", "valid", "validation", "eval"})
    if (P.Key.equals_insensitive(Word))
      return true;
  return false;
}

/// "[00010/00400] train_loss=2.3": a step of a total in brackets in front of
/// what is assigned. With a loss of validation beside it, it is an epoch.
static bool hasBracketedTotal(StringRef Text, ArrayRef<LoggedPair> Pairs) {
  if (Pairs[0].Begin != 1 || Pairs[0].Of <= 0 || !Text.starts_with("[") ||
      !Text.drop_front(Pairs[0].End).starts_with("] "))
    return false;
  return all_of(Pairs.drop_front(), [](const LoggedPair &P) {
    return P.Assigned && !P.Key.starts_with_insensitive("val") &&
           !P.Key.starts_with_insensitive("eval") &&
           !P.Key.starts_with_insensitive("test");
  });
}

static bool isWhole(double Value) {
  return Value == std::floor(Value) && std::fabs(Value) < 1e15;
}

/// Finds epoch and step among numbers that no words name.
static void placeByForm(StringRef Text, ArrayRef<LoggedPair> Pairs,
                        const LoggedPair *Fraction, LinePlace &Out) {
  if (Pairs.size() < 2 || Out.Step || Out.Epoch)
    return;
  const LoggedPair &First = Pairs[0], &Second = Pairs[1];
  const bool Named = !First.Key.empty();
  if (countsEvaluation(First)) { // timm, torchvision
    Out.Step = &First;
    Out.Evaluation = true;
  } else if (First.Key == "Train" && First.Assigned && First.Of == 0 &&
             isWhole(First.Value) && Fraction == &Second) { // timm
    Out.Epoch = &First;
    Out.Step = &Second;
  } else if (Fraction == &First && !Named && First.Begin == 1 &&
             Second.Of > 0 && Second.Key.empty()) { // [0/5][0/1583]
    Out.Epoch = &First;
    Out.Step = &Second;
  } else if (First.Key == "Train" && First.Of > 0 && Second.Of > 0 &&
             Second.Key.empty()) { // Swin: Train: [0/300][10/1251]
    Out.Epoch = &First;
    Out.Step = &Second;
  } else if (hasBracketedStep(Text, Pairs)) {
    const bool Epoch = Second.Of > 0 && Second.Key.empty(); // [1] [10/40]
    Out.Epoch = Epoch ? &First : nullptr;
    Out.Step = Epoch ? &Second : &First;
    Out.EpochFirst = Epoch;
    return;
  } else if (hasBracketedPair(Text)) {
    Out.Epoch = &First;
    Out.Step = &Second;
    return;
  } else if (Fraction && Fraction->Value <= Fraction->Of &&
             ((Fraction == &First &&
               (First.Begin == 0 || hasBracketedTotal(Text, Pairs))) ||
              (Pairs.size() == 2 && Text.ends_with("]")))) {
    // Keras' "64/64 [====] - 0s - loss: 1.5", or "loss: 2.3 [ 64/60000]".
    if (!Out.LossLike)
      return;
    Out.Step = Fraction;
    Out.Fraction = true;
  } else {
    return;
  }
  Out.EpochFirst = Out.Epoch != nullptr;
}

/// "[Eval][Epoch 1][Iter: 0/16]loss: 4.5", "CV Batch 4/100 loss 30.8": whether
/// the first word of \p Text, or one that stands alone, names a set that is
/// held out.
static bool beginsHeldOut(StringRef Text) {
  if (Text.starts_with("validation loss at ")) // Megatron, of either set
    return false;
  StringRef Front = Text.ltrim(" [(<|=-*").take_while(isAlpha);
  for (StringRef Word : {"eval", "evaluation", "val", "valid", "validation",
                         "validate", "dev", "cv"})
    if (Front.equals_insensitive(Word))
      return true;
  // Between a step and its numbers, as in wavenet_vocoder: "Step 9 [dev] ...".
  if (!Text.contains_insensitive("[train"))
    for (StringRef Mark : {"[dev] ", "[val] ", "[valid] ", "[eval] "})
      if (Text.contains_insensitive(Mark))
        return true;
  // PaddleClas, behind its logger's name; DeepSpeech.
  return Text.contains("[Eval]") || Text.contains("| Validation |");
}

LinePlace placeOf(StringRef Text, ArrayRef<LoggedPair> Pairs, LogKeys &Keys) {
  LinePlace Out;
  const LoggedPair *Fraction = nullptr, *Batch = nullptr;
  bool Measured = false;
  for (const LoggedPair &P : Pairs) {
    bool Whole = isWhole(P.Value);
    const LogKeys::Meaning &Key = Keys.of(P.Key);
    if (Out.Epoch && !Out.Step && P.Key == "Steps" && P.Of == 0 &&
        Text.contains("Vali Loss")) {
      Out.Length = &P; // of Informer and what came after it
    } else if (!Out.Step && Whole && !P.isTime() && P.Unit != "%" &&
               (Key.Step || (P.Of > 0 && endsInStep(P.Key)))) {
      Out.Step = &P;
      Out.Validation = Key.Validation;
      Out.EpochFirst = Out.Epoch && P.Of > 0;
    } else if (!Out.Epoch && (Key.Epoch || endsInEpoch(Text, P)) &&
               !P.isTime()) {
      Out.Epoch = &P;
      Out.Evaluation = Key.Validation;
    } else if (P.Of > 0 && (P.Key.empty() || Key.Batch) && Whole && !Fraction) {
      Fraction = &P; // "Epoch: [0][ 100/5005]"
    } else if (Key.Batch && Whole && !Batch) {
      Batch = &P;
    } else {
      Out.LossLike |= Key.LossLike;
      bool Is = isMeasured(Text, P, Key);
      Measured |= Is;
      Out.Measured |= Is && &P == Pairs.data();
    }
  }
  // "(0/4) Epoch 1, batch 50" of icefall: a fraction of ranks.
  const bool OfRanks = Batch && Fraction && Fraction < Out.Epoch &&
                       Fraction->Begin > 0 && Text[Fraction->Begin - 1] == '(';
  if (!Out.Step && Out.Epoch && Fraction && !OfRanks) {
    Out.Step = Fraction;
    Out.EpochFirst = true;
  } else if (!Out.Step && Out.Epoch && Batch) {
    Out.Step = Batch;
  }
  // A progress bar counts the steps, or those of its epoch.
  if (!Out.Step && Fraction && Text.contains("%|"))
    Out.Step = Fraction;
  Out.Bar = Fraction && Out.Step == Fraction && Text.contains("%|");
  if (Pairs.size() > 2 && hasTorchtuneFront(Text)) {
    Out.Step = &Pairs[1];
    Out.EpochFirst = false;
  }
  if (Measured)
    placeByForm(Text, Pairs, Fraction, Out);
  if (Out.Step && Measured && !Out.Validation && !Out.Evaluation &&
      beginsHeldOut(Text)) {
    // A counter of a total is that of the evaluation's own batches.
    Out.Evaluation = Out.Step->Of > 0;
    Out.Validation = !Out.Evaluation;
  }
  // CycleGAN's, whose losses are called D_A and cycle_A.
  if (Text.starts_with("(epoch: ") && Out.Step && Out.Epoch)
    Out.LossLike = Out.EpochFirst = true;
  Out.ByEpoch = !Out.Step && Out.Epoch && Measured &&
                isWhole(Out.Epoch->Value) &&
                (Out.Epoch == Pairs.data() || Out.Epoch->Assigned);
  return Out;
}

std::optional<double> epochOfHeading(StringRef Text) {
  if (Text.size() > 80)
    return std::nullopt;
  Text = Text.ltrim(" [(=-*#>");
  if (!Text.consume_front_insensitive("epoch"))
    return std::nullopt;
  Text = Text.ltrim(" :#[(");
  StringRef Digits = Text.take_while(isDigit);
  Text = Text.drop_front(Digits.size()).ltrim(' ');
  if (Text.consume_front("/") || Text.consume_front_insensitive("of "))
    Text = Text.ltrim(' ').drop_while(isDigit);
  unsigned Epoch = 0;
  if (any_of(Text, isAlnum) || Digits.getAsInteger(10, Epoch))
    return std::nullopt;
  return Epoch;
}

std::optional<StringRef> setNamedIn(StringRef Text) {
  while (!Text.empty()) {
    Text = Text.drop_until(isAlpha);
    StringRef Word = Text.take_while(isAlpha);
    Text = Text.drop_front(Word.size());
    for (StringRef Held : {"val", "valid", "validation", "eval", "vali", "dev"})
      if (Word.equals_insensitive(Held))
        return "val/";
    if (Word.equals_insensitive("test"))
      return "test/";
    if (Word.equals_insensitive("train") || Word.equals_insensitive("training"))
      return "";
  }
  return std::nullopt;
}

double EpochSteps::ofTotal(double Count, double Of,
                           std::optional<double> Epoch) {
  if (!Epoch) {
    if (Count < LastCount)
      Rounds += Of;
    LastCount = Count;
    return Rounds + Count;
  }
  if (!isWhole(*Epoch))
    return Count + (*Epoch - First.value_or(0)) * Of;
  if (!First || *Epoch < *First) {
    First = Epoch;
    Totals.clear();
  }
  // The last epoch may be shorter than those before it.
  auto [It, New] = Totals.try_emplace(*Epoch);
  if (New) {
    auto Last = It == Totals.begin() ? Totals.end() : std::prev(It);
    It->second = {Last != Totals.end() && Last->first == *Epoch - 1
                      ? Last->second.first + Last->second.second
                      : (*Epoch - *First) * Of,
                  Of};
  }
  // A shorter counter in front of it, as of an evaluation, is none of it.
  It->second.second = std::max(It->second.second, Of);
  return It->second.first + Count;
}

double EpochSteps::ofCounter(double Count, std::optional<double> Epoch) {
  if (!Epoch || !isWhole(*Epoch))
    return Count;
  auto It = Before.find(*Epoch);
  if (It == Before.end()) {
    double Steps = 0;
    // Behind the newest epoch; what came before it counted for itself.
    if (!Before.empty() && *Epoch > Before.rbegin()->first) {
      Steps = Before.rbegin()->second;
      // Of batches 0, 50, ..., 450 the next would have been the 500th.
      if (Count <= Highest)
        Steps += std::max(Count == 0 ? Highest + Gap : Highest, Length);
      Highest = Gap = 0;
    }
    It = Before.try_emplace(*Epoch, Steps).first;
  }
  if (*Epoch == Before.rbegin()->first && Count > Highest) {
    Gap = Count - Highest;
    Highest = Count;
  }
  return It->second + Count;
}

} // namespace culprit
