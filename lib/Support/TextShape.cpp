//===- TextShape.cpp - Loops and scripts of a text --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Support/TextShape.h"
#include "Support/Deadline.h"
#include <algorithm>
#include <array>

using namespace llvm;

namespace culprit {

template <typename Element>
static std::optional<TailLoop> tailLoopOf(ArrayRef<Element> Values,
                                          size_t MinRepeats) {
  size_t Size = Values.size();
  auto FromEnd = [&](size_t I) { return Values[Size - 1 - I]; };
  // Border[L]: length of the longest proper border of the last L elements.
  std::vector<uint32_t> Border(Size + 1, 0);
  std::optional<TailLoop> Best;
  TimeCheck Late;
  for (size_t Length = 2; Length <= Size && !Late(); ++Length) {
    uint32_t Known = Border[Length - 1];
    while (Known && FromEnd(Known) != FromEnd(Length - 1))
      Known = Border[Known];
    Border[Length] = Known + (FromEnd(Known) == FromEnd(Length - 1));
    size_t Period = Length - Border[Length];
    if (Length / Period >= std::max<size_t>(MinRepeats, 2))
      Best = {Period, Size - Length, Length};
  }
  return Best;
}

std::optional<TailLoop> tailLoop(ArrayRef<int64_t> Values, size_t MinRepeats) {
  return tailLoopOf(Values, MinRepeats);
}

std::optional<TailLoop> tailLoop(StringRef Text, size_t MinRepeats) {
  return tailLoopOf(ArrayRef<char>(Text.data(), Text.size()), MinRepeats);
}

namespace {

/// The scripts that are told apart. Those of East Asia are one: Japanese mixes
/// three of them in a word.
enum Script : uint8_t {
  None, Latin, Greek, Cyrillic, Armenian, Hebrew, Arabic, Indic, Thai, Georgian,
  Ethiopic, EastAsian, NumScripts
};

struct Range {
  uint32_t First, Last;
  Script Of;
};

} // namespace

/// Unicode blocks of letters, in order.
static constexpr Range Blocks[] = {
    {'A', 'Z', Latin},
    {'a', 'z', Latin},
    {0xAA, 0xAA, Latin},
    {0xBA, 0xBA, Latin},
    {0xC0, 0xD6, Latin},
    {0xD8, 0xF6, Latin},
    {0xF8, 0x24F, Latin},
    {0x370, 0x3FF, Greek},
    {0x400, 0x52F, Cyrillic},
    {0x531, 0x587, Armenian},
    {0x591, 0x5F4, Hebrew},
    {0x620, 0x6D3, Arabic},
    {0x6FA, 0x6FF, Arabic},
    {0x750, 0x77F, Arabic},
    {0x8A0, 0x8FF, Arabic},
    {0x900, 0xDFF, Indic},
    {0xE01, 0xEFF, Thai}, // and Lao
    {0x1000, 0x109F, Thai}, // Burmese, likewise without spaces
    {0x10A0, 0x10FF, Georgian},
    {0x1100, 0x11FF, EastAsian},
    {0x1200, 0x139F, Ethiopic},
    {0x1780, 0x17FF, Thai}, // Khmer, likewise
    {0x1C80, 0x1C8F, Cyrillic},
    {0x1E00, 0x1EFF, Latin},
    {0x1F00, 0x1FFF, Greek},
    {0x2DE0, 0x2DFF, Cyrillic},
    {0x2E80, 0x2FDF, EastAsian},
    {0x3005, 0x3007, EastAsian},
    {0x3040, 0x31FF, EastAsian},
    {0x3400, 0x4DBF, EastAsian},
    {0x4E00, 0x9FFF, EastAsian},
    {0xA640, 0xA69F, Cyrillic},
    {0xAC00, 0xD7AF, EastAsian},
    {0xF900, 0xFAFF, EastAsian},
    {0xFB50, 0xFDFF, Arabic},
    {0xFE70, 0xFEFE, Arabic},
    {0xFF66, 0xFF9D, EastAsian},
    {0x20000, 0x323AF, EastAsian},
};

static Script scriptOf(uint32_t Point) {
  const Range *At = std::partition_point(
      std::begin(Blocks), std::end(Blocks),
      [&](const Range &R) { return R.Last < Point; });
  return At != std::end(Blocks) && At->First <= Point ? At->Of : None;
}

/// Whether words of the script are set off by spaces, so that another script
/// inside a word is odd.
static bool spaced(Script S) {
  return S != None && S != EastAsian && S != Thai;
}

/// No character that an answer is written with: control characters but white
/// space and escape, unpaired surrogates, non-characters, private use.
static bool isControl(uint32_t Point) {
  return (Point < 0x20 && !(Point >= 0x9 && Point <= 0xD) && Point != 0x1B) ||
         (Point >= 0x7F && Point < 0xA0 && Point != 0x85) ||
         (Point >= 0xE000 && Point < 0xF900) ||
         (Point >= 0xFDD0 && Point <= 0xFDEF) || (Point & 0xFFFE) == 0xFFFE;
}

/// Takes one character off \p Text. What is no UTF-8 is U+FFFD; \p Cut tells
/// that the text ends within a character that is right so far.
static uint32_t takeCharacter(StringRef &Text, bool &Cut) {
  auto Byte = [&](size_t I) { return static_cast<unsigned char>(Text[I]); };
  unsigned char Lead = Byte(0);
  size_t Length = Lead < 0x80    ? 1
                  : Lead < 0xC2  ? 0
                  : Lead < 0xE0  ? 2
                  : Lead < 0xF0  ? 3
                  : Lead <= 0xF4 ? 4
                                 : 0;
  Cut = false;
  uint32_t Point = Length <= 1 ? Lead : Lead & (0x7Fu >> Length);
  for (size_t I = 1; I < Length; ++I) {
    if (I == Text.size()) {
      Cut = true;
      Text = "";
      return 0xFFFD;
    }
    if ((Byte(I) & 0xC0) != 0x80) {
      Text = Text.drop_front(I);
      return 0xFFFD;
    }
    Point = Point << 6 | (Byte(I) & 0x3F);
  }
  Text = Text.drop_front(std::max<size_t>(Length, 1));
  bool Wrong = Length == 0 || (Length == 3 && Point < 0x800) ||
               (Length == 4 && (Point < 0x10000 || Point > 0x10FFFF)) ||
               (Point >= 0xD800 && Point < 0xE000);
  return Wrong ? 0xFFFD : Point;
}

Writing writingOf(StringRef Text) {
  Writing Out;
  std::array<int64_t, NumScripts> Letters{}, InWord{};
  Script Main = None, Before = None;
  auto EndWord = [&] {
    if (Main == None)
      return;
    ++Out.Words;
    int Alphabets = 0;
    for (int S = Latin; S != NumScripts; ++S)
      Alphabets += spaced(static_cast<Script>(S)) && InWord[S] >= 2;
    if (Alphabets >= 2) {
      ++Out.Mixed;
      if (!Out.FirstMixed)
        Out.FirstMixed = Out.Characters;
    }
    if (Before != None && Before != Main && Before != Latin && Main != Latin)
      ++Out.Jumps;
    Before = Main;
    Main = None;
    InWord.fill(0);
  };
  while (!Text.empty()) {
    bool Cut;
    uint32_t Point = takeCharacter(Text, Cut);
    if (Cut)
      break;
    ++Out.Characters;
    if (Point == 0xFFFD) {
      // The server's own mark of a character cut off at the very end.
      if (!Text.empty()) {
        ++Out.Replaced;
        if (!Out.FirstReplaced)
          Out.FirstReplaced = Out.Characters;
      }
      continue;
    }
    Out.Control += isControl(Point);
    // Accents that stand on their own belong to the letter before them.
    if (Point >= 0x300 && Point < 0x370)
      continue;
    Script S = scriptOf(Point);
    if (S == None) {
      EndWord();
      if (Point == '\n')
        Before = None;
      continue;
    }
    ++Out.Letters;
    ++Letters[S];
    ++InWord[S];
    if (Main == None || InWord[S] > InWord[Main])
      Main = S;
  }
  EndWord();
  Out.Scripts = std::count_if(Letters.begin(), Letters.end(),
                              [](int64_t Count) { return Count >= 3; });
  return Out;
}

} // namespace culprit
