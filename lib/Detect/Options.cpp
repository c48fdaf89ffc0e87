//===- Options.cpp - Settings of detectors ----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Detect/Options.h"
#include "Detect/Runner.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace culprit {

Expected<OptionSetting> parseOptionSetting(StringRef Text) {
  auto [Key, Value] = Text.split('=');
  auto [Detector, Name] = Key.rsplit('.');
  if (Detector.empty() || Name.empty() || !Text.contains('='))
    return failure("'" + Text + "' does not set an option",
                   "write ID.NAME=VALUE, as in gpu/idle.min_idle=0.2");
  return OptionSetting{Detector.str(), Name.str(), Value.str(), ""};
}

static const char *typeName(const Scalar &Value) {
  static constexpr const char *Names[] = {"true or false", "a whole number",
                                          "a number", "text"};
  return Names[Value.index()];
}

/// \p Text as a value of the type of \p Like; a whole number is a number too.
static std::optional<Scalar> parseLike(StringRef Text, const Scalar &Like) {
  if (std::holds_alternative<std::string>(Like))
    return Scalar(Text.str());
  if (std::holds_alternative<bool>(Like)) {
    if (Text == "true" || Text == "false")
      return Scalar(Text == "true");
    return std::nullopt;
  }
  if (std::holds_alternative<int64_t>(Like)) {
    int64_t Whole;
    if (Text.getAsInteger(10, Whole))
      return std::nullopt;
    return Scalar(Whole);
  }
  double Number;
  if (Text.getAsDouble(Number))
    return std::nullopt;
  return Scalar(Number);
}

Expected<std::vector<OptionChoice>>
chooseOptions(const DetectorInfo &Info, ArrayRef<OptionSetting> Settings) {
  std::vector<OptionChoice> Choices;
  std::vector<std::string> Names;
  for (const OptionSpec &Option : Info.Options) {
    Choices.push_back({Option.Default, "default"});
    Names.push_back(Option.Name);
  }
  for (const OptionSetting &S : Settings) {
    if (S.Detector != Info.Id)
      continue;
    std::string Place = S.Origin.empty() ? "" : S.Origin + ": ";
    size_t At = llvm::find(Names, S.Name) - Names.begin();
    if (At == Names.size()) {
      std::string Close = closestName(S.Name, Names);
      std::string Hint = Close.empty() ? "" : "did you mean '" + Close + "'? ";
      Hint += Names.empty() ? "it has none" : "options: " + join(Names, ", ");
      return failure(Place + "unknown option '" + S.Name + "' of '" + Info.Id +
                         "'",
                     Hint);
    }
    std::optional<Scalar> Value = parseLike(S.Value, Info.Options[At].Default);
    if (!Value)
      return failure(Place + "option '" + Info.Id + "." + S.Name + "' wants " +
                         typeName(Info.Options[At].Default) + ", not '" +
                         S.Value + "'",
                     "its default is " + toString(Info.Options[At].Default));
    Choices[At] = {std::move(*Value),
                   S.Origin.empty() ? "--option" : S.Origin};
  }
  return Choices;
}

Expected<std::vector<Scalar>> optionValues(const DetectorInfo &Info,
                                           ArrayRef<std::string> Settings) {
  std::vector<OptionSetting> Parsed;
  for (const std::string &Text : Settings) {
    Expected<OptionSetting> Setting = parseOptionSetting(Text);
    if (!Setting)
      return Setting.takeError();
    Parsed.push_back(std::move(*Setting));
  }
  Expected<std::vector<OptionChoice>> Choices = chooseOptions(Info, Parsed);
  if (!Choices)
    return Choices.takeError();
  std::vector<Scalar> Values;
  for (OptionChoice &C : *Choices)
    Values.push_back(std::move(C.Value));
  return Values;
}

} // namespace culprit
