//===- KinetoTraceLexer.h - JSON as slices of its text ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// A forgiving JSON lexer that hands out slices and decodes nothing. Traces
/// hold what no strict parser takes (NaN, N/A, raw control characters, numbers
/// above int64, broken UTF-8, commas too many), and nine tenths of their text
/// is never looked at. Only the columns that are kept are decoded.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_KINETOTRACELEXER_H
#define CULPRIT_READERS_KINETOTRACELEXER_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace culprit::kineto {

/// Bytes that must be readable behind the text, and hold a quote, so that the
/// search for the end of a string needs no bounds.
inline constexpr size_t LexerPadding = 64;

/// A value of an object, as its text.
struct Slice {
  llvm::StringRef Text; ///< A string's without its quotes, escapes undone not.
  bool Quoted = false;
};

/// Walks [Next, End). No recursion, so that nesting cannot exhaust the stack.
class Lexer {
public:
  Lexer(const char *Begin, const char *End) : Next(Begin), End(End) {}

  bool atEnd() const { return Next >= End; }

  void skipSpace() {
    while (Next < End && static_cast<unsigned char>(*Next) <= ' ')
      ++Next;
  }

  /// Skips space and commas: too many or too few of them harm nobody.
  void skipSeparators() {
    while (Next < End &&
           (static_cast<unsigned char>(*Next) <= ' ' || *Next == ','))
      ++Next;
  }

  bool consume(char C) {
    skipSpace();
    if (Next >= End || *Next != C)
      return false;
    ++Next;
    return true;
  }

  /// Past the string that opens at Next; false when it does not close.
  bool string(llvm::StringRef &Text) {
    const char *Open = ++Next;
    for (;;) {
      Next = findQuoteOrEscape(Next);
      if (Next >= End)
        return false;
      if (*Next == '"')
        break;
      Next += 2;
    }
    Text = llvm::StringRef(Open, Next - Open);
    ++Next;
    return true;
  }

  /// Past any value. False at the end of the text or where no value is.
  bool value(Slice &Out) {
    skipSpace();
    if (Next >= End)
      return false;
    Out.Quoted = *Next == '"';
    if (Out.Quoted)
      return string(Out.Text);
    const char *Begin = Next;
    if (*Next == '{' || *Next == '[') {
      if (!close(0))
        return false;
    } else {
      scalar();
    }
    Out.Text = llvm::StringRef(Begin, Next - Begin);
    return Next != Begin;
  }

  /// Past the end of the object or list whose inside Next is in; false when
  /// it does not close.
  bool leave() { return close(1); }

  const char *Next;
  const char *const End;

private:
  void scalar() {
    while (Next < End && static_cast<unsigned char>(*Next) > ' ' &&
           *Next != ',' && *Next != '}' && *Next != ']' && *Next != '"' &&
           *Next != ':')
      ++Next;
  }

  /// Past the brackets that close \p Depth levels and what they open.
  bool close(int64_t Depth) {
    llvm::StringRef Ignored;
    for (;;) {
      Next = findQuoteOrBracket(Next);
      if (Next >= End)
        return false;
      if (*Next == '"') {
        if (!string(Ignored))
          return false;
        continue;
      }
      // '[' and '{' lack bit 2, ']' and '}' have it.
      Depth += *Next & 4 ? -1 : 1;
      ++Next;
      if (Depth == 0)
        return true;
    }
  }

  /// The first quote or bracket at or after \p At; there is one in the
  /// padding.
  static const char *findQuoteOrBracket(const char *At) {
#ifdef __SSE2__
    const __m128i Quote = _mm_set1_epi8('"'), Open = _mm_set1_epi8('{'),
                  Close = _mm_set1_epi8('}'), Fold = _mm_set1_epi8(0x20);
    for (;; At += 16) {
      __m128i Bytes = _mm_loadu_si128(reinterpret_cast<const __m128i *>(At));
      // '[' and '{', and ']' and '}', differ in bit 5 alone.
      __m128i Folded = _mm_or_si128(Bytes, Fold);
      unsigned Hits = _mm_movemask_epi8(
          _mm_or_si128(_mm_cmpeq_epi8(Bytes, Quote),
                       _mm_or_si128(_mm_cmpeq_epi8(Folded, Open),
                                    _mm_cmpeq_epi8(Folded, Close))));
      if (Hits)
        return At + std::countr_zero(Hits);
    }
#else
    while (*At != '"' && *At != '[' && *At != ']' && *At != '{' && *At != '}')
      ++At;
    return At;
#endif
  }

  static const char *findQuoteOrEscape(const char *At) {
#ifdef __SSE2__
    const __m128i Quote = _mm_set1_epi8('"'), Escape = _mm_set1_epi8('\\');
    for (;; At += 16) {
      __m128i Bytes = _mm_loadu_si128(reinterpret_cast<const __m128i *>(At));
      unsigned Hits = _mm_movemask_epi8(_mm_or_si128(
          _mm_cmpeq_epi8(Bytes, Quote), _mm_cmpeq_epi8(Bytes, Escape)));
      if (Hits)
        return At + std::countr_zero(Hits);
    }
#else
    while (*At != '"' && *At != '\\')
      ++At;
    return At;
#endif
  }
};

/// Calls \p Visit for every key of the object \p Text in order. False when the
/// object breaks off; what came before was visited. \p Text must be part of a
/// padded buffer.
bool forEachField(llvm::StringRef Text,
                  llvm::function_ref<void(llvm::StringRef, Slice)> Visit);
/// Likewise for the elements of the array \p Text.
bool forEachElement(llvm::StringRef Text,
                    llvm::function_ref<void(Slice)> Visit);

/// The decimal number \p Text times 10 to the power \p Scale, rounded half
/// away from zero: exact where a double is not, as for microseconds since
/// 1970 with a fraction. None for what is no number or does not fit.
std::optional<int64_t> scaledDecimal(llvm::StringRef Text, int Scale);

/// The string of a slice: escapes undone, broken UTF-8 replaced.
std::string decodeString(llvm::StringRef Raw);

} // namespace culprit::kineto

#endif // CULPRIT_READERS_KINETOTRACELEXER_H
