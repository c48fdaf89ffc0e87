//===- LogDialects.cpp ------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/LogDialects.h"
#include "Readers/JsonRecords.h"
#include "Readers/LogSettings.h"
#include "Readers/ScalarNames.h"
#include "llvm/ADT/StringExtras.h"
#include <cmath>

using namespace llvm;

namespace culprit {

bool isMetricsLine(StringRef Text) {
  size_t Brace = Text.find("{'");
  if (Brace != StringRef::npos && Text.ends_with("}"))
    return shapeOf(Text.drop_front(Brace)).isMetrics();
  SmallVector<LoggedPair, 32> Pairs;
  LogKeys Keys;
  findPairs(Text, Pairs);
  return placeOf(Text, Pairs, Keys).isMetrics();
}

/// The number at \p Key in a dict, or none.
static std::optional<double> numberInDict(StringRef Dict, StringRef Key) {
  size_t At = Dict.find(("'" + Key + "': ").str());
  if (At == StringRef::npos)
    return std::nullopt;
  return parseNumber(
      Dict.drop_front(At + Key.size() + 4)
          .take_until([](char C) { return C == ',' || C == '}'; })
          .trim("' "));
}

/// Transformers' {'loss': 2.3, ...} and fairseq's JSON behind a prefix. A
/// progress bar may follow that was printed on the same line.
bool LogDialects::dictLine(const LogLine &L) {
  size_t Brace = L.Text.find_first_of('{');
  if (Brace == StringRef::npos ||
      !(L.Text.ends_with("}") || L.Text.contains("%|")))
    return false;
  StringRef Text = L.Text.drop_front(Brace);
  size_t End = 0;
  RecordShape Shape = shapeOf(Text, &End);
  if (!Shape.isMetrics() || Shape.Texts > Shape.Numbers ||
      !printedSettings(L.Text).empty())
    return false;
  Text = Text.take_front(End);
  // "val: {'epoch': 3, 'loss': 1.2}" of GraphGym.
  StringRef Front = L.Text.take_front(Brace).rtrim(" :=");
  Front = Front.drop_front(Front.find_last_of(" \t[(|") + 1);
  const std::optional<StringRef> Set =
      all_of(Front, isAlpha) ? setNamedIn(Front) : std::nullopt;
  if (!Shape.Step && !Set && Text.starts_with("{'")) {
    Dicts.push_back({L.Number, Text.str(), L.WallTime});
    Bars.dict(numberInDict(Text, "epoch"));
    // What was drawn behind the dict on its line.
    Bars.state(L.Text.drop_front(Brace + End));
    Finished |= Text.contains("'train_runtime'");
    return true;
  }
  LooseJson In(Text);
  In.next();
  Rows.begin(L.Number);
  if (L.WallTime)
    Rows.wallTime(*L.WallTime);
  if (Set)
    Rows.string("split", Front);
  return readRecord(In, Rows) && Rows.end();
}

/// "OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 4, reducing to 2",
/// "Reducing dynamic loss scale from 4 to 2".
bool LogDialects::overflowLine(const LogLine &L) {
  StringRef Before = "reducing to ";
  size_t At = L.Text.rfind(Before);
  bool Announces =
      At == StringRef::npos && L.Text.contains("educing dynamic loss scale");
  if (Announces)
    At = L.Text.rfind(Before = " to ");
  if (At == StringRef::npos)
    return false;
  std::optional<double> Scale =
      parseNumber(L.Text.drop_front(At + Before.size()).take_while([](char C) {
        return C != ' ';
      }));
  if (!Scale)
    return false;
  // Some optimizers say it twice: in one form, then in the other.
  bool Repeats = !Announces && NewScale == Scale;
  NewScale = Announces ? Scale : std::nullopt;
  if (Repeats)
    return true;
  Rows.begin(L.Number);
  if (L.WallTime)
    Rows.wallTime(*L.WallTime);
  Rows.number("loss_scale", *Scale);
  return Rows.end();
}

/// "Total optimization steps = 400", "Num Epochs = 4".
void LogDialects::planLine(const LogLine &L) {
  findPairs(L.Body, Pairs);
  for (const LoggedPair &P : Pairs) {
    if (P.Key.ends_with_insensitive("total optimization steps"))
      TotalSteps = static_cast<int64_t>(std::min(P.Value, 1e15));
    if (P.Key.ends_with_insensitive("num epochs"))
      Epochs = P.Value;
  }
}

/// "step:31K" of LeRobot, "Step: 86k".
static double factorOfCount(StringRef Unit) {
  return Unit == "K" || Unit == "k" ? 1e3 : Unit == "M" ? 1e6 : 1;
}

/// The factor that takes a value with a unit to the canonical one.
static double unitFactor(const LoggedPair &P, StringRef Metric) {
  if (P.Unit == "ms" && (Metric == "step_time" || Metric == "data_time"))
    return 1e-3;
  if (Metric == "throughput" || Metric == "tokens")
    return factorOfCount(P.Unit);
  return 1;
}

void LogDialects::begin(const LogLine &L) {
  Rows.begin(L.Number);
  if (L.WallTime)
    Rows.wallTime(*L.WallTime);
  if (L.Rank)
    Rows.rank(*L.Rank);
}

double LogDialects::stepOf(const LinePlace &Place) {
  double Step = Place.Step->Value * factorOfCount(Place.Step->Unit);
  std::optional<double> Epoch = Heading;
  if (Place.Epoch)
    Epoch = Place.Epoch->Value;
  // A bar that counts the epochs it names: "Epoch 3: 3/1000 [...]".
  if (Place.Bar && Place.Epoch && Step != Place.Epoch->Value)
    BarCountsEpochs = false;
  if (Place.Bar && Place.Epoch && BarCountsEpochs)
    return Step;
  if (Place.EpochFirst || Place.Fraction)
    return Steps.ofTotal(Step, Place.Step->Of, Epoch);
  if (Place.Validation || Place.Step->Of > 0)
    return Step;
  return Steps.ofCounter(Step, Epoch);
}

namespace {
/// The numbers of a line that are the time of its step, and within it that of
/// its data, by words that elsewhere mean any time and any data.
struct LineTimes {
  const LoggedPair *Step = nullptr, *Data = nullptr;

  LineTimes(ArrayRef<LoggedPair> Pairs, const LinePlace &Place);
  /// step_time, data_time, or nothing.
  StringRef nameOf(const LoggedPair &P) const {
    return &P == Step ? "step_time" : &P == Data ? "data_time" : "";
  }
};
} // namespace

/// Whether the number behind \p P is its mean in brackets, as the meters of
/// PyTorch's examples print it: "Time  0.123 ( 0.130)".
static bool isMeter(const LoggedPair &P, const LoggedPair *Next) {
  return Next && Next->Key.empty() && Next->Begin <= P.End + 4 && P.Of == 0;
}

/// nanoGPT has "time 24.38ms" and timm "Time: 0.51s"; MaxText's "seconds" are
/// those of a step. A time without a unit is one beside that of the data, in
/// the lines of the MetricLogger of DETR, torchvision and MAE, or of a meter.
LineTimes::LineTimes(ArrayRef<LoggedPair> Pairs, const LinePlace &Place) {
  bool Sure = false;
  for (const LoggedPair &P : Pairs) {
    bool Known = (P.Key == "time" && P.Unit == "ms") ||
                 (P.Key == "Time" && P.Unit == "s" && P.Assigned) ||
                 (P.Key == "seconds" &&
                  Place.Step->Key.equals_insensitive("completed step"));
    const LoggedPair *Next = &P + 1 == Pairs.end() ? nullptr : &P + 1;
    const bool Meter = isMeter(P, Next);
    const bool Time = P.Key.equals_insensitive("time");
    if (Known || (Time && (P.Assigned || Meter) && !Step))
      Step = &P;
    if (P.Key.equals_insensitive("data") && (P.Assigned || Meter))
      Data = &P;
    Sure |= Known || (Time && Meter);
  }
  if (!Step)
    Data = nullptr;
  if (!Sure && !Data)
    Step = nullptr;
}

bool LogDialects::pairsLine(const LogLine &L) {
  findPairs(L.Body, Pairs);
  LinePlace Place = placeOf(L.Body, Pairs, Keys);
  // Megatron leaves a loss out of the line when it is NaN, and counts it.
  bool Megatron = L.Text.contains("number of nan iterations");
  // DeepSpeed prints what it knows, which is not the loss: "step=10,
  // skipped=4, lr=[..." and a timer's "epoch=0/micro_step=40/global_step=10,"
  // or, before 0.8, "0/20,".
  bool Timer = L.Text.contains("SamplesPerSec=");
  bool DeepSpeed =
      Timer || (L.Text.contains("skipped=") && L.Text.contains("lr=["));
  if (Timer && !Place.Step && !Pairs.empty() && Pairs[0].Of > 0) {
    std::swap(Pairs[0].Value, Pairs[0].Of);
    Place.Step = &Pairs[0];
  }
  if (!Place.Step || Place.Evaluation)
    return epochLine(L, Place);
  if (!(Place.LossLike || Megatron || DeepSpeed))
    return false;
  // Megatron evaluates on two sets and says so in front of the same names;
  // TensorFlow's estimators and Tensor2Tensor say it with a word of their own.
  const bool Held = Place.Validation ||
                    L.Body.starts_with("Validation (step ") ||
                    L.Text.contains("Saving dict for global step ");
  StringRef Set = L.Text.contains(" on test set |") ? "test/"
                  : Held                            ? "val/"
                                                    : "";
  begin(L);
  if (double Step = stepOf(Place); std::fabs(Step) < 1e15)
    Rows.step(static_cast<int64_t>(Step));
  bool Nan = false;
  const LineTimes Times(Pairs, Place);
  // icefall's means over many batches, behind those of the batch.
  const size_t Means = L.Body.find(", tot_loss[");
  const size_t MeansEnd = L.Body.find(']', Means);
  for (const LoggedPair &P : Pairs) {
    if (&P == Place.Step || (P.Begin > Means && P.Begin < MeansEnd))
      continue;
    // CycleGAN's time is that of a picture, and its data's that of a batch.
    if ((P.Key == "time" || P.Key == "data") && L.Text.starts_with("(epoch: "))
      continue;
    if (StringRef Time = Times.nameOf(P); !Time.empty()) {
      Rows.number(Time, P.Unit == "ms" ? P.Value / 1e3 : P.Value);
      continue;
    }
    const LogKeys::Meaning &Key = Keys.of(P.Key);
    // "data: 1.1ms", "step_avg:50.01ms": the unit says that it is a time.
    if (P.isTime() && !Key.Scalar && P.Key.size() <= 60)
      if (std::string Timed = (P.Key + "_" + P.Unit).str();
          scalarName(Timed).Known) {
        Rows.number((Set + Timed).str(), P.Value);
        continue;
      }
    // "1s/epoch" of Keras; "Train: 1/80", a counter of a name unknown.
    const bool Epoch = &P == Place.Epoch;
    if ((Key.Metric == "epoch" && P.isTime()) ||
        (P.Of > 0 && !Key.Scalar && !Epoch))
      continue;
    if (Epoch && !Key.Scalar) {
      Rows.number("epoch", P.Value);
      continue;
    }
    if (!isScalarKey(P, Key))
      continue;
    // A rate of 0.000 was rounded for the eye (verl prints three decimals).
    if (Key.Metric == "lr" && P.Value == 0 && P.Decimals > 1)
      continue;
    double Value = P.Value * unitFactor(P, Key.Metric);
    if (Set.empty())
      Rows.number(P.Key, Value);
    else
      Rows.number((Set + P.Key).str(), Value);
    Nan |= Key.Metric == "nan_iterations" && P.Value > 0;
  }
  if (Megatron && Nan && !Place.LossLike)
    Rows.number("lm loss", std::nan(""));
  if (!Rows.end())
    return false;
  Stepped |= Set.empty();
  return true;
}

/// Lines of a known form that make it the form of the log: a lone one may be
/// that of an evaluation before the first step.
static constexpr unsigned FewRows = 3;

/// A line that may say where those below it stand: "Learning iteration 3/100".
static bool mayBeHeading(StringRef Text) {
  return Text.size() <= 500 && any_of(Text, isDigit) &&
         (Text.contains_insensitive("step") ||
          Text.contains_insensitive("iter") ||
          Text.contains_insensitive("epoch"));
}

bool LogDialects::line(const LogLine &L, const LineScan &Scan) {
  if (knownLine(L, Scan)) {
    Known += Stepped;
    if (Known == FewRows)
      Series.clear();
    return true;
  }
  if (Known >= FewRows || !(Scan.Metric || mayBeHeading(L.Body) ||
                   (L.Body.size() <= 200 && Series.isBelow(L.Number))))
    return false;
  return Series.add(L, Keys);
}

bool LogDialects::knownLine(const LogLine &L, const LineScan &Scan) {
  if (Scan.Overflow && overflowLine(L))
    return true;
  if (boxLine(L) || blockLine(L) || tableLine(L) || formLine(L) ||
      nestedLine(L))
    return true;
  if (Scan.Plan)
    planLine(L);
  bool Megatron = !Scan.Metric && L.Text.contains("number of nan iterations");
  if (!Scan.Metric && !Megatron)
    return otherLine(L);
  // Longer lines are dumps of arguments or data.
  if (L.Text.size() > 4000)
    return false;
  return dictLine(L) || roundLine(L) || batchesLine(L) || pairsLine(L);
}

void LogDialects::addDict(const Dict &D, std::optional<int64_t> Step) {
  LooseJson In(D.Text);
  In.next();
  Rows.begin(D.Line);
  if (D.WallTime)
    Rows.wallTime(*D.WallTime);
  if (!readRecord(In, Rows))
    return;
  if (Step)
    Rows.step(*Step);
  Rows.end();
}

/// How many steps lie between two dicts of training, from the length of the
/// run; 0 when it is not known.
int64_t LogDialects::stepsBetweenDicts(size_t TrainRows,
                                       double LastEpoch) const {
  if (TrainRows == 0)
    return 0;
  double Steps = static_cast<double>(TotalSteps);
  for (const Dict &D : Dicts) {
    std::optional<double> Time = numberInDict(D.Text, "train_runtime"),
                          Rate = numberInDict(D.Text, "train_steps_per_second");
    if (Time && Rate && Steps == 0)
      Steps = std::round(*Time * *Rate);
  }
  if (!Finished && Epochs > 0)
    Steps *= LastEpoch / Epochs;
  else if (!Finished)
    return 0;
  // Shortly before the next row is due the count is up to one row too high.
  return static_cast<int64_t>(Steps / static_cast<double>(TrainRows) + 1e-6);
}

void LogDialects::finish() {
  endBlock();
  endRounds();
  if (Known < FewRows && Dicts.empty()) {
    if (Series.left())
      S.warn(S.path() + ": the last " + Twine(Series.left()) +
                 " lines of metrics were not read",
             "a log of JSON lines or of a CSV is read to its end");
    Series.finish(Rows, Keys);
  }
  size_t TrainRows = 0;
  double LastEpoch = 0;
  for (const Dict &D : Dicts) {
    TrainRows += numberInDict(D.Text, "loss").has_value();
    LastEpoch = numberInDict(D.Text, "epoch").value_or(LastEpoch);
  }
  int64_t Every = stepsBetweenDicts(TrainRows, LastEpoch);
  std::vector<int64_t> Told = Bars.steps();
  int64_t Seen = 0;
  // Some trainers call no number the loss: rows are those of any name then.
  const bool Nameless = TrainRows == 0;
  for (const Dict &D : Dicts) {
    bool Train = numberInDict(D.Text, "loss").has_value() ||
                 (Nameless && !StringRef(D.Text).contains("'eval"));
    Seen += Train;
    int64_t Step = Every > 0 ? Seen * Every : std::max<int64_t>(Seen - 1, 0);
    if (!Told.empty())
      Step = Told[&D - Dicts.data()];
    addDict(D, Step);
  }
  if (!Dicts.empty())
    S.Remarks.push_back(
        {Severity::Note,
         (S.path() + ": the log prints no steps; " +
          (!Told.empty() ? Twine("the progress bar told them")
           : Every > 0   ? "they were taken as every " + Twine(Every)
                         : Twine("rows were counted instead")))
             .str(),
         "trainer_state.json in a checkpoint folder has the steps"});
}

} // namespace culprit
