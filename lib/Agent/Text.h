//===- Text.h - Texts of a fixed size ---------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Puts messages together without allocation.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_AGENT_TEXT_H
#define CULPRIT_AGENT_TEXT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

namespace culprit::agent {

/// Appends to an array of characters, which always ends with a zero byte; what
/// does not fit is cut.
class Text {
public:
  Text(char *To, size_t Size) : To(To), Size(Size) {
    if (Size)
      To[0] = 0;
  }
  Text &operator<<(const char *S) {
    if (!S)
      S = "";
    for (; *S && Used + 1 < Size; ++S)
      To[Used++] = *S;
    if (Size)
      To[Used] = 0;
    return *this;
  }
  Text &operator<<(uint64_t Number) {
    char Digits[24];
    size_t At = sizeof(Digits) - 1;
    Digits[At] = 0;
    do {
      Digits[--At] = static_cast<char>('0' + Number % 10);
      Number /= 10;
    } while (Number);
    return *this << Digits + At;
  }
  Text &operator<<(uint32_t Number) { return *this << uint64_t(Number); }
  Text &operator<<(int Number) {
    if (Number < 0)
      *this << "-";
    return *this << uint64_t(Number < 0 ? -int64_t(Number) : Number);
  }

private:
  char *To;
  size_t Size, Used = 0;
};

/// Copies \p From to an array, cut and ended with zeros.
template <size_t N> void copyText(char (&To)[N], const char *From) {
  memset(To, 0, N);
  Text(To, N) << From;
}

} // namespace culprit::agent

#endif // CULPRIT_AGENT_TEXT_H
