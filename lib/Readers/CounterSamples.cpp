//===- CounterSamples.cpp ---------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/CounterSamples.h"
#include "Readers/CounterNames.h"
#include "Support/LooseJson.h"
#include "llvm/ADT/StringExtras.h"
#include <cmath>

using namespace llvm;

namespace culprit {

void CounterSamples::add(const std::string &Name, double Value,
                  std::optional<double> Unix, std::optional<int64_t> Device,
                  std::optional<int64_t> Rank, int64_t Line) {
  TableBuilder &Row = Into.table(TableId::counters);
  Row.addRow();
  ++Rows;
  Row.set(counters::name, StringRef(Name));
  // Seconds of this century; anything else is no wall clock.
  if (Unix && *Unix > 0 && *Unix < 4e9) {
    int64_t At = static_cast<int64_t>(std::llround(*Unix * 1e6)) * 1000;
    if (!Into.EpochNs)
      Into.EpochNs = At;
    Row.set(counters::at, At - *Into.EpochNs);
  }
  Row.set(counters::value, Value);
  if (Rank)
    Row.set(counters::rank, *Rank);
  if (Device)
    Row.set(counters::device, *Device);
  Row.set(counters::place, Line);
}

/// The bits of NVML's clock event reasons that cost speed.
static constexpr struct {
  uint64_t Bit;
  StringLiteral Name;
} Reasons[] = {{0x4, "throttle_sw_power_cap"},
               {0x8, "throttle_hw_slowdown"},
               {0x20, "throttle_sw_thermal"},
               {0x40, "throttle_hw_thermal"},
               {0x80, "throttle_hw_power_brake"}};

/// The number in "45 %", "0x0000000000000004", "Not Active" or "P0".
static std::optional<double> numberIn(StringRef Cell) {
  Cell = Cell.trim(" \t\r\"");
  if (Cell.equals_insensitive("active"))
    return 1;
  if (Cell.equals_insensitive("not active"))
    return 0;
  uint64_t Mask;
  if (Cell.starts_with("0x"))
    return Cell.getAsInteger(0, Mask) ? std::nullopt
                                      : std::optional<double>(Mask);
  if (Cell.size() > 1 && Cell[0] == 'P' && isDigit(Cell[1]))
    Cell = Cell.drop_front();
  std::optional<double> Value = parseNumber(Cell.split(' ').first);
  return Value && std::isfinite(*Value) ? Value : std::nullopt;
}

void CounterSamples::addText(const CounterColumn &C, StringRef Cell,
                      std::optional<double> Unix,
                      std::optional<int64_t> Device,
                      std::optional<int64_t> Rank, int64_t Line) {
  std::optional<double> Value = numberIn(Cell);
  if (!Value)
    return; // N/A, [Not Supported], -
  // With units in the cells the cell says its own.
  double Factor = C.Factor;
  if (StringRef Unit = Cell.trim().split(' ').second.trim();
      !Unit.empty() && isAlpha(Unit[0]) && Unit != "Active") {
    CounterName Named = counterName(C.Name + " [" + Unit.str() + "]");
    if (Named.Factor != 1)
      Factor = Named.Factor;
    else
      Factor = Unit == "MiB" ? 1048576 : Unit == "GiB" ? 1073741824 : Factor;
  }
  add(C.Name, *Value * Factor, Unix, Device, Rank, Line);
  if (C.Name == "throttle_reasons" && *Value >= 0 && *Value < 9e15)
    for (const auto &R : Reasons)
      add(R.Name.str(), (static_cast<uint64_t>(*Value) & R.Bit) != 0, Unix,
          Device, Rank, Line);
}

} // namespace culprit
