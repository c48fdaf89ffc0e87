//===- CounterCsv.cpp -------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/CounterCsv.h"
#include "Readers/CounterNames.h"
#include "Readers/CounterSamples.h"
#include "Readers/TextLines.h"
#include "Readers/TimeStamp.h"
#include "Support/LooseJson.h"
#include "Support/Units.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include <map>

using namespace llvm;

namespace culprit {

namespace {
enum class CounterForm { None, Query, Dmon, Dcgmi, Prometheus, Json };
} // namespace

static CounterColumn columnOf(StringRef Name) {
  std::string Lower = Name.trim(" \t\r#\"").lower();
  StringRef N = Lower;
  CounterColumn Out;
  if (N == "index" || N == "gpu" || N == "entity" || N == "gpu_id" ||
      N == "idx")
    Out.What = CounterColumn::Device;
  else if (N == "timestamp")
    Out.What = CounterColumn::Time;
  else if (N == "date")
    Out.What = CounterColumn::Date;
  else if (N == "time")
    Out.What = CounterColumn::Clock;
  else if (N == "rank")
    Out.What = CounterColumn::Rank;
  else if (CounterName Known = counterName(Name.trim(" \t\r#\""));
           Known.Known) {
    Out.What = CounterColumn::Counter;
    Out.Name = Known.Name;
    Out.Factor = Known.Factor;
  }
  return Out;
}

static std::vector<CounterColumn> columnsOf(ArrayRef<StringRef> Cells) {
  std::vector<CounterColumn> Out;
  for (StringRef Cell : Cells)
    Out.push_back(columnOf(Cell));
  return Out;
}

static SmallVector<StringRef, 16> cellsOf(StringRef Line, bool Commas) {
  SmallVector<StringRef, 16> Out;
  if (Commas)
    Line.split(Out, ',');
  else
    SplitString(Line, Out, " \t\r");
  return Out;
}

static unsigned numCounters(ArrayRef<CounterColumn> Columns) {
  return count_if(Columns, [](const CounterColumn &C) {
    return C.What == CounterColumn::Counter;
  });
}

static bool has(ArrayRef<CounterColumn> Columns, int What) {
  return any_of(Columns,
                [&](const CounterColumn &C) { return C.What == What; });
}

/// Names that only nvidia-smi's queries have; "power" or "mem" alone may be a
/// column of anybody's metrics.
static bool isQueryHeader(StringRef Line) {
  unsigned Own = 0;
  for (StringRef Cell : cellsOf(Line, true)) {
    StringRef Name = Cell.trim();
    bool Dotted = Name.split('[').first.trim().contains('.');
    Own += Dotted && counterName(Name).Known;
  }
  return Own != 0;
}

/// dynolog's keys, of which two must be there beside a device.
static bool isDynolog(const json::Object &O) {
  unsigned Known = 0;
  for (StringRef Key :
       {"sm_active_ratio", "graphics_engine_active_ratio", "tensorcore_active",
        "hbm_mem_bw_util", "gpu_device_utilization", "gpu_memory_utilization",
        "gpu_power_draw", "gpu_frequency_mhz", "sm_occupancy"})
    Known += O.get(Key) != nullptr;
  return Known >= 2 && O.get("device");
}

/// The object in a line: dynolog's logger puts "data = " and more before it.
static std::optional<json::Object> objectIn(StringRef Line) {
  size_t At = Line.find('{');
  if (At == StringRef::npos || Line.size() > (1 << 20))
    return std::nullopt;
  Expected<json::Value> Value = json::parse(Line.drop_front(At).rtrim());
  if (!Value) {
    consumeError(Value.takeError());
    return std::nullopt;
  }
  json::Object *O = Value->getAsObject();
  return O ? std::optional<json::Object>(std::move(*O)) : std::nullopt;
}

static CounterForm counterFormOf(StringRef Head) {
  CounterForm Found = CounterForm::None;
  unsigned Lines = 0;
  forEachLine(Head, [&](StringRef Line, int64_t) {
    StringRef Text = Line.trim();
    if (Text.empty())
      return true;
    StringRef Bare = Text.ltrim("# ");
    if (Bare.starts_with("DCGM_FI_") ||
        Bare.starts_with("HELP DCGM_FI_"))
      Found = CounterForm::Prometheus;
    else if (isQueryHeader(Text))
      Found = CounterForm::Query;
    else if (Text.starts_with("#")) {
      bool Commas = Text.contains(',');
      std::vector<CounterColumn> Columns = columnsOf(cellsOf(Bare, Commas));
      if (has(Columns, CounterColumn::Device) && numCounters(Columns) >= 1)
        Found = Bare.starts_with_insensitive("entity") ? CounterForm::Dcgmi
                                                       : CounterForm::Dmon;
    } else if (Text.contains('{'))
      if (std::optional<json::Object> O = objectIn(Text); O && isDynolog(*O))
        Found = CounterForm::Json;
    // A remark or two may stand before the header, not a whole log.
    return Found == CounterForm::None && ++Lines < 8;
  });
  return Found;
}

Match CounterCsvReader::matches(const InputFile &File) const {
  return counterFormOf(File.head()) == CounterForm::None ? Match::No
                                                         : Match::Certain;
}

static std::optional<double> unixTime(StringRef Text) {
  Text = Text.trim(" \t\r\"");
  if (std::optional<double> Number = parseNumber(Text)) {
    double Value = *Number;
    while (Value > 1e11) // milliseconds and smaller
      Value /= 1000;
    return Value > 1e8 ? std::optional<double>(Value) : std::nullopt;
  }
  std::optional<TimeStamp> Stamp = leadingTimeStamp(Text);
  return Stamp ? Stamp->Unix : std::nullopt;
}

/// 20260105 and 08:59:57 of nvidia-smi dmon -o DT.
static std::optional<double> unixTime(StringRef Date, StringRef Clock) {
  if (Date.size() != 8 || !all_of(Date, isDigit))
    return unixTime((Date + " " + Clock).str());
  return unixTime((Date.take_front(4) + "-" + Date.substr(4, 2) + "-" +
                   Date.drop_front(6) + " " + Clock)
                      .str());
}

static std::optional<int64_t> integerIn(StringRef Text) {
  int64_t Value;
  return Text.trim(" \t\r\"").getAsInteger(10, Value)
             ? std::nullopt
             : std::optional<int64_t>(Value);
}

namespace {
/// Tables whose header may come again, as nvidia-smi dmon repeats it.
class TableLines {
public:
  TableLines(CounterSamples &Out, CounterForm Kind) : Out(Out), Kind(Kind) {}

  void line(StringRef Line, int64_t Number) {
    StringRef Text = Line.trim();
    if (Text.empty())
      return;
    bool Header = Text.starts_with("#") ||
                  (Kind == CounterForm::Query && isQueryHeader(Text));
    if (Header) {
      StringRef Bare = Text.ltrim("# ");
      bool HasCommas = Bare.contains(',');
      std::vector<CounterColumn> New = columnsOf(cellsOf(Bare, HasCommas));
      if (numCounters(New) == 0)
        return; // the line of units
      Columns = std::move(New);
      Commas = HasCommas;
      return;
    }
    SmallVector<StringRef, 16> Cells = cellsOf(Text, Commas);
    // dcgmi writes "GPU 0" and "Id" stands in a line of its own.
    if (Kind == CounterForm::Dcgmi) {
      if (Cells.size() < 2 || integerIn(Cells[0]))
        return;
      if (Cells[0] != "GPU" && Cells[0] != "GPU-I")
        return;
      Cells.erase(Cells.begin());
    }
    if (Cells.size() != Columns.size()) {
      ++Broken;
      return;
    }
    row(Cells, Number);
  }
  size_t Broken = 0;

private:
  void row(ArrayRef<StringRef> Cells, int64_t Number) {
    std::optional<int64_t> Device, Rank;
    std::optional<double> Unix;
    StringRef Date;
    for (size_t I = 0; I != Cells.size(); ++I)
      switch (Columns[I].What) {
      case CounterColumn::Device:
        Device = integerIn(Cells[I]);
        break;
      case CounterColumn::Rank:
        Rank = integerIn(Cells[I]);
        break;
      case CounterColumn::Time:
        Unix = unixTime(Cells[I]);
        break;
      case CounterColumn::Date:
        Date = Cells[I].trim();
        break;
      case CounterColumn::Clock:
        Unix = unixTime(Date, Cells[I].trim());
        break;
      default:
        break;
      }
    for (size_t I = 0; I != Cells.size(); ++I)
      if (Columns[I].What == CounterColumn::Counter)
        Out.addText(Columns[I], Cells[I], Unix, Device, Rank, Number);
  }

  CounterSamples &Out;
  CounterForm Kind;
  bool Commas = true;
  std::vector<CounterColumn> Columns;
};
} // namespace

/// DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="...",...} 97 1767603597000
static void readPrometheus(StringRef Line, int64_t Number, CounterSamples &Out) {
  StringRef Text = Line.trim();
  if (Text.empty() || Text.starts_with("#"))
    return;
  size_t Brace = Text.find('{'), End = Text.rfind('}');
  if (Brace == StringRef::npos || End == StringRef::npos || End < Brace)
    return;
  CounterName Name = counterName(Text.take_front(Brace));
  if (!Name.Known)
    return;
  StringRef Labels = Text.slice(Brace + 1, End);
  std::optional<int64_t> Device;
  for (StringRef Key : {"gpu=\"", ",gpu=\""})
    if (size_t At = Labels.find(Key);
        At != StringRef::npos && (At == 0 || Key[0] == ','))
      Device = integerIn(Labels.drop_front(At + Key.size()).split('"').first);
  auto [Value, Time] = Text.drop_front(End + 1).trim().split(' ');
  CounterColumn C;
  C.Name = Name.Name;
  C.Factor = Name.Factor;
  Out.addText(C, Value, unixTime(Time), Device, std::nullopt, Number);
}

static void readJson(StringRef Line, int64_t Number, CounterSamples &Out) {
  std::optional<json::Object> O = objectIn(Line);
  if (!O || !O->get("device"))
    return;
  auto Integer = [&](StringRef Key) -> std::optional<int64_t> {
    if (std::optional<int64_t> Value = O->getInteger(Key))
      return Value;
    std::optional<StringRef> Text = O->getString(Key);
    return Text ? integerIn(*Text) : std::nullopt;
  };
  std::optional<double> Unix;
  for (StringRef Key : {"timestamp", "time"})
    if (const json::Value *V = O->get(Key); V && !Unix)
      Unix = V->getAsString() ? unixTime(*V->getAsString())
                              : unixTime(formatv("{0}", *V).str());
  std::map<std::string, CounterColumn> InOrder;
  for (const auto &[Key, Value] : *O)
    if (CounterName Name = counterName(StringRef(Key)); Name.Known) {
      CounterColumn &C = InOrder[StringRef(Key).str()];
      C.Name = Name.Name;
      C.Factor = Name.Factor;
    }
  for (const auto &[Key, C] : InOrder) {
    const json::Value &V = *O->get(Key);
    std::string Text = V.getAsString() ? V.getAsString()->str()
                                       : formatv("{0}", V).str();
    Out.addText(C, Text, Unix, Integer("device"), Integer("rank"), Number);
  }
}

Error CounterCsvReader::read(InputFile &File, Source &Into) const {
  Expected<StringRef> Contents = File.contents();
  if (!Contents)
    return Contents.takeError();
  CounterForm Kind = counterFormOf(File.head());
  CounterSamples Out(Into);
  TableLines Table(Out, Kind);
  forEachLine(*Contents, [&](StringRef Line, int64_t Number) {
    if (Kind == CounterForm::Prometheus)
      readPrometheus(Line, Number, Out);
    else if (Kind == CounterForm::Json)
      readJson(Line, Number, Out);
    else
      Table.line(Line, Number);
    return true;
  });
  if (Table.Broken)
    Into.warn(Into.path() + ": " + formatCount(Table.Broken) +
                  " lines do not have the cells that the header names",
              "they were skipped; a monitor that was killed leaves its last "
              "line unfinished");
  if (Out.rows() == 0)
    return failure(Into.path() + ": no line holds a counter",
                   "nothing was sampled yet, or every value is N/A");
  return Error::success();
}

} // namespace culprit
