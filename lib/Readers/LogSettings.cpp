//===- LogSettings.cpp ------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/LogSettings.h"
#include "Case/ConfigKeys.h"
#include "Readers/JsonRecords.h"
#include "Readers/TextLines.h"
#include "Support/FindText.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace culprit {

/// A block whose end is missing ends here: the program was killed.
static constexpr unsigned MaxBlock = 2000;

static bool isKeyText(StringRef Key) {
  return !Key.empty() && Key.size() <= 80 &&
         (isAlpha(Key[0]) || Key[0] == '_') &&
         all_of(Key, [](char C) { return isAlnum(C) || C == '_' || C == '.'; });
}

static bool isSecret(StringRef Key) {
  const std::string L = Key.lower();
  for (StringRef Word : {"api_key", "password", "secret", "credential"})
    if (StringRef(L).contains(Word))
      return true;
  return L == "token" || StringRef(L).ends_with("_token_value") ||
         L == "hf_token" || L == "hub_token" || L == "auth_token";
}

void LogSettings::add(StringRef Key, StringRef Value, int64_t Number) {
  Key = withoutQuotes(Key.trim());
  Value = withoutQuotes(Value.trim());
  if (!isKeyText(Key) || isSecret(Key))
    return;
  // vLLM's engine has its own name for what its server calls max_model_len.
  if (Key == "max_seq_len" && Known.contains("max_model_len"))
    Key = "max_model_len";
  auto [It, New] = Known.try_emplace(Key, Value.str());
  if (!New && It->second == Value)
    return;
  It->second = Value.str();
  Rows.add(Key, Value, Number);
}

/// Adds "k=v, k=v" up to the bracket that closes the list, or its end.
void LogSettings::fields(StringRef List, char Equals, int64_t Number) {
  int Depth = 0;
  char Quote = 0;
  size_t Begin = 0;
  for (size_t I = 0; I <= List.size(); ++I) {
    const char C = I == List.size() ? '\0' : List[I];
    if (Quote && C != '\0') {
      if (C == '\\')
        ++I;
      else if (C == Quote)
        Quote = 0;
      continue;
    }
    if (C == '\'' || C == '"')
      Quote = C;
    else if (C == '(' || C == '[' || C == '{')
      ++Depth;
    const bool Closed = (C == ')' || C == ']' || C == '}') && --Depth < 0;
    if (C != '\0' && !Closed && (C != ',' || Depth > 0))
      continue;
    auto [Key, Value] = List.slice(Begin, I).split(Equals);
    // A list that breaks off within a value tells nothing of that value.
    if (!Value.empty() && !Quote && Depth <= 0)
      add(Key.trim(), Value, Number);
    Begin = I + 1;
    if (Closed || C == '\0')
      return;
  }
}

/// The text behind \p Mark; empty where \p Text has none.
static StringRef behind(StringRef Text, StringRef Mark) {
  const size_t At = Text.find(Mark);
  return At == StringRef::npos ? "" : Text.drop_front(At + Mark.size());
}

bool LogSettings::inBlock(StringRef Text, int64_t Number) {
  if (++OpenFor > MaxBlock) {
    Open = Block::None;
    return false;
  }
  if (Open == Block::Dotted) {
    if (Text.contains("-- end of arguments --")) {
      Open = Block::None;
      return true;
    }
    // "  adam_beta1 ........ 0.9", perhaps behind a rank.
    const size_t Dots = Text.find(" .");
    if (Dots == StringRef::npos)
      return false;
    const StringRef Front = Text.take_front(Dots).rtrim();
    const StringRef Key = Front.drop_front(Front.find_last_of(" \t") + 1);
    const StringRef Rest = Text.drop_front(Dots + 1).ltrim('.');
    if (!Rest.starts_with(" ") || !isKeyText(Key))
      return false;
    add(Key, Rest, Number);
    return true;
  }
  const StringRef Body = Text.trim();
  if (Body == ")") {
    Open = Block::None;
    return true;
  }
  auto [Key, Value] = Body.split('=');
  if (!isKeyText(Key) || !(Body.ends_with(",") || Body.ends_with(")")))
    return false;
  if (Body.ends_with(")") && !Value.contains('('))
    Open = Block::None;
  add(Key, Open == Block::None || Body.ends_with(",") ? Value.drop_back()
                                                      : Value,
      Number);
  return true;
}

StringRef printedSettings(StringRef Text) {
  StringRef List = Text.rtrim().drop_until([](char C) { return C == '{'; });
  if (!(List.starts_with("{'") || List.starts_with("{\"")) ||
      !List.ends_with("}"))
    return "";
  const char Quote = List[1];
  const char Between[] = {',', ' ', Quote, 0};
  unsigned Settings = 0;
  for (size_t At = 0; At != StringRef::npos; At = List.find(Between, At + 1)) {
    StringRef Key = List.drop_front(At).drop_until(
        [&](char C) { return C == Quote; });
    Key = Key.drop_front().take_until([&](char C) { return C == Quote; });
    const ConfigKey *Row = aboutKey(Key).Row;
    // A rate and a batch's size are measured as well.
    Settings += Row && Row->Effect == KeyEffect::Results &&
                !scalarName(Key).Known;
  }
  return Settings >= 3 ? List.drop_front() : "";
}

bool LogSettings::line(StringRef Text, int64_t Number) {
  if (Open != Block::None && inBlock(Text, Number))
    return true;
  if (containsText(Text, "{'") || containsText(Text, "{\""))
    if (StringRef List = printedSettings(Text); !List.empty()) {
      fields(List, ':', Number);
      return true;
    }
  const bool Dotted = containsText(Text, "-- arguments --");
  if (Dotted || (Text.ends_with("(") &&
                 Text.rtrim().ends_with("TrainingArguments("))) {
    Open = Dotted ? Block::Dotted : Block::Arguments;
    OpenFor = 0;
    return true;
  }
  // Few lines have settings, and many lines are asked.
  if (!containsText(Text, "Args(") && !containsText(Text, "rguments(") &&
      !containsText(Text, "amespace(") &&
      !containsText(Text, "with config: ") &&
      !containsText(Text, "args: {"))
    return false;
  for (StringRef Mark :
       {"Namespace(", "ServerArgs(", "EngineArgs(", "TrainingArguments(",
        "LLM engine (v"}) {
    StringRef List = behind(Text, Mark);
    if (Mark == "LLM engine (v")
      List = behind(List, "with config: ");
    if (List.empty())
      continue;
    fields(List, '=', Number);
    // MAE prints a setting a line.
    if (List.rtrim().ends_with(",")) {
      Open = Block::Arguments;
      OpenFor = 0;
    }
    return true;
  }
  if (StringRef List = behind(Text, "non-default args: {"); !List.empty()) {
    fields(List, ':', Number);
    return true;
  }
  return false;
}

} // namespace culprit
