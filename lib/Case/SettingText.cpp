//===- SettingText.cpp ------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Case/SettingChanges.h"
#include "Case/SettingValue.h"
#include "Support/Text.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace culprit {

std::string SettingValues::text() const { return join(Values, ", "); }

/// Elements that have a row each, layers.0 and layers.1, as one value: YAML
/// writes lists so, JSON does not.
static void joinElements(Settings &S) {
  std::map<std::string, std::map<uint64_t, std::string>> Lists;
  std::set<std::string> Nested;
  for (const auto &[Key, Value] : S) {
    auto [Parent, Last] = StringRef(Key).rsplit('.');
    uint64_t Number = 0;
    if (!Last.empty() && !Last.getAsInteger(10, Number))
      Lists[Parent.str()][Number] = Key;
    else if (!Last.empty())
      Nested.insert(Parent.str());
  }
  for (const auto &[Parent, Elements] : Lists) {
    if (Nested.count(Parent) || S.count(Parent) ||
        Elements.rbegin()->first + 1 != Elements.size())
      continue;
    std::string Joined;
    const int64_t Row = S[Elements.begin()->second].Row;
    for (const auto &[Number, Key] : Elements) {
      Joined += (Joined.empty() ? "" : ", ") + S[Key].text();
      S.erase(Key);
    }
    S[Parent] = {{"[" + Joined + "]"}, Row};
  }
}

std::optional<Settings> settingsOf(const Table &T) {
  const ColumnView *Key = T.find("key"), *Value = T.find("value");
  const bool Config = Key && Value;
  if (!Config) {
    Key = T.find("name");
    Value = T.find("version");
  }
  if (!Key || !Value || Key->type() != ColumnType::String ||
      Value->type() != ColumnType::String)
    return std::nullopt;
  Settings Out;
  for (size_t I = 0; I != T.rows(); ++I)
    if (!Key->isNull(I))
      Out[T.pool()->text(Key->getString(I)).str()] = {
          {Value->isNull(I) ? std::string()
                            : T.pool()->text(Value->getString(I)).str()},
          int64_t(I)};
  if (Config)
    joinElements(Out);
  return Out;
}

/// \p Value on one line.
static std::string onOneLine(StringRef Value) {
  std::string Out;
  for (char C : Value)
    Out += C == '\n' ? std::string("\\n") : std::string(C != '\r', C);
  return Out;
}

static std::string valueText(StringRef Value, StringRef Default) {
  if (!Value.empty())
    return shortened(onOneLine(Value), 60);
  return Default.empty() ? "-" : "- (default " + Default.str() + ")";
}

/// Two long texts, as prompts and templates, from a few words before where
/// they part; empty where they part early or one is short.
static std::string partingText(StringRef Before, StringRef After) {
  size_t Same = 0;
  while (Same < Before.size() && Same < After.size() &&
         Before[Same] == After[Same])
    ++Same;
  if (Same < 30 || std::max(Before.size(), After.size()) <= 60)
    return "";
  size_t From = Same - 20;
  while (From < Same && (Before[From] & 0xC0) == 0x80)
    ++From; // within a letter
  const auto Part = [&](StringRef Value) {
    return "\"..." + shortened(onOneLine(Value.drop_front(From)), 60) + "\"";
  };
  return " differs from byte " + std::to_string(Same) + " on: " +
         Part(Before) + " -> " + Part(After);
}

std::string SettingChange::text() const {
  std::string Name = Key;
  if (!OtherKey.empty())
    Name += " (" + OtherKey + ")";
  if (std::string Parting = partingText(Before, After); !Parting.empty())
    return Name + Parting;
  return Name + " " + valueText(Before, DefaultBefore) + " -> " +
         valueText(After, DefaultAfter);
}

bool SettingValues::isUnset() const {
  return all_of(Values, [](const std::string &V) { return isUnsetValue(V); });
}

} // namespace culprit
