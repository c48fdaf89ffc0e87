//===- LogBoxes.cpp - Metrics in a box --------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Stable-Baselines3 prints what its progress.csv has a row of:
//
//   -----------------------------------
//   | rollout/             |          |
//   |    ep_rew_mean       | 22.4     |
//   | time/                |          |
//   |    total_timesteps   | 2048     |
//   -----------------------------------
//
// A name is that of its group and its own; long ones end in "...", and nobody
// knows what they were. The logger of OpenAI's Baselines, of Spinning Up and of
// guided-diffusion has no groups, and its rows begin at the border:
//
//   ------------------------
//   | loss      | 0.123    |
//   | step      | 10       |
//   ------------------------
//
//===----------------------------------------------------------------------===//

#include "Readers/LogDialects.h"
#include "Support/LooseJson.h"
#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace culprit {

namespace {
struct BoxRow {
  StringRef Key, Value;
  bool Group = false; ///< Names the group of the rows below.
};
} // namespace

/// The two cells of a row; of Markdown's tables no cell is indented. \p Ruled:
/// it stands in a box without groups.
static std::optional<BoxRow> boxRow(StringRef Text, bool Ruled = false) {
  if (!Text.consume_front("| ") || !Text.consume_back("|"))
    return std::nullopt;
  BoxRow Row;
  auto [Key, Value] = Text.split('|');
  Row.Key = Key.trim();
  Row.Value = Value.trim();
  Row.Group = Row.Key.ends_with("/") && Row.Value.empty();
  if (Row.Key.empty() || Row.Key.contains(' ') || Value.contains('|') ||
      !(Row.Group || Ruled || Key.starts_with("   ")))
    return std::nullopt;
  if (Ruled && !Row.Group && !parseNumber(Row.Value))
    return std::nullopt;
  return Row;
}

static bool isHorizontalRule(StringRef Text) {
  return Text.size() >= 10 && all_of(Text, [](char C) { return C == '-'; });
}

bool isBoxLine(StringRef Text, bool &Ruled) {
  const bool Rule = isHorizontalRule(Text);
  Ruled = Rule || (Ruled && boxRow(Text, /*Ruled=*/true));
  return boxRow(Text).has_value() || (Ruled && !Rule);
}

bool LogDialects::boxLine(const LogLine &L) {
  StringRef Text = L.Text.rtrim();
  if (!Text.starts_with("|") && !Text.starts_with("--")) {
    Ruled = false;
    return false;
  }
  if (isHorizontalRule(Text)) {
    if (!Box.empty()) {
      begin(L);
      for (const auto &[Name, Value] : Box)
        Rows.number(Name, Value);
      Rows.end();
    }
    Box.clear();
    Group.clear();
    Ruled = true;
    return true; // of a large log, too, the lines in it are to be read
  }
  std::optional<BoxRow> Row = boxRow(Text, Ruled && Group.empty());
  if (!Row) {
    Ruled = false;
    Box.clear();
    return false;
  }
  if (Row->Group)
    Group = Row->Key.str();
  else if (std::optional<double> Value = parseNumber(Row->Value);
           Value && (Ruled || !Group.empty()) && !Row->Key.ends_with("..."))
    Box.push_back({Group + Row->Key.str(), *Value});
  return Row->Group || Ruled || !Group.empty();
}

} // namespace culprit
