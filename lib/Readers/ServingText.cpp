//===- ServingText.cpp ------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/ServingText.h"
#include "Support/FindText.h"
#include "Support/LooseJson.h"
#include "llvm/ADT/StringExtras.h"
#include <cmath>

using namespace llvm;

namespace culprit {

std::optional<double> setting(StringRef Text, StringRef Key) {
  for (size_t At = findText(Text, Key); At != StringRef::npos;
       At = findText(Text, Key, At + 1)) {
    StringRef Rest = Text.drop_front(At + Key.size());
    if (At == 0 || isAlnum(Text[At - 1]) || Text[At - 1] == '_' ||
        !(Rest.consume_front("=") || Rest.consume_front(": ")))
      continue;
    Rest.consume_front("\"");
    Rest.consume_front("Some(");
    return parseNumber(Rest.take_while([](char C) {
      return isAlnum(C) || C == '.' || C == '-' || C == '+';
    }));
  }
  return std::nullopt;
}

std::optional<int64_t> integerSetting(StringRef Text, StringRef Key) {
  std::optional<double> Value = setting(Text, Key);
  if (!Value || !(std::fabs(*Value) < 9e18) || *Value != std::trunc(*Value))
    return std::nullopt;
  return static_cast<int64_t>(*Value);
}

std::optional<int64_t> countOf(StringRef Text, StringRef Key) {
  size_t At = findText(Text, Key);
  if (At == StringRef::npos)
    return std::nullopt;
  StringRef Rest = Text.drop_front(At + Key.size()).ltrim();
  if (!Rest.consume_front("[") && !Rest.consume_front("("))
    return std::nullopt;
  StringRef List = Rest.take_until([](char C) { return C == ']' || C == ')'; });
  if (List.size() == Rest.size())
    return std::nullopt; // breaks off
  List = List.trim().rtrim(',');
  return List.empty() ? 0 : static_cast<int64_t>(List.count(',')) + 1;
}

StringRef idBefore(StringRef Text, StringRef Stops) {
  return Text.take_front(std::min(Text.find_first_of(Stops), Text.size()))
      .rtrim(".")
      .take_front(256);
}

std::optional<std::string> quotedAfter(StringRef &Text, StringRef Key) {
  size_t At = findText(Text, Key);
  if (At == StringRef::npos)
    return std::nullopt;
  Text = Text.drop_front(At + Key.size());
  LooseJson In(Text);
  if (In.next() != LooseJson::Token::String)
    return std::nullopt;
  std::string Out = In.text().str();
  Text = Text.drop_front(In.end());
  return Out;
}

} // namespace culprit
