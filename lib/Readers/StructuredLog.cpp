//===- StructuredLog.cpp ----------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/StructuredLog.h"
#include "Support/FindText.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"
#include <chrono>
#include <cmath>

using namespace llvm;

namespace culprit {

static constexpr StringLiteral LogTimeKeys[] = {"timestamp", "time", "ts",
                                                "@timestamp", "asctime"};
static constexpr StringLiteral LevelKeys[] = {"level", "levelname", "severity",
                                              "lvl", "log_level"};
static constexpr StringLiteral TextKeys[] = {"message", "msg", "event"};

bool isStructuredLine(StringRef Line) {
  if (!Line.starts_with("{\""))
    return false;
  StringRef Head = Line.take_front(2048);
  bool Level = false, Text = false;
  for (StringRef Key : {"\"level\"", "\"levelname\"", "\"severity\""})
    Level |= Head.contains(Key);
  for (StringRef Key : {"\"message\"", "\"msg\"", "\"event\""})
    Text |= Head.contains(Key);
  return Level && Text;
}

/// Unix seconds as 2026-01-05T08:59:57.600Z.
static std::string isoTime(double Unix) {
  using namespace std::chrono;
  auto Days = static_cast<int>(std::floor(Unix / 86400));
  year_month_day Date{sys_days(days(Days))};
  double Left = Unix - Days * 86400.0;
  int Ms = std::min(86399999, static_cast<int>(std::floor(Left * 1000 + .5)));
  std::string Out;
  raw_string_ostream(Out) << format("%04d-%02u-%02uT", int(Date.year()),
                                    unsigned(Date.month()),
                                    unsigned(Date.day()))
                          << format("%02d:%02d:%02d.%03dZ", Ms / 3600000,
                                    Ms / 60000 % 60, Ms / 1000 % 60,
                                    Ms % 1000);
  return Out;
}

static std::string levelWord(LooseValue V) {
  // pino's numbers
  if (std::optional<int64_t> Number = V.integer())
    return *Number >= 60   ? "CRITICAL"
           : *Number >= 50 ? "ERROR"
           : *Number >= 40 ? "WARNING"
           : *Number >= 30 ? "INFO"
                           : "DEBUG";
  std::string Word = V.text().upper();
  if (Word == "WARN")
    return "WARNING";
  return Word == "TRACE" ? "DEBUG" : Word;
}

StringRef StructuredLog::plain(StringRef Line) {
  if (!skipBlanks(Line).starts_with("{"))
    return Line;
  StringRef Object = Line.trim();
  if (!isStructuredLine(Object))
    return Line;
  LooseJson In(Object);
  if (!Tree.read(In, Object) || !Object.drop_front(In.end()).trim().empty())
    return Line;
  LooseValue Root = Tree.root();
  LooseValue Fields = Root["fields"]; // of older TGI
  LooseValue Text = Root.any(TextKeys);
  if (!Text)
    Text = Fields.any(TextKeys);
  LooseValue Level = Root.any(LevelKeys);
  if (!Text.isText() || !Level)
    return Line;
  Buffer.clear();
  LooseValue Time = Root.any(LogTimeKeys);
  if (Time.isText()) {
    Buffer += Time.text().take_front(40);
    Buffer += ' ';
  } else if (std::optional<double> Unix = Time.number();
             Unix && *Unix > 1e8 && *Unix < 1e20) {
    while (*Unix > 1e11)
      *Unix /= 1000;
    Buffer += isoTime(*Unix) + " ";
  }
  Buffer += levelWord(Level);
  Buffer += ' ';
  if (LooseValue Span = Root["span"]; Span.isObject()) {
    std::string Inside;
    for (LooseValue V = Span.first(); V; V = V.next())
      if (V.key() != "name" && !V.written().empty())
        // The parameters are of Rust, as they are in its text.
        Inside += (Inside.empty() ? "" : " ") + V.key().str() + "=" +
                  (V.isText() && V.key() != "parameters"
                       ? "\"" + V.written().str() + "\""
                       : V.written().str());
    Buffer += Span["name"].text();
    Buffer += "{" + Inside + "}: ";
  }
  StringRef Target = Root["target"].text();
  if (!Target.empty()) {
    Buffer += Target;
    Buffer += ": ";
  }
  Buffer += Text.text().rtrim();
  return Buffer;
}

} // namespace culprit
