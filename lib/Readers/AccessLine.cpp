//===- AccessLine.cpp -------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/AccessLine.h"
#include "Readers/TimeStamp.h"
#include "Support/FindText.h"
#include "Support/LooseJson.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace culprit {

std::optional<double> parseDuration(StringRef Text) {
  struct Unit {
    StringLiteral Name;
    double Seconds;
  };
  static constexpr Unit Units[] = {{"ms", 1e-3}, {"µs", 1e-6},
                                   {"μs", 1e-6}, {"us", 1e-6},
                                   {"ns", 1e-9}, {"s", 1},
                                   {"m", 60},    {"h", 3600}};
  double Total = 0;
  Text = Text.trim();
  if (Text.empty())
    return std::nullopt;
  while (!Text.empty()) {
    StringRef Digits =
        Text.take_while([](char C) { return isDigit(C) || C == '.'; });
    std::optional<double> Value = parseNumber(Digits);
    Text = Text.drop_front(Digits.size());
    bool Known = false;
    for (const Unit &U : Units)
      if (!Known && Text.consume_front(U.Name)) {
        Known = true;
        Total += Value.value_or(0) * U.Seconds;
      }
    if (!Value || !Known)
      return std::nullopt;
  }
  return Total;
}

/// The time in the brackets of an access line: nginx's, or any that a logger
/// writes.
static std::optional<double> bracketTime(StringRef Text) {
  if (std::optional<double> Time = commonLogTime(Text))
    return Time;
  std::optional<TimeStamp> Stamp = leadingTimeStamp(Text);
  return Stamp ? Stamp->Unix : std::nullopt;
}

/// "POST /v1/completions HTTP/1.1"; false where it is nothing of the kind.
static bool takeRequest(StringRef Quoted, AccessLine &Out) {
  auto [Method, Rest] = Quoted.split(' ');
  if (Method.size() < 3 || Method.size() > 8 || !all_of(Method, isUpper))
    return false;
  auto [Path, Protocol] = Rest.rsplit(' ');
  if (!Protocol.starts_with("HTTP/"))
    Path = Rest;
  // Keys of users stand behind the question mark.
  Out.Method = Method;
  Out.Endpoint = Path.split('?').first.take_front(512);
  return !Out.Endpoint.empty();
}

static bool takeStatus(StringRef &Text, AccessLine &Out) {
  Text = skipBlanks(Text);
  // Envoy's, of a client that left before there was an answer.
  if (Text.starts_with("0 DC ")) {
    Out.Status = 499;
    Text = Text.drop_front(1);
    return true;
  }
  return Text.size() >= 3 && !Text.take_front(3).getAsInteger(10, Out.Status) &&
         Out.Status >= 100 && Out.Status < 600 &&
         (Text = Text.drop_front(3), Text.empty() || !isAlnum(Text[0]));
}

/// What stands behind the common fields: the agent, and times and ids that
/// somebody put there.
static void takeExtras(StringRef Text, AccessLine &Out) {
  std::optional<double> Bare;
  while (!(Text = skipBlanks(Text)).empty()) {
    if (Text[0] == '"') { // the referrer, the agent
      size_t Close = Text.find('"', 1);
      Text = Close == StringRef::npos ? "" : Text.drop_front(Close + 1);
      continue;
    }
    size_t Blank = Text.find(' ');
    StringRef Word = Text.take_front(Blank);
    Text = Blank == StringRef::npos ? "" : Text.drop_front(Blank);
    auto [Key, Value] = Word.split(Word.contains('=') ? '=' : ':');
    while (!Value.empty() && (Value[0] == '"' || Value[0] == ','))
      Value = Value.drop_front();
    while (!Value.empty() && (Value.back() == '"' || Value.back() == ','))
      Value = Value.drop_back();
    if (Value.empty()) {
      std::optional<double> Number = parseNumber(Word);
      if (!Bare && Number && Word.contains('.') && *Number >= 0)
        Bare = Number;
      // Traefik ends its lines so; its time is that of the beginning.
      if (!Bare && !Number && Word.ends_with("ms")) {
        Bare = parseDuration(Word);
        Out.Begun = Bare.has_value();
      }
      continue;
    }
    if (Key == "rt" || Key == "request_time" || Key == "time" ||
        Key == "duration") {
      std::optional<double> Number = parseNumber(Value);
      if (!Number)
        Number = parseDuration(Value);
      if (Number && *Number >= 0)
        Out.Latency = Number;
    } else if (Key == "rid" || Key == "request_id" || Key == "reqid") {
      Out.Id = Value;
    }
  }
  if (!Out.Latency)
    Out.Latency = Bare;
}

/// [GIN] 2026/01/05 - 08:59:57 | 200 | 1.5s | 10.0.0.1 | POST "/api/chat"
static std::optional<AccessLine> parseGin(StringRef Line) {
  size_t At = findText(Line, "[GIN] ");
  if (At == StringRef::npos || At > 80)
    return std::nullopt;
  SmallVector<StringRef, 6> Cells;
  Line.drop_front(At + 6).split(Cells, '|', 4);
  if (Cells.size() != 5)
    return std::nullopt;
  AccessLine Out;
  auto [Date, Clock] = Cells[0].split(" - ");
  if (std::optional<TimeStamp> Stamp =
          leadingTimeStamp((Date.trim() + " " + Clock.trim()).str()))
    Out.At = Stamp->Unix;
  StringRef Status = Cells[1];
  Out.Latency = parseDuration(Cells[2]);
  auto [Method, Path] = Cells[4].trim().split(' ');
  Out.Method = Method;
  Out.Endpoint = Path.trim().trim('"').split('?').first;
  if (!takeStatus(Status, Out) || Out.Endpoint.empty())
    return std::nullopt;
  return Out;
}

/// What Envoy writes behind the status: flags, bytes received and sent, the
/// milliseconds of all and of the server behind, then in quotes addresses,
/// agent and id. False where it is another format.
static bool takeEnvoy(StringRef Text, AccessLine &Out) {
  SmallVector<StringRef, 8> Words;
  Text.split(Words, ' ', 6, false);
  if (Words.size() != 6 && Words.size() != 7)
    return false;
  auto IsFlag = [](char C) { return isUpper(C) || C == ',' || C == '-'; };
  int64_t Received, Sent, Ms;
  // Details of the response may stand between, in newer formats.
  if (!all_of(Words[0], IsFlag) || Words[1].getAsInteger(10, Received) ||
      Words[2].getAsInteger(10, Sent) || Words[3].getAsInteger(10, Ms) ||
      Ms < 0)
    return false;
  Out.Bytes = Sent;
  Out.Latency = Ms * 1e-3;
  Out.Begun = true;
  // The fields in quotes: forwarded for, agent, id, authority, upstream.
  SmallVector<StringRef, 8> Fields;
  Text.split(Fields, '"');
  if (Fields.size() > 5 && Fields[5] != "-")
    Out.Id = Fields[5];
  return true;
}

std::optional<AccessLine> parseAccessLine(StringRef Line) {
  size_t Quote = Line.find('"');
  if (Quote == StringRef::npos)
    return std::nullopt;
  if (containsText(Line, "[GIN] "))
    return parseGin(Line);
  StringRef Before = Line.take_front(Quote).rtrim(' ');
  size_t Close = Line.find('"', Quote + 1);
  if (Close == StringRef::npos)
    return std::nullopt;
  StringRef Rest = Line.drop_front(Close + 1);
  AccessLine Out;
  bool Uvicorn = Before.ends_with(" -");
  bool Dated = Before.ends_with("]");
  if (!Uvicorn && !Dated)
    return std::nullopt;
  // What is no HTTP at all, as scanners send it, is a request all the same.
  bool Garbled = !takeRequest(Line.slice(Quote + 1, Close), Out);
  if ((Garbled && Uvicorn) || !takeStatus(Rest, Out))
    return std::nullopt;
  if (Uvicorn)
    return Out;
  size_t Open = Before.rfind('[');
  if (Open == StringRef::npos)
    return std::nullopt;
  Out.At = bracketTime(Before.slice(Open + 1, Before.size() - 1));
  if (!Out.At)
    return std::nullopt;
  Out.Combined = true;
  Rest = skipBlanks(Rest);
  if (Open == 0 && takeEnvoy(Rest, Out))
    return Out;
  StringRef Bytes = Rest.take_until([](char C) { return C == ' '; });
  int64_t Size;
  if (!Bytes.getAsInteger(10, Size))
    Out.Bytes = Size;
  takeExtras(Rest.drop_front(Bytes.size()), Out);
  return Out;
}

void setRequest(const AccessLine &Line, std::optional<double> At, int64_t Place,
                RequestRecord &R) {
  R.Id = Line.Id;
  R.Method = Line.Method;
  R.Endpoint = Line.Endpoint;
  R.Status = Line.Status;
  R.Bytes = Line.Bytes;
  R.Latency = Line.Latency;
  // The line is written when the answer is out.
  R.At = At;
  if (R.At && R.Latency && !Line.Begun)
    *R.At -= *R.Latency;
  R.Hop = Line.Combined ? "gateway" : "server";
  R.Place = Place;
}

} // namespace culprit
