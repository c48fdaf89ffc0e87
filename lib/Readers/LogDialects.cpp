//===- LogDialects.cpp ------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/LogDialects.h"
#include "Readers/JsonRecords.h"
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
static bool isStepKey(StringRef Key) {
  takeValidation(Key);
  // "saved best model at step 100" tells of another step than the line's.
  size_t At = Key.rfind_insensitive("at ");
  if (At == 0 || (At != StringRef::npos && Key[At - 1] == ' ' &&
                  Key.take_front(At).contains_insensitive("loss")))
    Key = Key.drop_front(At + 3);
  for (StringRef Word : {"train ", "training ", "global ", "in "})
    Key.consume_front_insensitive(Word);
  return fieldKind(Key) == FieldKind::Step;
}

static bool isEpochKey(StringRef Key) {
  Key.consume_front_insensitive("train ");
  return Key.equals_insensitive("epoch") || Key.equals_insensitive("ep");
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
  M.Step = isStepKey(Key);
  StringRef Of = Key;
  M.Validation =
      M.Step && takeValidation(Of) && !Of.contains_insensitive(" at ");
  M.Epoch = isEpochKey(Key);
  M.LossLike = !Key.empty() && isLossLike(Key);
  M.Ignored = M.Step || fieldKind(Key) != FieldKind::Scalar;
  M.Scalar = Name.Known && !M.Ignored;
  M.Metric = Name.Metric;
  return Known.try_emplace(Key, std::move(M)).first->second;
}

namespace {
/// What places a line of pairs.
struct LinePlace {
  const LoggedPair *Step = nullptr, *Epoch = nullptr;
  bool LossLike = false;
  bool Validation = false;
  bool EpochFirst = false; ///< The counter starts again each epoch.
};
} // namespace

/// torchtune's bar, "<epoch>|<step>|Loss: 2.5:  5%|5   | 10/400 [...": whether
/// the first two numbers of \p Text are those.
static bool hasTorchtuneFront(StringRef Text) {
  StringRef Rest = Text.ltrim().drop_while(isDigit);
  if (!Rest.consume_front("|") || Rest.empty() || !isDigit(Rest[0]))
    return false;
  return Rest.drop_while(isDigit).starts_with("|Loss:");
}

static LinePlace placeOf(StringRef Text, ArrayRef<LoggedPair> Pairs,
                         LogKeys &Keys) {
  LinePlace Out;
  const LoggedPair *Fraction = nullptr;
  for (const LoggedPair &P : Pairs) {
    bool Whole = P.Value == std::floor(P.Value) && std::fabs(P.Value) < 1e15;
    const LogKeys::Meaning &Key = Keys.of(P.Key);
    if (!Out.Step && Whole && Key.Step) {
      Out.Step = &P;
      Out.Validation = Key.Validation;
      Out.EpochFirst = Out.Epoch && P.Of > 0;
    } else if (!Out.Epoch && Key.Epoch) {
      Out.Epoch = &P;
    } else if (P.Of > 0 && P.Key.empty() && Whole && !Fraction) {
      Fraction = &P; // "Epoch: [0][ 100/5005]"
    } else {
      Out.LossLike |= Key.LossLike;
    }
  }
  if (!Out.Step && Out.Epoch && Fraction) {
    Out.Step = Fraction;
    Out.EpochFirst = true;
  }
  // A progress bar counts the steps, or those of its epoch.
  if (!Out.Step && Fraction && Text.contains("%|"))
    Out.Step = Fraction;
  if (Pairs.size() > 2 && hasTorchtuneFront(Text)) {
    Out.Step = &Pairs[1];
    Out.EpochFirst = false;
  }
  return Out;
}

bool isMetricsLine(StringRef Text) {
  size_t Brace = Text.find("{'");
  if (Brace != StringRef::npos && Text.ends_with("}"))
    return shapeOf(Text.drop_front(Brace)).isMetrics();
  SmallVector<LoggedPair, 32> Pairs;
  LogKeys Keys;
  findPairs(Text, Pairs);
  LinePlace Place = placeOf(Text, Pairs, Keys);
  return Place.Step && Place.LossLike;
}

/// The number at \p Key in a dict, or none.
static std::optional<double> valueOf(StringRef Dict, StringRef Key) {
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
  if (!Shape.isMetrics() || Shape.Texts > Shape.Numbers)
    return false;
  Text = Text.take_front(End);
  if (!Shape.Step && Text.starts_with("{'")) {
    Dicts.push_back({L.Number, Text.str(), L.WallTime});
    Bars.dict(valueOf(Text, "epoch"));
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

/// The factor that takes a value with a unit to the canonical one.
static double unitFactor(const LoggedPair &P, StringRef Metric) {
  if (P.Unit == "ms" && (Metric == "step_time" || Metric == "data_time"))
    return 1e-3;
  if (Metric == "throughput" || Metric == "tokens")
    return P.Unit == "K" || P.Unit == "k" ? 1e3 : P.Unit == "M" ? 1e6 : 1;
  return 1;
}

/// Whether a pair is worth a row: a known name, or an identifier that was
/// assigned to, not a word of a sentence.
static bool isScalarKey(const LoggedPair &P, const LogKeys::Meaning &Key) {
  if (Key.Scalar || Key.Ignored)
    return Key.Scalar;
  return P.Assigned && !P.Key.empty() && P.Key.size() <= 60 &&
         !P.Key.contains(' ') && isAlpha(P.Key[0]);
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
  if (!Place.Step || !(Place.LossLike || Megatron || DeepSpeed))
    return false;
  // Megatron evaluates on two sets and says so in front of the same names.
  StringRef Set = L.Text.contains(" on test set |") ? "test/"
                  : Place.Validation                ? "val/"
                                                    : "";
  Rows.begin(L.Number);
  if (L.WallTime)
    Rows.wallTime(*L.WallTime);
  if (L.Rank)
    Rows.rank(*L.Rank);
  double Step = Place.Step->Value;
  if (Place.EpochFirst) {
    if (!FirstEpoch || Place.Epoch->Value < *FirstEpoch)
      FirstEpoch = Place.Epoch->Value;
    Step += (Place.Epoch->Value - *FirstEpoch) * Place.Step->Of;
  }
  if (std::fabs(Step) < 1e15)
    Rows.step(static_cast<int64_t>(Step));
  bool Nan = false;
  for (const LoggedPair &P : Pairs) {
    if (&P == Place.Step)
      continue;
    // nanoGPT's "time 24.38ms"; a time without a unit may be anything.
    if (P.Key == "time" && P.Unit == "ms") {
      Rows.number("step_time", P.Value / 1e3);
      continue;
    }
    const LogKeys::Meaning &Key = Keys.of(P.Key);
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
  return Rows.end();
}

bool LogDialects::line(const LogLine &L, const LineScan &Scan) {
  if (Scan.Overflow && overflowLine(L))
    return true;
  if (Scan.Plan)
    planLine(L);
  bool Megatron = !Scan.Metric && L.Text.contains("number of nan iterations");
  if (!Scan.Metric && !Megatron)
    return false;
  // Longer lines are dumps of arguments or data.
  if (L.Text.size() > 4000)
    return false;
  return dictLine(L) || pairsLine(L);
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
    std::optional<double> Time = valueOf(D.Text, "train_runtime"),
                          Rate = valueOf(D.Text, "train_steps_per_second");
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
  size_t TrainRows = 0;
  double LastEpoch = 0;
  for (const Dict &D : Dicts) {
    TrainRows += valueOf(D.Text, "loss").has_value();
    LastEpoch = valueOf(D.Text, "epoch").value_or(LastEpoch);
  }
  int64_t Every = stepsBetweenDicts(TrainRows, LastEpoch);
  std::vector<int64_t> Told = Bars.steps();
  int64_t Seen = 0;
  for (const Dict &D : Dicts) {
    bool Train = valueOf(D.Text, "loss").has_value();
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
