//===- LogEpochs.cpp - Lines of an epoch or an evaluation -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// What is said of a whole epoch stands at the step that came last, where the
// log counts steps, and at the epoch's number otherwise. Means over an epoch
// are no losses of a step: beside those they keep a name of their own.
//
//===----------------------------------------------------------------------===//

#include "Readers/LogDialects.h"
#include "Support/LooseJson.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace culprit {

/// The number that is the mean of \p P's, "0.2 (0.1)"; that of P itself where
/// there is none.
static double meanOf(StringRef Text, ArrayRef<LoggedPair> Pairs, size_t P) {
  if (P + 1 < Pairs.size() && Pairs[P + 1].Key.empty() &&
      Text.slice(Pairs[P].End, Pairs[P + 1].Begin).trim() == "(")
    return Pairs[P + 1].Value;
  return Pairs[P].Value;
}

/// Of an evaluation that prints each of its batches the last line has the
/// means: "Test: [ 7/7]", or "[ 99/100]" where batches are counted from 0.
static bool endsEvaluation(const LoggedPair &Batch) {
  return Batch.Value == Batch.Of || Batch.Value + 1 == Batch.Of;
}

bool LogDialects::epochLine(const LogLine &L, const LinePlace &Place) {
  StringRef Text = L.Body;
  std::optional<StringRef> Set;
  if (Place.Evaluation) {
    if (Place.Step && (!Place.LossLike || !endsEvaluation(*Place.Step)))
      return Place.LossLike; // of metrics, if not those wanted
    Set = "val/";
  }
  // "train Loss: 0.5 Acc: 0.7" below the heading of an epoch, "Validation -
  // loss: 0.5" behind anything that counts.
  std::optional<double> Epoch = Heading;
  if (Place.ByEpoch) {
    Epoch = Place.Epoch->Value;
  } else if (!Place.Evaluation) {
    if (!Place.Measured || Pairs.size() > 12)
      return false;
    std::optional<StringRef> Named =
        setNamedIn(Text.take_front(Pairs[0].Begin));
    if (!Named || !(Heading || (!Named->empty() && Rows.lastStep())))
      return false;
  }
  begin(L);
  if (!Stepped && Epoch)
    Rows.step(static_cast<int64_t>(*Epoch));
  SmallVector<std::string, 8> Taken; // "loss 0.5 (0.6)", "loss 0.5 | loss 0.6"
  size_t Behind = 0;
  for (size_t I = 0; I != Pairs.size(); ++I) {
    const LoggedPair &P = Pairs[I];
    if (P.Key.empty())
      continue;
    // "Validation Results - Epoch: 1", "| train: loss 0.9 | val: loss 0.8".
    if (size_t Begin = P.Key.data() - Text.data();
        Begin > Behind && !Place.Evaluation)
      if (auto Named = setNamedIn(Text.slice(Behind, Begin)))
        Set = Named;
    Behind = P.End;
    if (&P == Place.Step || &P == Place.Length)
      continue;
    if (&P == Place.Epoch) {
      if (!P.Key.equals_insensitive("episode"))
        Rows.number("epoch", P.Value);
      continue;
    }
    StringRef Raw = P.Key;
    if (!Raw.consume_front_insensitive("average "))
      for (StringRef Word : {"avg. ", "avg "})
        Raw.consume_front_insensitive(Word);
    const LogKeys::Meaning &Key = Keys.of(Raw);
    if (!isScalarKey(P, Key) || Key.Metric == "epoch")
      continue;
    std::string Name = Raw.str();
    // A key may name its set itself, and so that of what follows: "val Loss:
    // 0.5 Acc: 0.7".
    std::optional<StringRef> Own = setNamedIn(Raw);
    if (Own && !Place.Evaluation)
      Set = Own;
    if (Set && !Own && (Place.Evaluation || Key.LossLike))
      Name = (*Set + Raw).str();
    if (Stepped && Key.LossLike && (!Set || Set->empty()))
      Name = "epoch/" + Name;
    if (is_contained(Taken, Name))
      continue;
    double Value = Place.Evaluation ? meanOf(Text, Pairs, I) : P.Value;
    if (P.Of >= P.Value && P.Of > 0 && StringRef(Key.Metric).contains("acc"))
      Value /= P.Of; // "Accuracy: 9812/10000 (98%)"
    Rows.number(Name, Value);
    Taken.push_back(std::move(Name));
  }
  if (Place.Length)
    Steps.length(Place.Length->Value);
  return Rows.end();
}

static bool isReturnLine(StringRef Text) {
  return Text.starts_with("global_step=") &&
         Text.contains(", episodic_return=");
}

/// "1epoch:train:1-50batch: iter_time=0.104, loss=93.5, ...", means over some
/// batches of ESPnet, which stand at the last of them.
bool LogDialects::batchesLine(const LogLine &L) {
  // Behind the host in brackets and the line of the source.
  size_t At = L.Text.find("epoch:train:");
  if (At == StringRef::npos)
    return false;
  StringRef Before = L.Text.take_front(At);
  StringRef Text =
      L.Text.drop_front(Before.rtrim("0123456789").size());
  unsigned Epoch = 0, First = 0, Last = 0;
  if (Text.consumeInteger(10, Epoch) || !Text.consume_front("epoch:train:") ||
      Text.consumeInteger(10, First) || !Text.consume_front("-") ||
      Text.consumeInteger(10, Last) || !Text.consume_front("batch: "))
    return false;
  findPairs(Text, Pairs);
  begin(L);
  Rows.step(static_cast<int64_t>(Steps.ofCounter(Last, Epoch)));
  Stepped = true;
  Rows.number("epoch", Epoch);
  for (const LoggedPair &P : Pairs)
    if (isScalarKey(P, Keys.of(P.Key)))
      Rows.number(P.Key, P.Value);
  return Rows.end();
}

/// Lines of one number: "Current learning rate: 0.01" of nnU-Net, "Updating
/// learning rate to 0.0001" and "speed: 0.05s/iter; left time: 100s" of
/// Informer and what came after it.
bool LogDialects::loneLine(const LogLine &L) {
  StringRef Text = L.Body, Name = "learning_rate";
  if (Text.consume_front("speed: ")) {
    Text = Text.split("s/iter; left time: ").first;
    Name = "step_time";
    if (Text.end() == L.Body.end())
      return false;
  } else if (!Text.consume_front("Current learning rate: ") &&
             !Text.consume_front("Updating learning rate to ")) {
    return false;
  }
  std::optional<double> Value = parseNumber(Text.trim());
  if (!Value || !(Heading || Rows.lastStep()))
    return false;
  begin(L);
  if (!Stepped && Heading)
    Rows.step(static_cast<int64_t>(*Heading));
  Rows.number(Name, *Value);
  return Rows.end();
}

/// "(epoch: 1, iters: 100, time: 0.1, data: 0.0) D_A: 0.2 G_A: 0.4", losses of
/// CycleGAN, which have no word for it.
bool LogDialects::gameLine(const LogLine &L) {
  if (!L.Body.starts_with("(epoch: ") || !L.Body.contains(", iters: "))
    return false;
  findPairs(L.Body, Pairs);
  LinePlace Place = placeOf(L.Body, Pairs, Keys);
  if (!Place.Step || !Place.Epoch || !(stepOf(Place) < 1e15))
    return false;
  begin(L);
  Rows.step(static_cast<int64_t>(stepOf(Place)));
  Stepped = true;
  Rows.number("epoch", Place.Epoch->Value);
  size_t Close = L.Body.find(')');
  for (const LoggedPair &P : Pairs)
    if (P.Begin > Close && P.Assigned && Keys.of(P.Key).Short)
      Rows.number(P.Key, P.Value);
  return Rows.end();
}

/// "global_step=52, episodic_return=[0.48]" of CleanRL.
bool LogDialects::returnLine(const LogLine &L) {
  findPairs(L.Body, Pairs);
  LinePlace Place = placeOf(L.Body, Pairs, Keys);
  if (!Place.Step)
    return false;
  begin(L);
  Rows.step(static_cast<int64_t>(Place.Step->Value));
  for (const LoggedPair &P : Pairs)
    if (P.Assigned && P.Key.starts_with("episodic_"))
      Rows.number(P.Key == "episodic_return" ? "reward" : P.Key, P.Value);
  return Rows.end();
}

/// Of the lines without a word for a loss the few that matter: headings of
/// epochs, rounds of boosting, losses of adversaries, returns of episodes.
bool LogDialects::otherLine(const LogLine &L) {
  if (L.Body.empty() || !(StringRef("eE[(=-*#>gCUs").contains(L.Body[0]) ||
                          isDigit(L.Body[0])))
    return false;
  if (StringRef("CUs").contains(L.Body[0]))
    return loneLine(L);
  if (L.Body[0] == 'g')
    return isReturnLine(L.Body) && returnLine(L);
  if (std::optional<double> Epoch = epochOfHeading(L.Body)) {
    Heading = Epoch;
    return true;
  }
  return roundLine(L) || catBoostLine(L) || gameLine(L);
}

} // namespace culprit
