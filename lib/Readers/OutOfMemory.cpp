//===- OutOfMemory.cpp ------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/OutOfMemory.h"
#include "Support/LooseJson.h"
#include "llvm/ADT/StringExtras.h"
#include <cmath>

using namespace llvm;

namespace culprit {

static double unitBytes(StringRef Unit) {
  for (auto [Name, Bytes] : {std::pair<StringRef, double>{"GiB", 0x1p30},
                             {"MiB", 0x1p20},
                             {"KiB", 0x1p10},
                             {"TiB", 0x1p40},
                             {"GB", 0x1p30},
                             {"MB", 0x1p20},
                             {"kB", 0x1p10},
                             {"KB", 0x1p10},
                             {"G", 0x1p30},
                             {"M", 0x1p20},
                             {"bytes", 1},
                             {"B", 1}})
    if (Unit == Name)
      return Bytes;
  return 0;
}

/// The size that \p Text begins with: "20.00 MiB", "123kB", "20 bytes".
static std::optional<int64_t> leadingSize(StringRef Text) {
  Text = Text.ltrim();
  StringRef Digits = Text.take_while(
      [](char C) { return isDigit(C) || C == '.' || C == ','; });
  std::optional<double> Number = parseNumber(Digits.rtrim(".,"));
  StringRef Unit = Text.drop_front(Digits.size()).ltrim().take_while(isAlpha);
  double Bytes = unitBytes(Unit);
  if (!Number || Bytes == 0 || *Number * Bytes > 1e18)
    return std::nullopt;
  return std::llround(*Number * Bytes);
}

/// The size behind \p Words.
static std::optional<int64_t> sizeAfter(StringRef Text, StringRef Words) {
  size_t At = Text.find_insensitive(Words);
  if (At == StringRef::npos)
    return std::nullopt;
  return leadingSize(Text.drop_front(At + Words.size()));
}

/// The size in front of \p Words: "3.79 GiB total capacity".
static std::optional<int64_t> sizeBefore(StringRef Text, StringRef Words) {
  size_t At = Text.find_insensitive(Words);
  if (At == StringRef::npos)
    return std::nullopt;
  StringRef Before = Text.take_front(At).rtrim();
  size_t Unit = Before.find_last_not_of(
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");
  if (Unit == StringRef::npos)
    return std::nullopt;
  size_t Number =
      Before.take_front(Unit + 1).rtrim().find_last_not_of("0123456789.");
  return leadingSize(
      Before.drop_front(Number == StringRef::npos ? 0 : Number + 1));
}

/// Bytes of an element, by a dtype named behind \p Text's shape; 0 if none.
static int64_t elementBytes(StringRef Text) {
  // Longer names first: bfloat16 contains float16.
  for (auto [Name, Bytes] : {std::pair<StringRef, int64_t>{"bfloat16", 2},
                             {"float16", 2},
                             {"bf16", 2},
                             {"fp16", 2},
                             {"half", 2},
                             {"float64", 8},
                             {"double", 8},
                             {"int64", 8},
                             {"float8", 1},
                             {"int8", 1},
                             {"float32", 4},
                             {"fp32", 4},
                             {"int32", 4},
                             {"float", 4}})
    if (Text.contains_insensitive(Name))
      return Bytes;
  return 0;
}

/// "... allocating tensor with shape [8, 65536, 4096] and type float". Without
/// a type the elements are known but not the bytes, and none are made up.
static std::optional<int64_t> shapeBytes(StringRef Text) {
  size_t At = Text.find_insensitive("tensor with shape");
  size_t Open = Text.find_first_of("[(", At == StringRef::npos ? At : At + 17);
  size_t Close = Text.find_first_of("])", Open);
  if (At == StringRef::npos || Open == StringRef::npos ||
      Close == StringRef::npos)
    return std::nullopt;
  double Bytes = elementBytes(Text.drop_front(Close));
  SmallVector<StringRef, 8> Dims;
  Text.slice(Open + 1, Close).split(Dims, ',', -1, false);
  for (StringRef Dim : Dims) {
    int64_t Size = 0;
    if (Dim.trim().getAsInteger(10, Size))
      return std::nullopt;
    Bytes *= static_cast<double>(Size);
  }
  if (!(Bytes > 0 && Bytes < 1e18))
    return std::nullopt;
  return static_cast<int64_t>(Bytes);
}

MemoryFigures memoryFigures(StringRef Text) {
  MemoryFigures Out;
  for (StringRef Words :
       {"tried to allocate ", "attempting to allocate ", "failed to allocate ",
        "you tried to allocate ", "anon-rss:",
        "alloc_buffer: allocating "})
    if (!Out.Asked)
      Out.Asked = sizeAfter(Text, Words);
  if (!Out.Asked)
    Out.Asked = shapeBytes(Text);
  Out.Capacity = sizeAfter(Text, "total capacity of ");
  if (!Out.Capacity) // as PyTorch 2.1 spelt it
    Out.Capacity = sizeAfter(Text, "total capacty of ");
  if (!Out.Capacity)
    Out.Capacity = sizeBefore(Text, "total capacity");
  Out.ReservedUnallocated =
      sizeBefore(Text, "is reserved by PyTorch but unallocated");
  if (Out.ReservedUnallocated)
    return Out;
  // Before 2.1 the text named both totals.
  std::optional<int64_t> Reserved =
      sizeBefore(Text, "reserved in total by PyTorch");
  std::optional<int64_t> Allocated = sizeBefore(Text, "already allocated");
  if (Reserved && Allocated && *Reserved >= *Allocated)
    Out.ReservedUnallocated = *Reserved - *Allocated;
  return Out;
}

} // namespace culprit
