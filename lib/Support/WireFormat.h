//===- WireFormat.h - Fields of a protocol buffer ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Walks the fields of one protobuf message without its schema. A reader that
/// knows the numbers of the few fields it wants needs no generated code:
///
///   for (WireFields F(Bytes); F.next();)
///     if (F.is(1, WireFields::Fixed64))
///       WallTime = F.asDouble();
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_SUPPORT_WIREFORMAT_H
#define CULPRIT_SUPPORT_WIREFORMAT_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include <cstdint>

namespace culprit {

/// A cursor over the fields of a message. Holds a view of its bytes; copies
/// and allocates nothing. Groups, which nobody writes any more, are refused.
class WireFields {
public:
  enum Type { Varint = 0, Fixed64 = 1, Bytes = 2, Fixed32 = 5 };

  explicit WireFields(llvm::StringRef Message) : Rest(Message) {}

  /// Reads the next field; false at the end of the message or where it is
  /// broken.
  bool next();
  /// Whether next() stopped at bytes that are no field.
  bool broken() const { return Broken; }

  uint32_t number() const { return Number; }
  /// Whether the field read last has this number and this type. A field of
  /// another type than the schema's is to be left alone, as protobuf does.
  bool is(uint32_t WantedNumber, Type WantedType) const {
    return Number == WantedNumber && Kind == WantedType;
  }

  int64_t asInt() const { return static_cast<int64_t>(Value); }
  double asDouble() const; ///< Of a Fixed64.
  float asFloat() const;   ///< Of a Fixed32.
  llvm::StringRef bytes() const { return Span; }

  /// The elements of the repeated number read last, packed or not, of the
  /// element type \p Element; each is given as 64 bits. False when the packed
  /// bytes break off.
  bool forEach(Type Element, llvm::function_ref<void(uint64_t)> Each) const;

private:
  bool readVarint(uint64_t &Out);
  bool readFixed(unsigned Size, uint64_t &Out);

  llvm::StringRef Rest, Span;
  uint64_t Value = 0;
  uint32_t Number = 0;
  Type Kind = Varint;
  bool Broken = false;
};

} // namespace culprit

#endif // CULPRIT_SUPPORT_WIREFORMAT_H
