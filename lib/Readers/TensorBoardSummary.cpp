//===- TensorBoardSummary.cpp -----------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Field numbers are those of tensorboard/compat/proto/{summary,tensor,types}.
// proto, tensorboard/plugins/hparams/plugin_data.proto and google/protobuf/
// struct.proto.
//
//===----------------------------------------------------------------------===//

#include "Readers/TensorBoardSummary.h"
#include "Support/WireFormat.h"
#include "Tensor/Tensor.h"
#include "llvm/ADT/StringExtras.h"
#include <charconv>
#include <cmath>
#include <string>

using namespace llvm;

namespace culprit {

/// DataType of types.proto as ours; none for texts and what nobody logs.
static std::optional<DType> dtypeOf(int64_t Type) {
  switch (Type) {
  case 1:
    return DType::Float32;
  case 2:
    return DType::Float64;
  case 3:
    return DType::Int32;
  case 4:
    return DType::UInt8;
  case 5:
    return DType::Int16;
  case 6:
    return DType::Int8;
  case 9:
    return DType::Int64;
  case 10:
    return DType::Bool;
  case 14:
    return DType::BFloat16;
  case 17:
    return DType::UInt16;
  case 19:
    return DType::Float16;
  case 22:
    return DType::UInt32;
  case 23:
    return DType::UInt64;
  default:
    return std::nullopt;
  }
}

static double elementOf(DType Type, const char *Data) {
  TensorView View;
  View.Type = Type;
  View.Shape = {1};
  View.Bytes = ArrayRef(reinterpret_cast<const uint8_t *>(Data), sizeOf(Type));
  return View.at(0);
}

static constexpr int64_t StringType = 7; ///< DT_STRING

/// Puts the one element of a TensorProto into \p Out, if it has one element.
static void readTensor(StringRef Tensor, SummaryValue &Out) {
  int64_t Type = 0, Elements = 0;
  StringRef Content;
  double Listed = 0;
  bool Scalar = true;
  WireFields F(Tensor);
  while (F.next()) {
    auto each = [&](WireFields::Type Kind, auto Convert) {
      F.forEach(Kind, [&](uint64_t Bits) {
        if (Elements++ == 0)
          Listed = Convert(Bits);
      });
    };
    auto integer = [](uint64_t Bits) {
      return static_cast<double>(static_cast<int64_t>(Bits));
    };
    switch (F.number()) {
    case 1:
      Type = F.asInt();
      break;
    case 2: // a shape with a dimension that is not 1
      for (WireFields Shape(F.bytes()); Shape.next();)
        if (Shape.is(2, WireFields::Bytes))
          for (WireFields Dim(Shape.bytes()); Dim.next();)
            Scalar &= !Dim.is(1, WireFields::Varint) || Dim.asInt() == 1;
      break;
    case 4:
      if (F.is(4, WireFields::Bytes))
        Content = F.bytes();
      break;
    case 5:
      each(WireFields::Fixed32, [](uint64_t Bits) {
        uint32_t Low = static_cast<uint32_t>(Bits);
        return elementOf(DType::Float32, reinterpret_cast<char *>(&Low));
      });
      break;
    case 6:
      each(WireFields::Fixed64, [](uint64_t Bits) {
        return elementOf(DType::Float64, reinterpret_cast<char *>(&Bits));
      });
      break;
    case 7:
    case 10:
    case 11:
    case 16:
      each(WireFields::Varint, integer);
      break;
    case 17:
      each(WireFields::Varint,
           [](uint64_t Bits) { return static_cast<double>(Bits); });
      break;
    case 13: // 16 bits, of a half or of a bfloat16
      each(WireFields::Varint, [&](uint64_t Bits) {
        uint16_t Low = static_cast<uint16_t>(Bits);
        return elementOf(Type == 14 ? DType::BFloat16 : DType::Float16,
                         reinterpret_cast<char *>(&Low));
      });
      break;
    default:
      break;
    }
  }
  Out.What = Type == StringType ? SummaryValue::Text : SummaryValue::Tensor;
  std::optional<DType> Known = dtypeOf(Type);
  if (F.broken() || !Scalar || !Known)
    return;
  if (Elements == 1)
    Out.Number = Listed;
  else if (Content.size() == sizeOf(*Known))
    Out.Number = elementOf(*Known, Content.data());
  if (Out.Number)
    Out.What = SummaryValue::Scalar;
}

/// The plugin that SummaryMetadata names, and its data.
static void readMetadata(StringRef Metadata, SummaryValue &Out) {
  for (WireFields F(Metadata); F.next();)
    if (F.is(1, WireFields::Bytes))
      for (WireFields Data(F.bytes()); Data.next();) {
        if (Data.is(1, WireFields::Bytes))
          Out.Plugin = Data.bytes();
        if (Data.is(2, WireFields::Bytes))
          Out.PluginData = Data.bytes();
      }
}

SummaryValue readSummaryValue(StringRef Bytes) {
  SummaryValue Out;
  WireFields F(Bytes);
  while (F.next()) {
    if (F.is(1, WireFields::Bytes)) {
      Out.Tag = F.bytes();
    } else if (F.is(2, WireFields::Fixed32)) {
      Out.Number = F.asFloat();
      Out.What = SummaryValue::Scalar;
    } else if (F.is(3, WireFields::Bytes) || F.is(5, WireFields::Bytes)) {
      Out.What = SummaryValue::Histogram;
    } else if (F.is(4, WireFields::Bytes) || F.is(6, WireFields::Bytes)) {
      Out.What = SummaryValue::Media;
    } else if (F.is(8, WireFields::Bytes)) {
      readTensor(F.bytes(), Out);
    } else if (F.is(9, WireFields::Bytes)) {
      readMetadata(F.bytes(), Out);
    }
  }
  return Out;
}

/// A google.protobuf.Value as text: the shortest that gives the number back.
static std::string valueText(StringRef Value) {
  for (WireFields Of(Value); Of.next();) {
    if (Of.is(3, WireFields::Bytes))
      return Of.bytes().str();
    if (Of.is(4, WireFields::Varint))
      return Of.asInt() ? "true" : "false";
    if (!Of.is(2, WireFields::Fixed64))
      continue;
    double Number = Of.asDouble();
    if (std::fabs(Number) < 1e15 && Number == std::floor(Number))
      return itostr(static_cast<int64_t>(Number));
    // As Python prints it: 0.0003, not 3e-04.
    bool Plain = std::fabs(Number) >= 1e-4 && std::fabs(Number) < 1e16;
    char Buffer[64];
    return {Buffer, std::to_chars(std::begin(Buffer), std::end(Buffer), Number,
                                  Plain ? std::chars_format::fixed
                                        : std::chars_format::scientific)
                        .ptr};
  }
  return "";
}

void readHyperparameters(StringRef PluginData,
                         function_ref<void(StringRef, StringRef)> Each) {
  for (WireFields Data(PluginData); Data.next();) {
    if (!Data.is(3, WireFields::Bytes)) // session_start_info
      continue;
    for (WireFields Info(Data.bytes()); Info.next();) {
      if (!Info.is(1, WireFields::Bytes)) // map<string, Value> hparams
        continue;
      StringRef Key;
      std::string Value;
      for (WireFields Entry(Info.bytes()); Entry.next();)
        if (Entry.is(1, WireFields::Bytes))
          Key = Entry.bytes();
        else if (Entry.is(2, WireFields::Bytes))
          Value = valueText(Entry.bytes());
      if (!Key.empty())
        Each(Key, Value);
    }
  }
}

} // namespace culprit
