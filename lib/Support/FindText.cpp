//===- FindText.cpp ---------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Support/FindText.h"
#include <bit>
#include <cstring>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

using namespace llvm;

namespace culprit {

/// Bytes of a needle from which the worst case matters.
static constexpr size_t LongNeedle = 64;

size_t findText(StringRef Text, StringRef Needle, size_t From) {
  if (From > Text.size() || Needle.size() > Text.size() - From)
    return StringRef::npos;
  const char *Begin = Text.data();
  // Comparing at every place takes the product of both lengths in the worst
  // case; a long needle is left to the two-way search of the C library.
  if (Needle.size() > LongNeedle) {
    const void *At =
        memmem(Begin + From, Text.size() - From, Needle.data(), Needle.size());
    return At ? static_cast<size_t>(static_cast<const char *>(At) - Begin)
              : StringRef::npos;
  }
  // Places where a whole needle may begin: [From, End).
  size_t End = Text.size() - Needle.size() + 1;
  size_t Last = Needle.size() - 1;
  auto Matches = [&](size_t At) {
    return std::memcmp(Begin + At, Needle.data(), Needle.size()) == 0;
  };
#ifdef __SSE2__
  __m128i First16 = _mm_set1_epi8(Needle.front());
  __m128i Last16 = _mm_set1_epi8(Needle.back());
  for (; From + 16 <= End; From += 16) {
    auto Load = [&](size_t At) {
      return _mm_loadu_si128(reinterpret_cast<const __m128i *>(Begin + At));
    };
    unsigned Places = _mm_movemask_epi8(
        _mm_and_si128(_mm_cmpeq_epi8(Load(From), First16),
                      _mm_cmpeq_epi8(Load(From + Last), Last16)));
    for (; Places; Places &= Places - 1)
      if (size_t At = From + std::countr_zero(Places); Matches(At))
        return At;
  }
#endif
  for (; From < End; ++From)
    if (Begin[From] == Needle.front() && Begin[From + Last] == Needle.back() &&
        Matches(From))
      return From;
  return StringRef::npos;
}

} // namespace culprit
