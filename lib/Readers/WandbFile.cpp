//===- WandbFile.cpp --------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Field numbers are those of wandb/proto/wandb_internal.proto.
//
//===----------------------------------------------------------------------===//

#include "Readers/WandbFile.h"
#include "Readers/ConfigRows.h"
#include "Readers/CounterNames.h"
#include "Readers/CounterSamples.h"
#include "Readers/JsonRecords.h"
#include "Readers/TextLog.h"
#include "Readers/WandbRecords.h"
#include "Support/WireFormat.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include <array>

using namespace llvm;

namespace culprit {

using Token = LooseJson::Token;

Match WandbFileReader::matches(const InputFile &File) const {
  return WandbRecords::isHeader(File.head()) ? Match::Certain : Match::No;
}

namespace {
/// HistoryItem, ConfigItem or StatsItem.
struct Item {
  std::string Key; ///< nested_key joined by \p Separator of readItem.
  StringRef Json;
};

/// The pass over one file.
class WandbPass {
public:
  explicit WandbPass(Source &Into)
      : Into(Into), Rows(Into), Config(Into), Counters(Into) {}

  void record(StringRef Record, int64_t Number);
  void finish();
  bool empty() const {
    return Rows.rows() + Config.rows() + Counters.rows() == 0 &&
           Printed.empty();
  }
  int64_t Unreadable = 0; ///< Records that are no Record.

private:
  void history(StringRef History);
  void historyItem(const Item &I);
  void stats(StringRef Stats);
  void config(StringRef Config);
  void run(StringRef Run);
  void output(StringRef Output);
  void setting(StringRef Key, StringRef Value);

  Source &Into;
  ScalarRows Rows;
  ConfigRows Config;
  CounterSamples Counters;
  int64_t Number = 0;
  std::string Printed;                   ///< Whole lines.
  std::array<std::string, 2> Unfinished; ///< Of stderr and stdout.
};
} // namespace

/// key = 1, repeated nested_key = 2, value_json = 16 in all of them.
static Item readItem(StringRef Bytes, char Separator) {
  Item Out;
  std::string Nested;
  for (WireFields F(Bytes); F.next();) {
    if (F.is(1, WireFields::Bytes))
      Out.Key = F.bytes().str();
    else if (F.is(2, WireFields::Bytes))
      Nested += (Nested.empty() ? "" : StringRef(&Separator, 1)).str() +
                F.bytes().str();
    else if (F.is(16, WireFields::Bytes))
      Out.Json = F.bytes();
  }
  if (Out.Key.empty())
    Out.Key = std::move(Nested);
  return Out;
}

/// google.protobuf.Timestamp in seconds.
static double readTimestamp(StringRef Bytes) {
  double Seconds = 0;
  for (WireFields F(Bytes); F.next();) {
    if (F.is(1, WireFields::Varint))
      Seconds += static_cast<double>(F.asInt());
    if (F.is(2, WireFields::Varint))
      Seconds += static_cast<double>(F.asInt()) / 1e9;
  }
  return Seconds;
}

void WandbPass::historyItem(const Item &I) {
  LooseJson In(I.Json);
  switch (In.next()) {
  case Token::Number:
    Rows.number(I.Key, In.number());
    return;
  case Token::String: // "NaN" and "Infinity", which JSON has no numbers for
    Rows.string(I.Key, In.text());
    return;
  case Token::Object: // images, tables and histograms say their _type
    if (!I.Json.contains("\"_type\""))
      readRecord(In, Rows, I.Key);
    return;
  default:
    return;
  }
}

/// HistoryRecord: repeated HistoryItem item = 1, HistoryStep step = 2.
void WandbPass::history(StringRef History) {
  Rows.begin(Number);
  for (WireFields F(History); F.next();) {
    if (F.is(1, WireFields::Bytes)) {
      historyItem(readItem(F.bytes(), '/'));
    } else if (F.is(2, WireFields::Bytes)) {
      int64_t Step = 0;
      for (WireFields S(F.bytes()); S.next();)
        if (S.is(1, WireFields::Varint))
          Step = S.asInt();
      Rows.number("_step", static_cast<double>(Step));
    }
  }
  Rows.end();
}

/// "gpu.0.temp" as device 0 and "gpu.temp"; a machine's label behind it, as in
/// "gpu.0.temp/l:node1", is left out.
static std::pair<std::string, std::optional<int64_t>> splitStat(StringRef Key) {
  Key = Key.split("/l:").first;
  StringRef Rest = Key;
  std::string Name = "gpu.";
  if (!Rest.consume_front("gpu."))
    return {Key.starts_with("system.") ? Key.str() : "system." + Key.str(),
            std::nullopt};
  if (Rest.consume_front("process."))
    Name += "process.";
  int64_t Device = 0;
  auto [Index, Metric] = Rest.split('.');
  if (Metric.empty() || Index.getAsInteger(10, Device))
    return {Key.str(), std::nullopt};
  return {Name + Metric.str(), Device};
}

/// StatsRecord: timestamp = 2, repeated StatsItem item = 3.
void WandbPass::stats(StringRef Stats) {
  std::optional<double> Time;
  for (WireFields F(Stats); F.next();)
    if (F.is(2, WireFields::Bytes))
      Time = readTimestamp(F.bytes());
  for (WireFields F(Stats); F.next();) {
    if (!F.is(3, WireFields::Bytes))
      continue;
    Item I = readItem(F.bytes(), '.');
    std::optional<double> Value = parseNumber(I.Json);
    if (!Value)
      continue;
    auto [Raw, Device] = splitStat(I.Key);
    CounterName Name = counterName(Raw);
    Counters.add(Name.Name, *Value * Name.Factor, Time, Device, std::nullopt,
                 Number);
  }
}

void WandbPass::setting(StringRef Key, StringRef Value) {
  Config.add(Key, Value, Number);
}

/// ConfigRecord: repeated ConfigItem update = 1.
void WandbPass::config(StringRef Record) {
  for (WireFields F(Record); F.next();) {
    if (!F.is(1, WireFields::Bytes))
      continue;
    Item I = readItem(F.bytes(), '.');
    // What W&B notes of itself: versions, telemetry.
    if (StringRef(I.Key).split('.').first == "_wandb")
      continue;
    LooseJson In(I.Json);
    Token T = In.next();
    if (T == Token::Object || T == Token::Array) {
      std::string Text = "{\"" + I.Key + "\": " + I.Json.str() + "}";
      LooseJson Whole(Text);
      LineCounter Lines(Text, Number);
      Whole.next();
      readSettings(Whole, Text, Config, Rows, Lines);
    } else if (T != Token::Error && T != Token::End) {
      setting(I.Key, T == Token::Null ? "null" : In.text());
    }
  }
}

/// RunRecord: run_id = 1, project = 3, config = 4, display_name = 8.
void WandbPass::run(StringRef Run) {
  for (WireFields F(Run); F.next();) {
    if (F.is(1, WireFields::Bytes))
      setting("wandb.run_id", F.bytes());
    else if (F.is(3, WireFields::Bytes))
      setting("wandb.project", F.bytes());
    else if (F.is(4, WireFields::Bytes))
      config(F.bytes());
    else if (F.is(8, WireFields::Bytes))
      setting("wandb.display_name", F.bytes());
    else if (F.is(13, WireFields::Bytes))
      setting("wandb.host", F.bytes());
  }
}

/// OutputRawRecord: output_type = 1, line = 3. A piece may end inside a line,
/// and the pieces of the two streams take turns.
void WandbPass::output(StringRef Output) {
  size_t Stream = 0;
  StringRef Text;
  for (WireFields F(Output); F.next();) {
    if (F.is(1, WireFields::Varint))
      Stream = F.asInt() == 1;
    else if (F.is(3, WireFields::Bytes))
      Text = F.bytes();
  }
  size_t End = Text.rfind('\n');
  std::string &Begun = Unfinished[Stream];
  if (End == StringRef::npos) {
    Begun += Text;
    return;
  }
  Printed += Begun;
  Printed += Text.take_front(End + 1);
  Begun = Text.drop_front(End + 1).str();
}

void WandbPass::record(StringRef Record, int64_t N) {
  Number = N;
  WireFields F(Record);
  while (F.next()) {
    if (F.is(2, WireFields::Bytes))
      history(F.bytes());
    else if (F.is(4, WireFields::Bytes) || F.is(13, WireFields::Bytes))
      output(F.bytes());
    else if (F.is(5, WireFields::Bytes))
      config(F.bytes());
    else if (F.is(7, WireFields::Bytes))
      stats(F.bytes());
    else if (F.is(17, WireFields::Bytes))
      run(F.bytes());
    else if (F.is(18, WireFields::Bytes)) { // RunExitRecord: exit_code = 1
      int64_t Code = 0;
      for (WireFields Exit(F.bytes()); Exit.next();)
        if (Exit.is(1, WireFields::Varint))
          Code = static_cast<int32_t>(Exit.asInt());
      setting("wandb.exit_code", itostr(Code));
    }
  }
  Unreadable += F.broken();
}

void WandbPass::finish() {
  Rows.finish();
  Config.finish();
  for (std::string &Begun : Unfinished)
    if (!Begun.empty())
      Printed += Begun + "\n";
  if (Printed.empty())
    return;
  // The same text lies in a file of its own in most runs, and is read there.
  SmallString<256> Log(sys::path::parent_path(Into.path()));
  sys::path::append(Log, "files", "output.log");
  if (!sys::fs::exists(Log))
    readLogText(Printed, Into, {.WithMetrics = false});
}

Error WandbFileReader::read(InputFile &File, Source &Into) const {
  Expected<StringRef> Contents = File.contents();
  if (!Contents)
    return Contents.takeError();
  WandbRecords Records(*Contents);
  WandbPass Pass(Into);
  while (Records.next())
    Pass.record(Records.data(), Records.number());
  Pass.finish();
  if (int64_t Count = Records.broken() + Pass.Unreadable)
    Into.warn(
        Into.path() + ": " + Twine(Count) +
            (Count == 1 ? " record is damaged" : " records are damaged") +
            (Records.broken()
                 ? ", the first at byte " + utostr(Records.firstBroken())
                 : std::string()),
        "its checksum is wrong; what could be told apart around it was read");
  if (Records.unfinished())
    Into.Remarks.push_back(
        {Severity::Note,
         Into.path() + ": the last record is unfinished",
         "the run still writes, or was killed while writing; all before it "
         "was read"});
  if (Pass.empty())
    return failure(Into.path() + ": no history, settings or statistics in it",
                   "copy the file again; it grows while the run goes on");
  return Error::success();
}

} // namespace culprit
