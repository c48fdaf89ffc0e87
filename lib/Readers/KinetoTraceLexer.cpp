//===- KinetoTraceLexer.cpp -------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/KinetoTraceLexer.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"

using namespace llvm;

namespace culprit::kineto {

bool forEachField(StringRef Text, function_ref<void(StringRef, Slice)> Visit) {
  Lexer L(Text.begin(), Text.end());
  if (!L.consume('{'))
    return false;
  for (;;) {
    L.skipSeparators();
    if (L.consume('}'))
      return true;
    StringRef Key;
    Slice Value;
    if (L.atEnd() || *L.Next != '"' || !L.string(Key) || !L.consume(':') ||
        !L.value(Value))
      return false;
    Visit(Key, Value);
  }
}

bool forEachElement(StringRef Text, function_ref<void(Slice)> Visit) {
  Lexer L(Text.begin(), Text.end());
  if (!L.consume('['))
    return false;
  for (;;) {
    L.skipSeparators();
    if (L.consume(']'))
      return true;
    Slice Value;
    if (!L.value(Value))
      return false;
    Visit(Value);
  }
}

/// The exponent of a number, from behind its e. Bounded, so that what is far
/// out of range stays so without overflowing here.
static std::optional<int> exponent(StringRef Text) {
  int Value = 0;
  bool Negative = Text.starts_with("-");
  if (Negative || Text.starts_with("+"))
    Text = Text.drop_front();
  if (Text.empty())
    return std::nullopt;
  for (char C : Text) {
    if (!isDigit(C))
      return std::nullopt;
    Value = std::min(Value * 10 + (C - '0'), 100000);
  }
  return Negative ? -Value : Value;
}

/// Eight digits at \p At at once; false if one of them is none.
static bool eightDigits(const char *At, uint64_t &Value) {
  if constexpr (std::endian::native != std::endian::little)
    return false;
  uint64_t Bytes;
  std::memcpy(&Bytes, At, 8);
  // A digit's high nibble is 3, also after 6 was added to it.
  if (((Bytes & 0xF0F0F0F0F0F0F0F0u) |
       (((Bytes + 0x0606060606060606u) & 0xF0F0F0F0F0F0F0F0u) >> 4)) !=
      0x3333333333333333u)
    return false;
  // Pairs, then fours, then all eight.
  Bytes -= 0x3030303030303030u;
  Bytes = Bytes * 10 + (Bytes >> 8);
  Value = ((Bytes & 0x000000FF000000FFu) * 0x000F424000000064u +
           ((Bytes >> 16) & 0x000000FF000000FFu) * 0x0000271000000001u) >>
          32;
  return true;
}

/// Appends the digits at \p At to \p Mantissa. \returns where they end.
static const char *digits(const char *At, const char *End,
                          uint64_t &Mantissa) {
  uint64_t Eight;
  while (End - At >= 8 && eightDigits(At, Eight)) {
    Mantissa = Mantissa * 100000000 + Eight;
    At += 8;
  }
  for (; At != End; ++At) {
    unsigned Digit = static_cast<unsigned char>(*At) - '0';
    if (Digit > 9)
      break;
    Mantissa = Mantissa * 10 + Digit;
  }
  return At;
}

static std::optional<int64_t> anyDecimal(StringRef Text, int Scale);

std::optional<int64_t> scaledDecimal(StringRef Text, int Scale) {
  // Nearly all numbers have few digits, no exponent, and nothing to round;
  // the others go the long way.
  static constexpr int64_t Powers[] = {1, 10, 100, 1000};
  if (Text.empty() || Text.size() > 20 || Scale < 0 || Scale > 3)
    return anyDecimal(Text, Scale);
  const char *At = Text.begin(), *End = Text.end();
  bool Negative = *At == '-';
  At += Negative;
  const char *Begin = At;
  const int WholeScale = Scale;
  uint64_t Mantissa = 0;
  At = digits(At, End, Mantissa);
  if (At == Begin)
    return anyDecimal(Text, Scale);
  if (At != End) {
    const char *Point = At;
    if (*Point != '.')
      return anyDecimal(Text, Scale);
    At = digits(At + 1, End, Mantissa);
    Scale -= At - Point - 1;
    if (At != End || Scale < 0)
      return anyDecimal(Text, WholeScale);
  }
  // 19 digits fit the mantissa, and its sign bit says if they fit the value.
  int64_t Value;
  if (End - Begin > 19 + (Scale != WholeScale) ||
      static_cast<int64_t>(Mantissa) < 0)
    return anyDecimal(Text, WholeScale);
  if (__builtin_mul_overflow(static_cast<int64_t>(Mantissa), Powers[Scale],
                             &Value))
    return std::nullopt;
  return Negative ? -Value : Value;
}

static std::optional<int64_t> anyDecimal(StringRef Text, int Scale) {
  bool Negative = Text.consume_front("-");
  uint64_t Mantissa = 0;
  int Power = Scale;
  bool InFraction = false, Any = false;
  size_t I = 0;
  for (; I != Text.size(); ++I) {
    unsigned Digit = static_cast<unsigned char>(Text[I]) - '0';
    if (Digit > 9) {
      if (Text[I] != '.' || InFraction)
        break;
      InFraction = true;
      continue;
    }
    Any = true;
    // Digits past the 19th are below a nanosecond of any time that fits.
    if (Mantissa < 1000000000000000000u) {
      Mantissa = Mantissa * 10 + Digit;
      Power -= InFraction;
    } else {
      Power += !InFraction;
    }
  }
  if (!Any)
    return std::nullopt;
  if (I != Text.size()) {
    if (Text[I] != 'e' && Text[I] != 'E')
      return std::nullopt;
    std::optional<int> Exponent = exponent(Text.substr(I + 1));
    if (!Exponent)
      return std::nullopt;
    Power += *Exponent;
  }
  for (; Power > 0 && Mantissa != 0; --Power)
    if (__builtin_mul_overflow(Mantissa, uint64_t(10), &Mantissa))
      return std::nullopt;
  bool RoundUp = false;
  for (; Power < 0 && Mantissa != 0; ++Power) {
    RoundUp = Mantissa % 10 >= 5;
    Mantissa /= 10;
  }
  // A value that vanished long before its last digit was reached is no half.
  Mantissa += RoundUp && Power == 0;
  if (Mantissa > static_cast<uint64_t>(INT64_MAX))
    return std::nullopt;
  int64_t Value = static_cast<int64_t>(Mantissa);
  return Negative ? -Value : Value;
}

/// Appends the character of the four hex digits at \p Hex to \p Out, with the
/// low surrogate that may follow. \returns the characters used.
static size_t decodeUnicode(StringRef Hex, std::string &Out) {
  unsigned High, Low;
  if (Hex.size() < 4 || Hex.take_front(4).getAsInteger(16, High)) {
    Out += "\xEF\xBF\xBD";
    return 0;
  }
  size_t Used = 4;
  if (High >= 0xD800 && High < 0xDC00 && Hex.size() >= 10 && Hex[4] == '\\' &&
      Hex[5] == 'u' && !Hex.substr(6, 4).getAsInteger(16, Low) &&
      Low >= 0xDC00 && Low < 0xE000) {
    High = 0x10000 + ((High - 0xD800) << 10) + (Low - 0xDC00);
    Used = 10;
  }
  if (High >= 0xD800 && High < 0xE000) {
    Out += "\xEF\xBF\xBD";
  } else if (High < 0x80) {
    Out += static_cast<char>(High);
  } else if (High < 0x800) {
    Out += static_cast<char>(0xC0 | High >> 6);
    Out += static_cast<char>(0x80 | (High & 0x3F));
  } else {
    if (High < 0x10000) {
      Out += static_cast<char>(0xE0 | High >> 12);
    } else {
      Out += static_cast<char>(0xF0 | High >> 18);
      Out += static_cast<char>(0x80 | (High >> 12 & 0x3F));
    }
    Out += static_cast<char>(0x80 | (High >> 6 & 0x3F));
    Out += static_cast<char>(0x80 | (High & 0x3F));
  }
  return Used;
}

std::string decodeString(StringRef Raw) {
  if (!Raw.contains('\\'))
    return json::isUTF8(Raw) ? Raw.str() : json::fixUTF8(Raw);
  std::string Out;
  Out.reserve(Raw.size());
  for (size_t I = 0; I != Raw.size(); ++I) {
    if (Raw[I] != '\\' || I + 1 == Raw.size()) {
      Out += Raw[I];
      continue;
    }
    switch (char C = Raw[++I]) {
    case 'n':
      Out += '\n';
      break;
    case 't':
      Out += '\t';
      break;
    case 'r':
      Out += '\r';
      break;
    case 'b':
      Out += '\b';
      break;
    case 'f':
      Out += '\f';
      break;
    case 'u':
      I += decodeUnicode(Raw.substr(I + 1), Out);
      break;
    default:
      Out += C;
    }
  }
  return json::isUTF8(Out) ? Out : json::fixUTF8(Out);
}

} // namespace culprit::kineto
