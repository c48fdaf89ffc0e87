//===- LogBlocks.cpp - Metrics on lines below their step --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Two trainers print a number a line, below a heading that has the step.
// Composer (composer/loggers/console_logger.py):
//
//   [batch=10/1000]:
//            Train time/batch: 9
//            Train loss/train/total: 2.3
//   [Eval batch=5/5] Eval on eval data:
//            Eval metrics/eval/CrossEntropy: 2.4
//
// and Coqui's Trainer (trainer/logging/console_logger.py):
//
//      --> TIME: 2024-01-01 10:00:00 -- STEP: 24/100 -- GLOBAL_STEP: 25
//        | > loss: 2.3  (2.4)
//     --> EVAL PERFORMANCE
//        | > avg_loss: 2.5 (+0.1)
//
//===----------------------------------------------------------------------===//

#include "Readers/LogDialects.h"
#include "Support/LooseJson.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace culprit {

/// The whole number that \p Text begins with.
static std::optional<int64_t> wholeAt(StringRef Text) {
  int64_t Value;
  if (Text.ltrim().take_while(isDigit).take_front(15).getAsInteger(10, Value))
    return std::nullopt;
  return Value;
}

/// Begins a block where \p Text is a heading.
static std::optional<LogBlock> blockOf(StringRef Text) {
  LogBlock Out;
  Text = Text.trim();
  // "[epoch=1][batch=10/100]:" before Composer 0.11.
  if (Text.starts_with("[")) {
    size_t At = Text.find("batch=");
    if (At > 40 || !(Text.ends_with("]:") || Text.ends_with(" data:")))
      return std::nullopt;
    Out.Step = wholeAt(Text.drop_front(At + 6));
    Out.Prefix = Text.starts_with("[Eval ") ? "Eval " : "Train ";
    if (Text.starts_with("[Eval "))
      Out.Step.reset();
    return Out;
  }
  if (!Text.consume_front("--> "))
    return std::nullopt;
  Out.Prefix = "| > ";
  if (Text.starts_with("EVAL PERFORMANCE")) {
    Out.Set = "val/";
    return Out;
  }
  // A step of an evaluation has no number among those of the run.
  Out.Ignored = !Text.contains("GLOBAL_STEP: ");
  Out.Step = wholeAt(Text.split("GLOBAL_STEP: ").second);
  return Text.starts_with("TIME: ") || Text.starts_with("STEP: ")
             ? std::optional(Out)
             : std::nullopt;
}

void LogDialects::endBlock() {
  if (!Open)
    return;
  const LogBlock Ended = std::move(*Open);
  Open.reset();
  if (Ended.Ignored || Ended.Values.empty())
    return;
  LogLine Heading;
  Heading.Number = Ended.Line;
  Heading.WallTime = Ended.WallTime;
  Heading.Rank = Ended.Rank;
  begin(Heading);
  if (Ended.Step)
    placeAt(static_cast<double>(*Ended.Step));
  for (const auto &[Name, Value] : Ended.Values)
    Rows.number(Name, Value);
  Rows.end();
}

/// The name of \p Key in \p B: Composer's are those of its loggers, and Coqui
/// puts "avg_" in front of what it evaluates.
static std::string nameIn(StringRef Set, StringRef Key) {
  Key.consume_front("current_");
  if (!Set.empty())
    Key.consume_front("avg_");
  return (Set + Key).str();
}

/// Whether \p Text is a line below a heading; \p Prefix is what all of them
/// begin with.
static bool isBlockRow(StringRef Text, StringRef Prefix, StringRef &Key,
                       std::optional<double> &Value) {
  StringRef Written;
  std::tie(Key, Written) = Text.ltrim().split(": ");
  if (!Key.consume_front(Prefix) || Key.empty() || Key.size() > 100 ||
      (isAlpha(Prefix[0]) && !Key.contains('/')))
    return false;
  Value = parseNumber(Written.trim().split(' ').first);
  return true;
}

bool isBlockLine(StringRef Text) {
  StringRef Key;
  std::optional<double> Value;
  for (StringRef Prefix : {"| > ", "Train ", "Eval "})
    if (isBlockRow(Text, Prefix, Key, Value) && Value)
      return true;
  return blockOf(Text).has_value();
}

bool LogDialects::blockLine(const LogLine &L) {
  // What may be printed between two lines of a block: warnings.
  constexpr unsigned MaxForeign = 20;
  StringRef Key;
  std::optional<double> Value;
  if (Open && isBlockRow(L.Body, Open->Prefix, Key, Value)) {
    if (Value && Open->Values.size() < 1000)
      Open->Values.push_back({nameIn(Open->Set, Key), *Value});
    Open->Foreign = 0;
    return true;
  }
  std::optional<LogBlock> Next = blockOf(L.Body);
  if (!Next) {
    if (Open && ++Open->Foreign > MaxForeign)
      endBlock();
    return false;
  }
  endBlock();
  Open = std::move(Next);
  Open->Line = L.Number;
  Open->WallTime = L.WallTime;
  Open->Rank = L.Rank;
  return true;
}

} // namespace culprit
