//===- DynamoLine.cpp -------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/DynamoLine.h"
#include "Readers/TimeStamp.h"
#include "Support/LooseJson.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace culprit {

/// A prefix is no longer than this, paths of PyTorch's files included.
static constexpr size_t TorchPrefixBytes = 240;

/// V1122 01:32:42.556000 in a prefix, in seconds since the new year.
static std::optional<double> stampWithoutYear(StringRef Prefix) {
  for (size_t I = 0; I + 14 < Prefix.size(); ++I) {
    StringRef T = Prefix.drop_front(I);
    auto Two = [&](size_t At) {
      return isDigit(T[At]) && isDigit(T[At + 1])
                 ? (T[At] - '0') * 10 + (T[At + 1] - '0')
                 : -1;
    };
    if (!StringRef("VDIWEFC").contains(T[0]) || T[5] != ' ' || T[8] != ':' ||
        T[11] != ':')
      continue;
    int Month = Two(1), Day = Two(3), Hour = Two(6), Minute = Two(9),
        Second = Two(12);
    if (Month < 1 || Month > 12 || Day < 1 || Day > 31 || Hour < 0 ||
        Minute < 0 || Second < 0)
      continue;
    double Time = (daysIntoYear(Month, Day) * 24.0 + Hour) * 3600 +
                  Minute * 60 + Second;
    StringRef Part = T.drop_front(14);
    if (Part.starts_with("."))
      if (std::optional<double> Value = parseNumber(Part.take_while(
              [](char C) { return isDigit(C) || C == '.'; })))
        Time += *Value;
    return Time;
  }
  return std::nullopt;
}

/// Whether \p Inner is 0/3, 1/0_1 or !0/2/0; the attempt is left out of \p
/// Frame.
static bool isFrame(StringRef Inner, StringRef &Frame) {
  if (!Inner.contains('/') || !all_of(Inner, [](char C) {
        return isDigit(C) || C == '/' || C == '_' || C == '!';
      }))
    return false;
  Frame = Inner.split('_').first;
  return true;
}

std::optional<DynamoLine> parseDynamoLine(const LogLine &L) {
  StringRef Head = L.Text.take_front(TorchPrefixBytes), Rest;
  size_t Torch = Head.find("torch");
  if (Torch == StringRef::npos)
    return std::nullopt;
  DynamoLine Line;
  Line.Place = L.Number;
  Line.At = L.WallTime;
  if (size_t File = Head.find(".py:", Torch); File != StringRef::npos &&
      !Head.slice(Torch, File).contains(' ') && Head[Torch + 5] == '/') {
    // torch/_dynamo/guards.py:5396] [0/1] [__recompiles] Recompiling ...
    Rest = L.Text.drop_front(File + 4);
    Rest = Rest.drop_front(Rest.take_while(isDigit).size());
    if (!Rest.consume_front("]"))
      return std::nullopt;
    while (Rest.starts_with(" [")) {
      size_t Close = Rest.find(']');
      StringRef Inner = Rest.slice(2, Close);
      if (Close == StringRef::npos ||
          !(isFrame(Inner, Line.Frame) || Inner.starts_with("__")))
        break;
      Rest = Rest.drop_front(Close + 1);
    }
    if (!Line.At)
      Line.At = stampWithoutYear(Head.take_front(Torch));
  } else if (Head.drop_front(Torch).starts_with("torch._")) {
    // [0/0] torch._dynamo.convert_frame.__recompiles: [DEBUG] Recompiling ...
    size_t Level = Head.find(": [", Torch);
    if (Level == StringRef::npos || Head.slice(Torch, Level).contains(' '))
      return std::nullopt;
    Rest = L.Text.drop_front(Level + 3);
    StringRef Word = Rest.take_while([](char C) { return isUpper(C); });
    Rest = Rest.drop_front(Word.size());
    if (Word.empty() || !Rest.consume_front("]"))
      return std::nullopt;
    StringRef Before = Head.take_front(Torch).rtrim();
    if (Before.consume_back("]"))
      isFrame(Before.drop_front(Before.rfind('[') + 1), Line.Frame);
  } else {
    return std::nullopt;
  }
  Line.Prefix = L.Text.take_front(Rest.begin() - L.Text.begin());
  Line.Message = Rest.ltrim();
  return Line;
}

std::string guardText(StringRef Text) {
  Text.consume_front("- ");
  StringRef Frame;
  auto [Version, Guard] = Text.split(": ");
  if (isFrame(Version, Frame))
    Text = Guard;
  Text = Text.take_front(Text.find(" (HINT"));
  // (_dynamo/variables/tensor.py:2606 in evaluate_expr)
  Text = Text.take_front(Text.find(" (_dynamo/"));
  std::string Out; // a guard's code and its comment lie far apart
  for (char C : Text)
    if (C != ' ' || Out.empty() || Out.back() != ' ')
      Out += C;
  return StringRef(Out).trim().str();
}

} // namespace culprit
