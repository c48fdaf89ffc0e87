//===- LogForms.cpp - Lines of one project each -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Lines in forms that one project each has: those of ProjectLines.h, JSON in
// JSON of NVIDIA's DLLogger, and rounds of gradient boosting.
//
//===----------------------------------------------------------------------===//

#include "Readers/JsonRecords.h"
#include "Readers/LogDialects.h"
#include "Readers/ProjectLines.h"
#include "llvm/ADT/StringExtras.h"
#include <cmath>

using namespace llvm;

namespace culprit {

/// Gives the record that was begun its step.
void LogDialects::placeAt(double Step) {
  if (!(std::fabs(Step) < 1e15))
    return;
  Rows.step(static_cast<int64_t>(Step));
  Stepped = true;
}

bool LogDialects::formLine(const LogLine &L) {
  std::optional<ProjectLine> Line = projectLine(L.Body);
  if (!Line)
    return false;
  begin(L);
  double Step = Line->Step;
  if (Line->Epoch) {
    Step = Steps.ofCounter(Step, Line->Epoch);
    Rows.number("epoch", *Line->Epoch);
  }
  placeAt(Step);
  for (const auto &[Name, Value] : Line->Values)
    Rows.number(Name, Value);
  return Rows.end();
}

/// 'DLLL {"timestamp": "...", "step": [1, 100], "data": {"train_loss": 2.3}}'
/// of NVIDIA's DLLogger: epoch and step, or the step alone; what is logged for
/// the whole run has no number there.
bool LogDialects::nestedLine(const LogLine &L) {
  StringRef Text = L.Text;
  if (Text.size() > 4000 || !Text.consume_front("DLLL {"))
    return false;
  LooseJson In(StringRef(Text.begin() - 1, Text.size() + 1));
  In.next();
  begin(L);
  std::vector<double> Counts;
  using Token = LooseJson::Token;
  while (In.next() == Token::Key) {
    const std::string Key = In.text().str();
    Token Value = In.next();
    if (Key == "data" && Value == Token::Object) {
      if (!readRecord(In, Rows))
        return false;
    } else if (Key == "step" && Value == Token::Array) {
      while ((Value = In.next()) == Token::Number)
        Counts.push_back(In.number());
    } else if (Key == "step" && Value == Token::Number) {
      Counts.push_back(In.number());
    } else if (!In.skip(Value)) {
      return false;
    }
  }
  if (Counts.empty())
    return true;
  // (epoch,) behind (epoch, step) is of the whole epoch.
  if (Counts.size() == 1 && Paired) {
    if (std::optional<int64_t> Last = Rows.lastStep())
      Rows.step(*Last);
    Rows.number("epoch", Counts[0]);
    return Rows.end();
  }
  Paired |= Counts.size() > 1;
  std::optional<double> Epoch;
  if (Paired)
    Epoch = Counts[0];
  placeAt(Steps.ofCounter(Counts.back(), Epoch));
  return Rows.end();
}

namespace {
/// A line of gradient boosting, "[0]\ttrain-rmse:1.9\tvalid-rmse:2.0" of
/// XGBoost and "[1]\ttraining's l2: 1.9\tvalid_1's l2: 2.0" of LightGBM.
struct BoostingRound {
  int64_t Number = 0;
  SmallVector<std::pair<std::string, double>, 4> Metrics;

  /// False when \p Text is no such line.
  bool parse(StringRef Text);

private:
  void nameHeldOut();
};
} // namespace

/// LightGBM numbers its sets, and calls that of training by its name wherever
/// it is among them: one set beside it is held out.
void BoostingRound::nameHeldOut() {
  if (Metrics.size() != 2 ||
      !StringRef(Metrics[0].first).starts_with("training/"))
    return;
  std::string &Name = Metrics[1].first;
  if (StringRef(Name).starts_with("valid_"))
    Name = "val" + Name.substr(Name.find('/'));
}

bool BoostingRound::parse(StringRef Text) {
  if (!Text.consume_front("[") || Text.consumeInteger(10, Number) ||
      !Text.consume_front("]\t"))
    return false;
  while (!Text.empty()) {
    StringRef Part;
    std::tie(Part, Text) = Text.split('\t');
    auto [Key, Number] = Part.rsplit(':');
    // "rmse:1.9+0.1" of cross validation: mean and deviation.
    std::optional<double> Value = parseNumber(Number.trim().split('+').first);
    auto [Set, Metric] = Key.trim().split("'s ");
    // No entry of a list of references: "[1]\tSmith, J.: 2004".
    if (!Value || Key.size() > 100 || Set.contains(' ') ||
        Metric.contains(' ') || !(Set.contains('-') || !Metric.empty()))
      return false;
    Metrics.push_back(
        {Metric.empty() ? Set.str() : (Set + "/" + Metric).str(), *Value});
  }
  nameHeldOut();
  return !Metrics.empty();
}

bool LogDialects::roundLine(const LogLine &L) {
  BoostingRound Round;
  if (!L.Body.starts_with("[") || !Round.parse(L.Body))
    return false;
  begin(L);
  Rows.step(Round.Number);
  for (const auto &[Key, Value] : Round.Metrics)
    Rows.number(Key, Value);
  return Rows.end();
}

/// "11:\tlearn: 1.9\ttest: 2.0\tbest: 2.0 (11)\ttotal: 553ms" of CatBoost.
static std::optional<CatBoostRound> catBoostRound(StringRef Text) {
  CatBoostRound Out;
  if (Text.size() > 1000 || Text.consumeInteger(10, Out.Number) ||
      !Text.consume_front(":\tlearn: "))
    return std::nullopt;
  std::optional<double> Learn = parseNumber(Text.split('\t').first);
  if (!Learn)
    return std::nullopt;
  Out.Learn = *Learn;
  for (Text = Text.split('\t').second; !Text.empty();
       Text = Text.split('\t').second) {
    auto [Key, Written] = Text.split('\t').first.split(": ");
    std::optional<double> Value = parseNumber(Written.split(' ').first);
    if (Key == "test")
      Out.Test = Value;
    else if (Key == "best")
      Out.Best = Value;
  }
  return Out;
}

bool LogDialects::catBoostLine(const LogLine &L) {
  if (L.Body.empty() || !isDigit(L.Body[0]))
    return false;
  std::optional<CatBoostRound> Round = catBoostRound(L.Body);
  if (!Round)
    return false;
  Round->Line = L.Number;
  Rounds.push_back(*Round);
  return true;
}

/// CatBoost prints the metric that it was asked for and does not name it: a
/// loss where it was to fall. Whether it was is known by what was best, or
/// where nothing is held out, by where it went.
void LogDialects::endRounds() {
  if (Rounds.empty())
    return;
  bool Rises = Rounds.back().Learn > Rounds.front().Learn;
  for (const CatBoostRound &R : Rounds)
    if (R.Test && R.Best && *R.Test != *R.Best)
      Rises = *R.Best > *R.Test;
  StringRef Name = Rises ? "metric" : "loss";
  for (const CatBoostRound &R : Rounds) {
    Rows.begin(R.Line);
    Rows.step(R.Number);
    Rows.number(("train/" + Name).str(), R.Learn);
    if (R.Test)
      Rows.number(("val/" + Name).str(), *R.Test);
    Rows.end();
  }
  Rounds.clear();
}

bool isWordlessLine(StringRef Text) {
  return Text.starts_with("DLLL {") ||
         (Text.starts_with("global_step=") &&
          Text.contains(", episodic_return=")) ||
         (Text.starts_with("[") && BoostingRound().parse(Text)) ||
         catBoostRound(Text) || projectLine(Text);
}

} // namespace culprit
