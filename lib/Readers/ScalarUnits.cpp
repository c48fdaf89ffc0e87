//===- ScalarUnits.cpp ------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/ScalarUnits.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

using namespace llvm;

namespace culprit {

/// Takes a word for an average off either end of \p Name.
static bool takeAverage(StringRef &Name) {
  StringRef Left = Name;
  for (StringRef Word : {"avg_", "mean_", "average_", "median_", "interval_",
                         "current_", "curr_", "cur_"})
    if (Left.consume_front(Word))
      break;
  for (StringRef Word : {"_avg", "_mean", "_average", "_median", "/avg",
                         "/mean"})
    if (Left.consume_back(Word))
      break;
  if (Left.empty() || Left.size() == Name.size())
    return false;
  Name = Left;
  return true;
}

std::optional<BareName> withoutUnit(StringRef Normal) {
  struct Unit {
    StringLiteral Written;
    double Seconds;
  };
  // In brackets, behind "in", or alone.
  static constexpr Unit Units[] = {
      {"s", 1},         {"sec", 1},          {"secs", 1},
      {"seconds", 1},   {"ms", 1e-3},        {"msec", 1e-3},
      {"msecs", 1e-3},  {"millis", 1e-3},    {"milliseconds", 1e-3},
      {"us", 1e-6},     {"microseconds", 1e-6}};
  BareName Out;
  StringRef Name = Normal;
  bool Averaged = takeAverage(Name);
  for (const Unit &U : Units) {
    StringRef Left = Name;
    if (Left.consume_back(")")) {
      if (!Left.consume_back(U.Written) || !Left.consume_back("("))
        continue;
      Left.consume_back("_");
    } else if (!Left.consume_back(U.Written) || !Left.consume_back("_")) {
      continue;
    } else {
      Left.consume_back("_in");
    }
    if (Left.empty())
      continue;
    Name = Left;
    Out.Factor = U.Seconds;
    Out.Unit = true;
    break;
  }
  Averaged |= Out.Unit && takeAverage(Name); // step_time_mean_ms
  if (!Out.Unit && !Averaged)
    return std::nullopt;
  Out.Name = Name.str();
  return Out;
}

/// Takes "_per_gpu" or "/gpu" off the end, or "per_device_" off the front.
static void takeDevice(StringRef &Name) {
  for (StringRef Device : {"gpu", "device", "core", "chip", "rank", "npu",
                           "tpu", "node"}) {
    StringRef Left = Name;
    if (Left.consume_back(Device) &&
        (Left.consume_back("_per_") || Left.consume_back("/"))) {
      Name = Left;
      return;
    }
    Left = Name;
    if (Left.consume_front("per_") && Left.consume_front(Device) &&
        Left.consume_front("_")) {
      Name = Left;
      return;
    }
  }
}

bool isWorkRate(StringRef Normal) {
  StringRef Name = Normal;
  takeAverage(Name);
  takeDevice(Name);
  bool Second = false;
  for (StringRef Word : {"second", "sec", "s"})
    if (StringRef Left = Name;
        Left.consume_back(Word) &&
        (Left.consume_back("_per_") || Left.consume_back("/"))) {
      Name = Left;
      Second = true;
      break;
    }
  if (!Second)
    return false;
  takeDevice(Name); // tokens_per_gpu_per_second
  SmallVector<StringRef, 4> Words;
  Name.split(Words, '_');
  // Of what is counted, and of nothing that says of what else it is.
  auto isPiece = [](StringRef Word) {
    Word.consume_back("s");
    return is_contained({"token",    "tok",      "sample",   "example",
                         "image",    "imag",     "img",      "frame",
                         "sequence", "seq",      "word",     "step",
                         "iter",     "iteration", "it",      "batch",
                         "batche",   "row",      "update",   "item",
                         "clip",     "video",    "node",     "edge",
                         "graph",    "point",    "pair",     "sentence",
                         "document", "doc",      "window",   "utterance",
                         "molecule", "record"},
                        Word);
  };
  auto isOfTraining = [](StringRef Word) {
    return is_contained({"target", "train", "training", "trained", "global",
                         "effective", "nonpadding", "non", "padding", "real",
                         "text", "optimizer", "env"},
                        Word);
  };
  StringRef Last = Words.pop_back_val();
  return isPiece(Last) && llvm::all_of(Words, isOfTraining);
}

} // namespace culprit
