//===- WireFormat.cpp -------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Support/WireFormat.h"
#include "llvm/ADT/bit.h"

using namespace llvm;

namespace culprit {

bool WireFields::readVarint(uint64_t &Out) {
  Out = 0;
  for (unsigned I = 0; I != 10 && I < Rest.size(); ++I) {
    uint8_t Byte = static_cast<uint8_t>(Rest[I]);
    Out |= uint64_t(Byte & 0x7f) << (7 * I); // the tenth has one bit left
    if (Byte < 0x80) {
      Rest = Rest.drop_front(I + 1);
      return true;
    }
  }
  return false;
}

bool WireFields::readFixed(unsigned Size, uint64_t &Out) {
  if (Rest.size() < Size)
    return false;
  Out = 0;
  for (unsigned I = 0; I != Size; ++I)
    Out |= uint64_t(static_cast<uint8_t>(Rest[I])) << (8 * I);
  Rest = Rest.drop_front(Size);
  return true;
}

bool WireFields::next() {
  if (Rest.empty() || Broken)
    return false;
  uint64_t Key = 0;
  Broken = true;
  if (!readVarint(Key) || Key > UINT32_MAX || Key >> 3 == 0)
    return false;
  Number = static_cast<uint32_t>(Key >> 3);
  Span = StringRef();
  switch (Key & 7) {
  case Varint:
    Kind = Varint;
    Broken = !readVarint(Value);
    break;
  case Fixed64:
    Kind = Fixed64;
    Broken = !readFixed(8, Value);
    break;
  case Fixed32:
    Kind = Fixed32;
    Broken = !readFixed(4, Value);
    break;
  case Bytes:
    Kind = Bytes;
    if (!readVarint(Value) || Value > Rest.size())
      return false;
    Span = Rest.take_front(Value);
    Rest = Rest.drop_front(Value);
    Broken = false;
    break;
  default:
    return false;
  }
  return !Broken;
}

double WireFields::asDouble() const { return llvm::bit_cast<double>(Value); }

float WireFields::asFloat() const {
  return llvm::bit_cast<float>(static_cast<uint32_t>(Value));
}

bool WireFields::forEach(Type Element,
                         function_ref<void(uint64_t)> Each) const {
  if (Kind == Element) {
    Each(Value);
    return true;
  }
  if (Kind != Bytes)
    return true; // not of this field's type
  WireFields Packed(Span);
  while (!Packed.Rest.empty()) {
    uint64_t Out = 0;
    bool Whole = Element == Varint
                     ? Packed.readVarint(Out)
                     : Packed.readFixed(Element == Fixed64 ? 8 : 4, Out);
    if (!Whole)
      return false;
    Each(Out);
  }
  return true;
}

} // namespace culprit
