//===- LogSeries.cpp --------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/LogSeries.h"
#include "Readers/ScalarNames.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <cmath>

using namespace llvm;

namespace culprit {

/// Lines kept; a log of more is known by these.
static constexpr size_t MaxLinesKept = 200'000;
/// Kinds of lines: words of sentences have any number of them.
static constexpr size_t MaxGroups = 500;

void LogSeries::clear() {
  Groups.clear();
  ByKeys.clear();
  Lines.clear();
  Values.clear();
  Left = 0;
}

bool LogSeries::full() const { return Lines.size() == MaxLinesKept; }

/// The last word of \p Key, in small letters: of "Total Iter", "env_step=".
static std::string wordOf(StringRef Key) {
  Key = Key.rtrim(" .#:");
  StringRef Last = Key.contains(' ') ? Key.rsplit(' ').second : Key;
  if (Last.contains('/'))
    Last = Last.rsplit('/').second;
  return Last.lower();
}

static bool isStepWord(StringRef Key) {
  const std::string Word = wordOf(Key);
  for (StringRef Known :
       {"step", "steps", "iter", "iters", "iteration", "iterations", "it",
        "update", "updates", "global_step", "env_step", "tick", "round",
        "rollout", "num_updates", "batch_idx"})
    if (Word == Known)
      return true;
  return StringRef(Word).ends_with("_step") ||
         StringRef(Word).ends_with("_iter");
}

static bool isEpochWord(StringRef Key) {
  const std::string Word = wordOf(Key);
  return Word == "epoch" || Word == "epochs" || Word == "ep" ||
         Word == "episode";
}

static bool isBatchWord(StringRef Key) {
  const std::string Word = wordOf(Key);
  return Word == "batch" || Word == "minibatch" || Word == "batches" ||
         Word == "batch_id" || Word == "epochiter";
}

/// Whether one of \p Words stands in \p Text, and not within another.
static bool hasWord(StringRef Text, ArrayRef<StringRef> Words) {
  for (StringRef Word : Words)
    if (size_t At = Text.find_insensitive(Word); At != StringRef::npos) {
      const size_t End = At + Word.size();
      if ((At == 0 || !isAlpha(Text[At - 1])) &&
          (End == Text.size() || !isAlpha(Text[End])))
        return true;
    }
  return false;
}

/// Of the best so far, or of what is to come, and not of this line.
static bool tellsOther(StringRef Key) {
  return hasWord(Key, {"best", "eta", "remaining", "elapsed", "left", "monitor",
                       "threshold", "total time", "max mem"});
}

bool LogSeries::isBelow(int64_t Number) const {
  return !Lines.empty() && Lines.back().Number + 3 >= Number;
}

bool LogSeries::add(const LogLine &L, LogKeys &Keys) {
  if (L.Body.size() > 2000)
    return false;
  if (full()) {
    ++Left;
    return false;
  }
  findPairs(L.Body, Pairs);
  if (Pairs.empty() || Pairs.size() > 60)
    return false;
  std::string Key;
  for (const LoggedPair &P : Pairs)
    Key += (P.Key + (P.Of > 0 ? "/\n" : "\n")).str();
  auto It = ByKeys.find(Key);
  if (It == ByKeys.end()) {
    if (Groups.size() == MaxGroups)
      return false;
    It = ByKeys.try_emplace(Key, Groups.size()).first;
    Groups.emplace_back();
    describe(Groups.back(), Pairs, L.Body);
    findNames(Groups.back(), Keys);
  }
  Group &G = Groups[It->second];
  const size_t Numbers = Pairs.size();
  G.Lines.push_back(Lines.size());
  Lines.push_back({L.Number, L.WallTime, It->second, Values.size()});
  for (const LoggedPair &P : Pairs)
    Values.push_back(P.Value);
  for (const LoggedPair &P : Pairs)
    Values.push_back(P.Of);
  for (size_t I = 0; I != 2 * Numbers; ++I) {
    Column &C = G.Columns[I];
    const double Value = Values[Lines.back().First + I];
    if (I < Numbers) {
      C.Decimals = std::max(C.Decimals, Pairs[I].Decimals);
      C.Whole &= Pairs[I].Decimals == 0 && !Pairs[I].isTime() &&
                 Pairs[I].Unit != "%";
    }
    C.Whole &= std::fabs(Value) < 1e15 && std::trunc(Value) == Value;
    if (G.Lines.size() > 1) {
      const double Before = valueOf(G.Lines[G.Lines.size() - 2], I);
      C.Falls |= Value < Before;
      C.Rises |= Value > Before;
    }
  }
  return G.HasMetric;
}

unsigned LogSeries::repeated() const {
  unsigned Out = 0;
  for (const Group &G : Groups)
    if (G.HasMetric && G.Lines.size() >= 2 &&
        any_of(G.Columns, [](const Column &C) {
          return !C.Name.empty() && !C.Whole && (C.Falls || C.Rises);
        }))
      Out += G.Lines.size();
  return Out;
}

void LogSeries::describe(Group &G, ArrayRef<LoggedPair> Pairs, StringRef Text) {
  G.Lead = Text.take_front(Pairs.back().Begin).str();
  G.Columns.resize(2 * Pairs.size());
  for (size_t I = 0; I != Pairs.size(); ++I) {
    Column &C = G.Columns[I];
    C.Key = Pairs[I].Key.str();
    C.Assigned = Pairs[I].Assigned;
    C.Front = Text.take_front(Pairs[I].Begin).trim(" [(<#|").empty();
  }
}

/// \p Key without the words that say how it was made of numbers of its name.
static StringRef bareKey(StringRef Key) {
  Key = Key.trim(". ");
  // "25.2 s. Mean Reward: 0.5": sentences of a number each.
  if (size_t At = Key.rfind(". ");
      At != StringRef::npos && !Key.starts_with_insensitive("avg"))
    Key = Key.drop_front(At + 2);
  for (bool Again = true; Again && !scalarName(Key).Known;) {
    Again = false;
    for (StringRef Word : {"average ", "avg. ", "avg ", "mean ", "iter ",
                           "training ", "current ", "current_", "ave_", "avg_"})
      Again |= Key.consume_front_insensitive(Word);
  }
  return Key;
}

void LogSeries::findNames(Group &G, LogKeys &Keys) {
  const size_t Numbers = G.Columns.size() / 2;
  StringRef Before; // the key of the number before
  for (size_t I = 0; I != Numbers; ++I) {
    Column &C = G.Columns[I];
    StringRef Key = bareKey(C.Key);
    // "average loss at step 100: 0.5", "loss in epoch 1 iteration 20: 0.5":
    // what is measured stands in front of where.
    if (C.Key.empty() && C.Assigned && I > 0 &&
        (isStepWord(Before) || isEpochWord(Before))) {
      StringRef First = G.Columns[0].Key;
      for (StringRef Place : {" at ", " in ", " after "})
        First = First.take_front(First.find_insensitive(Place));
      Key = bareKey(First);
    }
    Before = C.Key;
    if (Key.empty() || isStepWord(Key) || isEpochWord(Key) ||
        isBatchWord(Key) || tellsOther(C.Key))
      continue;
    const LogKeys::Meaning &Is = Keys.of(Key);
    if (Is.Ignored || Is.Step || Is.Epoch)
      continue;
    // A loss of words is one where it is assigned: "val_loss improved from 2.5"
    // is a sentence.
    const bool Known =
        Is.Scalar || (Is.LossLike && Key.count(' ') <= (C.Assigned ? 2 : 0));
    if (!Known && !(C.Assigned && Is.Short && !Key.contains(' ')))
      continue;
    C.Name = Key.str();
    G.HasMetric |= Known && (C.Assigned || Is.LossLike);
  }
  StringRef Front = StringRef(G.Lead).take_until(isDigit);
  if (hasWord(Front, {"best", "monitor"}))
    G.HasMetric = false;
  if (std::optional<StringRef> Set = setNamedIn(G.Lead))
    G.Set = Set->str();
}

/// The name of the loss where no line has one that is known: a lone loss is it.
void LogSeries::nameLoss(LogKeys &Keys) {
  auto IsLoss = [&](const Column &C) {
    return !C.Name.empty() && Keys.of(C.Name).LossLike &&
           StringRef(C.Name).contains_insensitive("loss");
  };
  for (const Group &G : Groups)
    for (const Column &C : G.Columns)
      if (IsLoss(C) && scalarName(C.Name).Name == "loss")
        return;
  Column *Lone = nullptr;
  for (Group &G : Groups)
    for (Column &C : G.Columns)
      if (IsLoss(C) && G.Set.empty() && !setNamedIn(C.Name)) {
        if (Lone)
          return;
        Lone = &C;
      }
  if (Lone && !scalarName(Lone->Name).Known)
    Lone->Name = "loss";
}

/// Whether \p Counter falls only where \p Epoch rises.
bool LogSeries::fallsWith(const Group &G, int Counter, int Epoch) const {
  for (size_t I = 1; I < G.Lines.size(); ++I)
    if (valueOf(G.Lines[I], Counter) < valueOf(G.Lines[I - 1], Counter) &&
        !(valueOf(G.Lines[I], Epoch) > valueOf(G.Lines[I - 1], Epoch)))
      return false;
  return true;
}

void LogSeries::findPlace(Group &G, LogKeys &Keys) {
  const int Numbers = static_cast<int>(G.Columns.size() / 2);
  int BestTrust = 0;
  for (int I = 0; I != 2 * Numbers; ++I) {
    const Column &C = G.Columns[I];
    const bool Total = I >= Numbers;
    StringRef Key = G.Columns[Total ? I - Numbers : I].Key;
    if (!C.Whole || !C.Name.empty() || (Total && !C.Rises))
      continue;
    // "epoch/iter: 15/3999"
    if (!Total && Key.contains('/') && G.Columns[I + Numbers].Rises) {
      G.Epoch = C.Falls ? G.Epoch : I;
      continue;
    }
    const LogKeys::Meaning &Is = Keys.of(Key);
    const bool Step = (Is.Step || isStepWord(Key)) &&
                      !Key.starts_with_insensitive("total ");
    const bool Epoch = Is.Epoch || isEpochWord(Key);
    if (Epoch && !C.Falls && G.Epoch < 0) {
      G.Epoch = I;
      continue;
    }
    const bool Parts = Is.Batch || isBatchWord(Key);
    const bool Fraction =
        !Total && valueOf(G.Lines[0], I + Numbers) > 0;
    int Trust = Step                 ? 5
                : Parts              ? 4
                : Fraction           ? 3
                : C.Front || Total   ? 2
                                     : 0;
    if (Key.empty() && !Trust && !C.Falls && C.Rises)
      Trust = 1;
    // One line may name its step; otherwise the lines must show it.
    if (!Trust ||
        (!Step && (G.Lines.size() < (Trust > 1 ? 2u : 3u) || !C.Rises)))
      continue;
    if (C.Falls) {
      int Of = G.Epoch;
      for (int E = 0; E != I && Of < 0; ++E)
        if (G.Columns[E].Whole && G.Columns[E].Rises && !G.Columns[E].Falls &&
            E < Numbers)
          Of = E;
      if (Of < 0 || !fallsWith(G, I, Of))
        continue;
      if (Trust > BestTrust)
        G.Epoch = Of;
    }
    if (Trust > BestTrust) {
      BestTrust = Trust;
      G.Step = I;
      G.ByWord = Step;
    }
  }
  G.ByWord |= G.Step < 0 && G.Epoch >= 0;
  if (G.Epoch >= 0)
    G.Columns[G.Epoch].Name.clear(); // "[train: 2, 50 / 468]"
}

/// The step of a line, where it is known, from its own numbers or those above.
std::optional<double> LogSeries::placeOf(unsigned At) {
  Group &G = Groups[Lines[At].Group];
  const int Numbers = static_cast<int>(G.Columns.size() / 2);
  std::optional<double> Step, Epoch;
  if (G.Epoch >= 0)
    Epoch = valueOf(At, G.Epoch);
  if (G.Step >= 0) {
    Step = valueOf(At, G.Step);
    if (G.Columns[G.Step].Falls && G.Epoch >= 0) {
      const double Of =
          G.Step < Numbers ? valueOf(At, G.Step + Numbers) : 0;
      Step = Of > 0 ? G.Steps.ofTotal(*Step, Of, Epoch)
                    : G.Steps.ofCounter(*Step, Epoch);
    }
    return Step;
  }
  return Counts ? std::nullopt : Epoch;
}

void LogSeries::addRow(unsigned At, ScalarRows &Rows) {
  const Line &L = Lines[At];
  Group &G = Groups[L.Group];
  std::optional<double> Step = placeOf(At);
  const bool Held = !G.Set.empty();
  if (!G.HasMetric) {
    if (Step && G.ByWord)
      Heading = Step;
    return;
  }
  // Of an evaluation's batches only their end counts, where it is.
  if (Held && Counts) {
    if (G.Step >= 0 && G.Columns[G.Step].Falls)
      if (auto Next = llvm::upper_bound(G.Lines, At);
          Next != G.Lines.end() && G.Epoch >= 0 &&
          valueOf(*Next, G.Epoch) == valueOf(At, G.Epoch))
        return;
    if (G.Step < 0 || G.Columns[G.Step].Falls)
      Step = LastStep;
  }
  if (G.Numbered)
    Step = llvm::lower_bound(G.Lines, At) - G.Lines.begin();
  else if (!Step)
    Step = Heading;
  Rows.begin(L.Number);
  if (L.WallTime)
    Rows.wallTime(*L.WallTime);
  if (Step && std::fabs(*Step) < 1e15)
    Rows.step(static_cast<int64_t>(*Step));
  if (!Held && Step)
    LastStep = Step;
  if (G.Epoch >= 0)
    Rows.number("epoch", valueOf(At, G.Epoch));
  for (size_t I = 0; I != G.Columns.size() / 2; ++I) {
    const Column &C = G.Columns[I];
    if (C.Name.empty())
      continue;
    if (!Held || setNamedIn(C.Name))
      Rows.number(C.Name, valueOf(At, I));
    else
      Rows.number(G.Set + C.Name, valueOf(At, I));
  }
  Rows.end();
}

void LogSeries::finish(ScalarRows &Rows, LogKeys &Keys) {
  nameLoss(Keys);
  for (Group &G : Groups)
    findPlace(G, Keys);
  size_t Headings = 0;
  for (Group &G : Groups) {
    if (!G.HasMetric && G.ByWord)
      Headings += G.Lines.size();
    Counts |= G.HasMetric && G.Set.empty() && G.Step >= 0;
  }
  // Of lines that come once, and of "loss of 2 men", nobody knows.
  for (Group &G : Groups)
    G.HasMetric &= G.Lines.size() > 1 && any_of(G.Columns, [](const Column &C) {
      return !C.Name.empty() && (C.Assigned || !C.Whole || C.Decimals);
    });
  // Lines without a place are of that above them, unless there are many more
  // of them: those count themselves.
  for (Group &G : Groups) {
    if (!G.HasMetric || G.Step >= 0 || G.Epoch >= 0)
      continue;
    G.Numbered = G.Lines.size() > 2 * Headings && G.Set.empty();
    // A lone line is of the settings: "learning_rate = 0.001".
    G.HasMetric = G.Lines.size() >= (Headings > 0 ? 2 : 3);
  }
  for (unsigned At = 0; At != Lines.size(); ++At)
    addRow(At, Rows);
  clear();
}

} // namespace culprit
