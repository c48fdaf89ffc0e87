//===- NumericsLog.cpp ------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/NumericsLog.h"
#include "Readers/TensorRemarks.h"
#include "Readers/TextLines.h"
#include "Support/LooseJson.h"
#include "Support/Units.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace llvm;

namespace culprit {

static constexpr StringLiteral First("Total captured activations: ");

namespace {
/// The block of an operator while its lines come.
struct Block {
  TensorRecord Record;
  TensorSummary Given;
  bool Open = false;
  bool Known = false; ///< It has a shape.
  bool Backward = false;
};
} // namespace

/// [8, 2048], torch.Size([8, 2048]) or (8, 2048).
static bool shapeOf(StringRef Text, SmallVectorImpl<int64_t> &Out) {
  Text.consume_front("torch.Size(");
  Text = Text.trim("[]() ").rtrim(',');
  int64_t Numel = 1;
  while (!Text.empty()) {
    auto [Part, Rest] = Text.split(',');
    int64_t Size;
    if (Part.trim().getAsInteger(10, Size) || Size < 0 || Out.size() == 64 ||
        (Size != 0 && MulOverflow(Numel, Size, Numel)))
      return false;
    Out.push_back(Size);
    Text = Rest;
  }
  return true;
}

Match NumericsLogReader::matches(const InputFile &File) const {
  return File.head().starts_with(First) ? Match::Certain : Match::No;
}

Error NumericsLogReader::read(InputFile &File, Source &Into) const {
  Expected<StringRef> Contents = File.contents();
  if (!Contents)
    return Contents.takeError();
  int64_t Order = 0, Claimed = 0;
  Contents->drop_front(First.size())
      .take_while(isDigit)
      .getAsInteger(10, Claimed);
  Block B;
  const auto Close = [&] {
    if (!B.Open)
      return;
    B.Record.Order = Order++;
    B.Record.Role = B.Backward ? "grad" : "output";
    Into.addTensor(std::move(B.Record), B.Given, B.Known);
    B = Block();
  };
  forEachLine(*Contents, [&](StringRef Line, int64_t) {
    if (Line.starts_with("[") && Line.ends_with("]") &&
        Line.contains("op_")) {
      Close();
      StringRef Name = Line.drop_front().drop_back();
      B.Open = true;
      B.Record.Name = printableName(Name);
      StringRef Module = Name.rsplit('/').first;
      B.Record.Layer = printableName(
          Name.contains('/') && !Module.empty() ? Module : Name);
      return true;
    }
    if (!B.Open || !Line.starts_with(" "))
      return true;
    auto [Key, Value] = Line.trim().split(": ");
    Value = Value.trim();
    if (Key == "Shape") {
      B.Known = shapeOf(Value, B.Record.Data.Shape);
      if (!B.Known)
        B.Record.Data.Shape.clear();
    } else if (Key == "Min") {
      B.Given.Min = parseNumber(Value);
    } else if (Key == "Max") {
      B.Given.Max = parseNumber(Value);
    } else if (Key == "Mean") {
      B.Given.Mean = parseNumber(Value);
    } else if (Key == "L2 norm") {
      B.Given.L2 = parseNumber(Value);
    } else if (Key == "Output hash") {
      B.Given.Hash = json::fixUTF8(Value.take_front(64));
    } else if (Key == "Phase") {
      B.Backward = Value.starts_with("backward");
    }
    return true;
  });
  Close();
  if (Order < Claimed)
    Into.warn(Into.path() + ": holds " + formatCount(Order) + " of the " +
                  formatCount(Claimed) + " activations that it announces",
              "the run ended while it was written, or the copy is not whole");
  return Error::success();
}

} // namespace culprit
