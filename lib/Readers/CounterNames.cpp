//===- CounterNames.cpp -----------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/CounterNames.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSwitch.h"

using namespace llvm;

namespace culprit {

namespace {
struct CounterAlias {
  StringRef Canonical;
  double Factor;
};

struct CounterAliases {
  StringMap<CounterAlias> All;

  CounterAliases() {
#define COUNTER(CANONICAL, RAW) All[RAW] = {#CANONICAL, 1};
#define SCALED(CANONICAL, RAW, FACTOR) All[RAW] = {#CANONICAL, FACTOR};
#include "Readers/CounterNames.def"
  }
};
} // namespace

static const CounterAliases &counterAliases() {
  // On first use: nothing is constructed before main.
  static const CounterAliases N;
  return N;
}

/// "utilization_gpu" of "utilization.gpu [%]".
static std::string normalisedCounter(StringRef Raw) {
  std::string Out;
  for (char C : Raw.trim())
    if (isAlnum(C))
      Out += toLower(C);
    else if (!Out.empty() && Out.back() != '_')
      Out += '_';
  while (!Out.empty() && Out.back() == '_')
    Out.pop_back();
  return Out;
}

/// What takes a number in the unit \p Unit to the canonical one: bytes, watts
/// and hertz come with prefixes.
static double factorOf(StringRef Unit) {
  return StringSwitch<double>(Unit)
      .Case("KiB", 1024)
      .Case("MiB", 1048576)
      .Case("GiB", 1073741824)
      .Case("mW", 0.001)
      .Case("GHz", 1000)
      .Default(1);
}

CounterName counterName(StringRef Raw) {
  Raw = Raw.trim();
  StringRef Name = Raw, Unit;
  if (Raw.ends_with("]"))
    if (size_t At = Raw.rfind('['); At != StringRef::npos && At != 0) {
      Name = Raw.take_front(At).trim();
      Unit = Raw.drop_front(At + 1).drop_back().trim();
    }
  auto It = counterAliases().All.find(normalisedCounter(Name));
  if (It == counterAliases().All.end())
    return {Raw.str(), 1, false};
  return {It->second.Canonical.str(), It->second.Factor * factorOf(Unit), true};
}

} // namespace culprit
