//===- ScalarRows.cpp -------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/ScalarRows.h"
#include "Readers/LossNames.h"
#include "Readers/LogPlace.h"
#include "Readers/TimeStamp.h"
#include "Support/LooseJson.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include <cmath>

using namespace llvm;

namespace culprit {

std::optional<int64_t> rankOfPath(StringRef Path) {
  StringRef Name = sys::path::filename(Path);
  size_t At = Name.rfind_insensitive("rank");
  if (At == StringRef::npos || (At && isAlpha(Name[At - 1])))
    return std::nullopt;
  StringRef Digits = Name.drop_front(At + 4).ltrim("_-=").take_while(isDigit);
  int64_t Rank = 0;
  if (Digits.empty() || Digits.getAsInteger(10, Rank))
    return std::nullopt;
  return Rank;
}

/// A whole number that a step may be; none for NaN and the like.
static std::optional<int64_t> wholeNumber(double Value) {
  if (!(std::fabs(Value) < 9e15) || Value != std::floor(Value))
    return std::nullopt;
  return static_cast<int64_t>(Value);
}

ScalarRows::ScalarRows(Source &S)
    : S(S), Run(S.pool().intern(S.Run)), FileRank(rankOfPath(S.path())) {}

ScalarRows::Name ScalarRows::resolve(ScalarName Scalar, FieldKind Kind,
                                     StringRef Raw) {
  StringPool &Pool = S.pool();
  Name Out{Kind,       std::move(Scalar), false,           NullString,
           NullString, NullString,        Pool.intern(Raw)};
  Out.Canonical = Pool.intern(Out.Scalar.Name);
  Out.Metric = Pool.intern(Out.Scalar.Metric);
  if (!Out.Scalar.Layer.empty())
    Out.Layer = Pool.intern(Out.Scalar.Layer);
  Out.Exact = Out.Canonical == Out.Raw;
  return Out;
}

const ScalarRows::Name &ScalarRows::name(StringRef Key) {
  auto It = Names.find(Key);
  if (It == Names.end())
    It = Names.try_emplace(Key, resolve(scalarName(Key), fieldKind(Key), Key))
             .first;
  return It->second;
}

void ScalarRows::expect(ArrayRef<std::string> Keys) {
  const LossNames Is = lossNames(Keys);
  auto Call = [&](const std::string &Key, StringRef Canonical) {
    if (!Key.empty())
      Names.try_emplace(Key, resolve(scalarName(Canonical), FieldKind::Scalar,
                                     Key));
  };
  Call(Is.Training, "loss");
  Call(Is.HeldOut, "val_loss");
}

const ScalarRows::Name &ScalarRows::layerName(const Name &Raw,
                                              StringRef Layer) {
  StringRef RawText = S.pool().text(Raw.Raw);
  std::string Key = (RawText + "\n" + Layer).str();
  auto It = LayerNames.find(Key);
  if (It == LayerNames.end())
    It = LayerNames
             .try_emplace(Key, resolve(layerScalarName(RawText, Layer),
                                       FieldKind::Scalar, RawText))
             .first;
  return It->second;
}

void ScalarRows::begin(int64_t L) {
  Line = L;
  Fields.clear();
  Step_ = std::nullopt;
  Rank_ = FileRank;
  Time = ValueField = std::nullopt;
  Layer.clear();
  MetricName.clear();
  Batch = std::nullopt;
  Set = SetOfFile;
  StepOf = 0;
  Summary = false;
  StepTrust = 0;
}

/// The trust in a name that says step.
static constexpr unsigned MostTrust = 4;

/// How far to trust a name among several that count steps. batch_idx begins
/// again with each epoch, and W&B's _step counts the calls of its log().
static unsigned trustInStep(StringRef Raw) {
  if (Raw == "batch_idx")
    return 1;
  if (Raw == "_step")
    return 2;
  return Raw.contains_insensitive("step") ? MostTrust : 3;
}

/// Takes a field that places the record.
void ScalarRows::place(const Name &Of, double Value) {
  std::optional<int64_t> Whole = wholeNumber(Value);
  switch (Of.Kind) {
  case FieldKind::Step:
    if (unsigned Trust = Whole ? trustInStep(S.pool().text(Of.Raw)) : 0;
        Trust > StepTrust || (Trust == StepTrust && Trust == MostTrust)) {
      Step_ = Whole;
      StepTrust = Trust;
    }
    break;
  case FieldKind::Batch:
    Batch = Whole;
    break;
  case FieldKind::Rank:
    if (Whole)
      Rank_ = Whole;
    break;
  case FieldKind::Time:
    // Some log milliseconds since 1970.
    if (Value > 1e8)
      Time = Value > 1e11 ? Value / 1e3 : Value;
    break;
  case FieldKind::Layer:
    if (Whole)
      Layer = itostr(*Whole);
    break;
  case FieldKind::Value:
    ValueField = Value;
    break;
  case FieldKind::Metric:
  case FieldKind::Set:
  case FieldKind::Other:
  case FieldKind::Scalar:
    break;
  }
}

void ScalarRows::number(StringRef Key, double Value) {
  const Name &Of = name(Key);
  if (Of.Kind != FieldKind::Scalar)
    return place(Of, Value);
  if (Key == "time" && Value > 1e8) {
    Time = Value;
    return;
  }
  // The last row of a Transformers run holds means over the run; its loggers
  // put the split in front.
  if (Key == "train_runtime" || Key == "train/train_runtime")
    Summary = true;
  Fields.push_back({&Of, Value});
}

void ScalarRows::string(StringRef Key, StringRef Value) {
  FieldKind Kind = name(Key).Kind;
  if (Kind == FieldKind::Layer) {
    Layer = Value.str();
    return;
  }
  if (Kind == FieldKind::Metric) {
    MetricName = Value.str();
    return;
  }
  if (Kind == FieldKind::Time) {
    std::optional<TimeStamp> Stamp = leadingTimeStamp(Value);
    if (Stamp && Stamp->Unix)
      Time = Stamp->Unix;
    return;
  }
  if (Kind == FieldKind::Set) {
    if (std::optional<StringRef> Named = setNamedIn(Value))
      Set = *Named;
    return;
  }
  if (Kind == FieldKind::Step || Key == "epoch") { // "12/400"
    if (Kind == FieldKind::Step)
      StepOf = parseNumber(Value.split('/').second).value_or(0);
    Value = Value.split('/').first;
  }
  if (std::optional<double> Number = parseNumber(Value))
    return number(Key, *Number);
  // "tensor(2.5, device='cuda:0')", as json.dumps(default=str) leaves it.
  LooseJson Wrapped(Value);
  if (Value.ends_with(")") && Wrapped.next() == LooseJson::Token::Number &&
      Wrapped.end() == Value.size())
    number(Key, Wrapped.number());
}

/// Whether the record's step is the epoch: MMEngine's evaluation of epoch 3
/// stands with step 3 among iterations in the hundreds, and has neither a loss
/// nor an epoch of its own.
bool ScalarRows::isOfEpoch() const {
  return Step_ && LastStep && LastEpoch && *Step_ < *LastStep &&
         static_cast<double>(*Step_) == *LastEpoch &&
         llvm::none_of(Fields, [](const Field &F) {
           return F.Of->Scalar.Known &&
                  (F.Of->Scalar.Name == "epoch" || F.Of->Scalar.Name == "loss");
         });
}

/// Counts the steps of all epochs where the record counts those of its own.
void ScalarRows::countOn() {
  if (!Step_ && Batch) {
    // One number in all records is a size.
    BatchCounts |= FirstBatch && *FirstBatch != *Batch;
    FirstBatch = FirstBatch ? FirstBatch : Batch;
    if (BatchCounts)
      Step_ = Batch;
  }
  // An evaluation counts its own batches.
  if (isEvaluation() && LastStep && StepTrust < MostTrust)
    Step_ = LastStep;
  if (!Step_ || isEvaluation())
    return;
  for (const Field &F : Fields)
    if (F.Of->Scalar.Known && F.Of->Scalar.Name == "epoch")
      Step_ = CounterOfRank[Rank_.value_or(-1)].step(*Step_, StepOf, F.Value);
}

bool ScalarRows::measuresHeldOut() const {
  if (isEvaluation())
    return true;
  bool Held = false;
  for (const Field &F : Fields) {
    StringRef Name = F.Of->Scalar.Known ? F.Of->Scalar.Name : "";
    if (Name == "loss" || Name == "lr")
      return false;
    Held |= Name.starts_with("val_");
  }
  return Held;
}

int64_t ScalarRows::stepOfRecord() {
  if (isOfEpoch())
    Step_ = LastStep;
  else
    countOn();
  if (Step_)
    return *Step_;
  if (LastStep)
    return *LastStep; // an evaluation between two steps
  // Rows are counted; an evaluation is of the row before it.
  const bool HeldOut = measuresHeldOut();
  if (HeldOut && CountsTraining)
    return Counted - 1;
  CountsTraining |= !HeldOut;
  return Counted++;
}

void ScalarRows::followStep(int64_t Step) {
  LastStep = Step;
  auto [It, New] = LastStepOfRank.try_emplace(Rank_.value_or(-1), Step);
  if (!New && Step < It->second && TimesBack++ == 0)
    FirstBack = (S.path() + ":" + Twine(Line) + ": steps go back from " +
                 Twine(It->second) + " to " + Twine(Step))
                    .str();
  It->second = Step;
}

void ScalarRows::addRow(const Name &Of, double Value, bool OwnName,
                        int64_t Step, StringId RawName) {
  TableBuilder &T = S.table(TableId::scalars);
  T.addRow();
  T.setId(scalars::run, Run);
  if (Rank_)
    T.set(scalars::rank, *Rank_);
  T.set(scalars::step, Step);
  T.setId(scalars::name, OwnName ? Of.Raw : Of.Canonical);
  T.setId(scalars::metric, OwnName ? Of.Raw : Of.Metric);
  if (Of.Layer != NullString && !OwnName)
    T.setId(scalars::layer, Of.Layer);
  T.setId(scalars::raw_name, RawName == NullString ? Of.Raw : RawName);
  T.set(scalars::value, OwnName ? Value : Value * Of.Scalar.Factor);
  if (Time)
    T.set(scalars::wall_time, *Time);
  T.set(scalars::place, Line);
  ++Added;
}

/// Whether several of one kind are parts of their sum, as losses are; samples
/// and tokens a second are not.
static bool isPartOfSum(StringRef Metric) { return Metric.ends_with("loss"); }

/// By canonical name, the field of the record that gets it: the one that bears
/// it itself, else the first. fairseq logs loss beside nll_loss. Of kinds of
/// losses a lone one is the loss; several without their sum are parts of one.
void ScalarRows::findOwners() {
  Owners.clear();
  for (const Field &F : Fields) {
    auto [It, New] = Owners.try_emplace(F.Of->Canonical, F.Of);
    if (New)
      continue;
    const Name *&Owner = It->second;
    if (F.Of->Exact)
      Owner = F.Of;
    else if (F.Of->Scalar.Weak && Owner && Owner->Scalar.Weak)
      Owner = isPartOfSum(F.Of->Scalar.Metric) ? nullptr : Owner;
    else if (F.Of->Scalar.Weak)
      continue;
    else if (!Owner || Owner->Scalar.Weak)
      Owner = F.Of;
  }
}

/// Gives \p F the canonical name \p Name, whatever it was taken for.
void ScalarRows::rename(Field &F, StringRef Name) {
  StringRef Raw = S.pool().text(F.Of->Raw);
  std::string Key = (Name + "\n" + Raw).str();
  auto It = Names.find(Key);
  if (It == Names.end())
    It = Names
             .try_emplace(Key, resolve(scalarName(Name), FieldKind::Scalar,
                                       Raw))
             .first;
  F.Of = &It->second;
}

/// ESPnet's iter_time is what the iterator took to give the batch, and its
/// train_time the whole step.
void ScalarRows::nameTimesOfParts() {
  Field *Data = nullptr, *Whole = nullptr;
  bool Forward = false;
  for (Field &F : Fields) {
    StringRef Raw = S.pool().text(F.Of->Raw);
    Raw.consume_front("train/");
    if (Raw == "iter_time")
      Data = &F;
    if (Raw == "train_time")
      Whole = &F;
    Forward |= Raw == "forward_time";
  }
  if (!Data || !Whole || !Forward)
    return;
  rename(*Data, "data_time");
  rename(*Whole, "step_time");
}

/// DeiT, MAE and what came after them log an epoch at once and call the set
/// that is held out the test set: train_loss, test_loss, test_acc1. Where a log
/// has another held-out loss, the test set is what its name says.
void ScalarRows::nameHeldOut() {
  bool Train = false, Test = false;
  for (const Field &F : Fields) {
    Validated |= F.Of->Scalar.Known && F.Of->Scalar.Metric == "val_loss";
    Train |= F.Of->Scalar.Known && F.Of->Scalar.Name == "loss";
    Test |= S.pool().text(F.Of->Raw) == "test_loss";
  }
  if (!Train || !Test || Validated)
    return;
  for (Field &F : Fields) {
    StringRef Raw = S.pool().text(F.Of->Raw);
    if (!Raw.consume_front("test_"))
      continue;
    std::string Held = ("val_" + Raw).str();
    if (scalarName(Held).Known)
      rename(F, Held);
  }
}

/// Whether a field says by its own name what set it is of.
bool ScalarRows::hasHeldOutName() const {
  return llvm::any_of(Fields, [&](const Field &F) {
    return F.Of->Scalar.Known && (StringRef(F.Of->Scalar.Name)
                                      .starts_with("val_") ||
                                  S.pool().text(F.Of->Raw).contains("train"));
  });
}

/// The measurements of a record whose set is told beside them: {"split": "val",
/// "loss": 2.1}. What has no such name, as a rate or a time, is not that of
/// training either.
void ScalarRows::nameOfSet() {
  if (!isEvaluation() || hasHeldOutName())
    return;
  for (Field &F : Fields)
    if (F.Of->Scalar.Known && F.Of->Scalar.Name != "epoch")
      rename(F, (Set + S.pool().text(F.Of->Raw)).str());
}

void ScalarRows::takeSetOfPath() {
  StringRef Path = S.path();
  SetOfFile = setNamedIn(sys::path::stem(Path)).value_or("");
  StringRef Folder = sys::path::parent_path(Path);
  StringRef Name = sys::path::filename(Folder);
  std::optional<StringRef> OfFolder = setNamedIn(Name);
  if (!SetOfFile.empty() || !OfFolder || OfFolder->empty() ||
      !all_of(Name, isAlpha))
    return;
  // A whole run may lie in a folder that somebody called eval.
  for (StringRef Train : {"train", "training"}) {
    SmallString<128> Beside = sys::path::parent_path(Folder);
    sys::path::append(Beside, Train);
    if (sys::fs::is_directory(Beside))
      SetOfFile = *OfFolder;
  }
}

/// MMEngine and Detectron2 log the time of an iteration as `time`, and within
/// it that of its data as `data_time`.
void ScalarRows::nameTime() {
  Field *Whole = nullptr;
  bool Data = false, Named = false;
  for (Field &F : Fields) {
    StringRef Raw = S.pool().text(F.Of->Raw);
    if (Raw == "time" || Raw == "train/time")
      Whole = &F;
    Data |= F.Of->Scalar.Known && F.Of->Scalar.Name == "data_time";
    Named |= F.Of->Scalar.Known && F.Of->Scalar.Name == "step_time";
  }
  if (Whole && Data && !Named)
    rename(*Whole, "step_time");
}

/// Of a record that has rates of parts alone, as lr/actor beside lr/critic, the
/// first is that of the run.
void ScalarRows::nameRate() {
  Field *First = nullptr;
  for (Field &F : Fields) {
    const ScalarName &Is = F.Of->Scalar;
    if (!Is.Known || Is.Metric != "lr")
      continue;
    if (Is.Layer.empty())
      return;
    if (!First && !StringRef(Is.Layer).contains('.'))
      First = &F;
  }
  if (First)
    rename(*First, "lr");
}

/// Whether the record's layer key names a layer: one with a loss or a learning
/// rate beside it names the run instead.
bool ScalarRows::isOfLayer() const {
  if (Layer.empty())
    return false;
  for (const Field &F : Fields)
    for (StringRef OfRun : {"loss", "val_loss", "lr", "epoch", "throughput"})
      if (F.Of->Scalar.Known && F.Of->Scalar.Name == OfRun)
        return false;
  return true;
}

/// What the loss of a record of reinforcement learning is called; null when
/// it is a record of another kind. Its loss hovers about nought by
/// construction and says nothing of how well the model does. A trainer that
/// logs the policy's own loss beside it (Stable-Baselines3) means the sum.
/// Whether \p Raw names the loss of a world model: of Dreamer, MBPO, PlaNet.
static bool isOfModel(StringRef Raw) {
  return Raw.ends_with("model_loss") || Raw.contains("world_model");
}

const ScalarRows::Name *ScalarRows::lossOfPolicy() {
  bool Loss = false, Policy = false, Reward = false, Pairs = false;
  for (const Field &F : Fields) {
    if (!F.Of->Scalar.Known)
      continue;
    StringRef Is = F.Of->Scalar.Name;
    // What a world model learns of its recordings is no loss of a policy.
    if (Is == "loss" && isOfModel(S.pool().text(F.Of->Raw)))
      return nullptr;
    Loss |= Is == "loss";
    Policy |= Is == "policy_loss";
    Reward |= Is == "reward";
    Pairs |= Is == "rewards_margin"; // of a preference loss, which is one
  }
  if (!Loss || Pairs || !(Policy || Reward))
    return nullptr;
  return &name(Policy ? "rl_loss" : "policy_loss");
}

void ScalarRows::addFields(int64_t Step) {
  if (isOfLayer()) {
    for (const Field &F : Fields)
      addRow(layerName(*F.Of, Layer), F.Value, false, Step);
    return;
  }
  nameTimesOfParts();
  nameTime();
  nameRate();
  nameHeldOut();
  nameOfSet();
  findOwners();
  const Name *Policy = lossOfPolicy();
  const bool HeldOut = any_of(Fields, [](const Field &F) {
    return F.Of->Scalar.Known && F.Of->Scalar.Name == "val_loss";
  });
  for (const Field &F : Fields) {
    if (Policy && F.Of->Scalar.Known && F.Of->Scalar.Name == "loss") {
      addRow(*Policy, F.Value, false, Step, F.Of->Raw);
      continue;
    }
    bool Mean = Summary && S.pool().text(F.Of->Raw).ends_with("train_loss");
    // Beside eval_loss, eval_kl_loss is a part of it and no set of its own.
    Mean |= HeldOut && F.Of->Scalar.Metric == "val_loss" &&
            !F.Of->Scalar.Layer.empty();
    addRow(*F.Of, F.Value, Mean || Owners.lookup(F.Of->Canonical) != F.Of,
           Step);
  }
}

/// {"step": 3, "name": "loss", "value": 2.5}, one scalar a record.
bool ScalarRows::addNamedValue(int64_t Step) {
  if (!ValueField)
    return false;
  if (!MetricName.empty() && !Layer.empty())
    addRow(layerName(name(MetricName), Layer), *ValueField, false, Step);
  else if (!MetricName.empty())
    addRow(name(MetricName), *ValueField, false, Step);
  else if (!Layer.empty() && Fields.empty())
    addRow(name(Layer), *ValueField, false, Step);
  else
    addRow(name("value"), *ValueField, false, Step);
  return true;
}

bool ScalarRows::end() {
  if (Fields.empty() && !ValueField)
    return false;
  int64_t Step = stepOfRecord();
  if (Step_ && !isEvaluation())
    followStep(Step);
  for (const Field &F : Fields)
    if (F.Of->Scalar.Known && F.Of->Scalar.Name == "epoch")
      LastEpoch = F.Value;
  if (!addNamedValue(Step))
    addFields(Step);
  return true;
}

void ScalarRows::finish() {
  if (TimesBack == 0)
    return;
  S.warn(Twine(FirstBack) +
             (TimesBack > 1 ? ", and " + utostr(TimesBack - 1) + " times more"
                            : std::string()),
         "every row was kept; where a step occurs twice, its last row counts, "
         "as after a resume");
}

} // namespace culprit
