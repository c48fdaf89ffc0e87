//===- Lexer.cpp ------------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/Lexer.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include <algorithm>
#include <array>

using namespace llvm;

namespace culprit {

static constexpr std::array<bool, 256> NameChars = [] {
  std::array<bool, 256> Table = {};
  for (unsigned C = 0; C < 128; ++C)
    Table[C] = (C >= '0' && C <= '9') || (C >= 'a' && C <= 'z') ||
               (C >= 'A' && C <= 'Z') || C == '_';
  return Table;
}();

bool isNameChar(char C) {
  return NameChars[static_cast<unsigned char>(C)];
}

static bool isHexRun(StringRef S) {
  return !S.empty() && all_of(S, [](char C) { return isHexDigit(C); });
}

// A hash or a UUID part: hex digits with digits and letters mixed, too long
// for a word. `decade` and `feedface` have no digits, `20241120` no letters.
static bool isHash(StringRef S) {
  return S.size() >= 7 && isHexRun(S) && any_of(S, isDigit) &&
         any_of(S, [](char C) { return isAlpha(C); });
}

// What follows these is the number of a thing of this run, not of the error.
static bool precedesVolatileNumber(StringRef Name) {
  static constexpr std::array<StringRef, 24> Words = {
      "pid",       "tid",    "rank",   "ranks", "step",  "steps",
      "iteration", "iter",   "epoch",  "line",  "gpu",   "device",
      "node",      "worker", "seqnum", "work",  "last",  "size",
      "port_",     "layer",  "layers", "shape", "numel", "numelin"};
  return any_of(Words, [&](StringRef W) { return Name.equals_insensitive(W); });
}

namespace {

class Lexer {
public:
  Lexer(StringRef Text, std::vector<WordView> &Words, BumpPtrAllocator &Memory)
      : Text(Text), Words(Words), First(Words.size()), Memory(Memory) {}

  void run() {
    while (I < Text.size())
      step();
  }

private:
  char at(size_t K) const { return K < Text.size() ? Text[K] : '\0'; }
  StringRef rest() const { return Text.drop_front(I); }

  void emit(Word::Kind K, StringRef S, size_t Begin) {
    if (S.empty())
      return;
    Words.push_back(
        {K, S, Line, static_cast<unsigned>(Begin), Joined, NewClause});
    Joined = NewClause = false;
  }

  void step() {
    char C = Text[I];
    unsigned char Byte = static_cast<unsigned char>(C);
    if (C == '\n') {
      ++Line;
      ++I;
      NewClause = true;
      return;
    }
    if (isAlpha(C)) { // Most of them.
      if (!repeated() && !url())
        name();
      return;
    }
    if (repeated() || path() || bracketed() || time() || hex())
      return;
    if (isDigit(C) || (C == '-' && isDigit(at(I + 1)) && signAllowed()))
      return number();
    if (isNameChar(C) || isLatinLetter())
      return name();
    if (Byte >= 0x80)
      return wide();
    // `multi-gpu` is one word in two parts; ` - ` ends a clause.
    Joined = C == '-' && any() && I && isNameChar(Text[I - 1]) &&
             isNameChar(at(I + 1));
    bool Ends = C == ',' || C == ';' || C == ':' || C == '(' || C == ')' ||
                ((C == '.' || C == '-') && !isNameChar(at(I + 1)));
    NewClause |= Ends;
    ++I;
  }

  // `!!!!!!` and `GGGGGG` are what broken decoding prints. Rules such as
  // `-----` and `=====` are not.
  bool repeated() {
    char C = Text[I];
    bool Mark = C == '!' || C == '?' || C == '@' || C == '$';
    bool Letter = isAlpha(C);
    if (!Mark && !Letter)
      return false;
    if (I && Text[I - 1] == C)
      return false;
    size_t End = I;
    while (at(End) == C)
      ++End;
    if (End - I < (Mark ? 4u : 6u) || (Letter && isNameChar(at(End))))
      return false;
    // Four of them, however many there are; they stand here.
    emit(Word::Kind::Repeated, Text.substr(I, 4), I);
    I = End;
    return true;
  }

  bool url() {
    if (!rest().starts_with("http://") && !rest().starts_with("https://"))
      return false;
    size_t Begin = I + rest().find("://") + 3;
    StringRef Url = Text.drop_front(Begin).take_until(
        [](char C) { return isSpace(C) || C == ')' || C == '"' || C == '\''; });
    // A host can be the finding (127.0.0.1:29500); names and paths are not.
    StringRef Host = Url.take_until([](char C) { return C == '/'; });
    if (!Host.empty() &&
        (isDigit(Host.front()) || Host.starts_with("localhost")))
      host(Host, Begin);
    I = Begin + Url.size();
    return true;
  }

  void host(StringRef Host, size_t Begin) {
    std::vector<WordView> Inner;
    Lexer(Host, Inner, Memory).run();
    for (const WordView &W : Inner)
      emit(W.K, W.Text, Begin);
  }

  /// `/home/me/run/train.py` becomes `train.py`; `/dev/shm` stays.
  bool path() {
    char C = Text[I];
    bool Begins = (C == '/' || (C == '~' && at(I + 1) == '/')) &&
                  (I == 0 || !isNameChar(Text[I - 1]));
    if (!Begins)
      return false;
    size_t End = I, LastSlash = I;
    unsigned Slashes = 0;
    while (End < Text.size() &&
           (isNameChar(Text[End]) || StringRef("/.-+~@").contains(Text[End]))) {
      if (Text[End] == '/') {
        LastSlash = End;
        ++Slashes;
      }
      ++End;
    }
    if (Slashes < 3)
      return false;
    I = LastSlash + 1;
    return true;
  }

  /// `[768]`, `(16, 1024)` and `(PCI:0000:3b:00)` are of this run.
  bool bracketed() {
    char C = Text[I];
    if (C != '[' && C != '(')
      return false;
    if (rest().drop_front().starts_with_insensitive("PCI:")) {
      size_t Close = rest().find(')');
      if (Close == StringRef::npos)
        return false;
      I += Close + 1;
      return true;
    }
    size_t End = I + 1;
    while (isDigit(at(End)) || at(End) == ' ' || at(End) == ',')
      ++End;
    char Close = C == '[' ? ']' : ')';
    StringRef Inner = Text.slice(I + 1, End);
    if (at(End) != Close || !any_of(Inner, isDigit))
      return false;
    if (C == '(' && !Inner.contains(','))
      return false; // `failed (700)` is a code.
    I = End + 1;
    return true;
  }

  /// 2026-11-20, 10:04:11.231 and the like.
  bool time() {
    if (!isDigit(Text[I]) || (I && isNameChar(Text[I - 1])))
      return false;
    size_t End = I;
    unsigned Dashes = 0, Colons = 0;
    while (isDigit(at(End)) ||
           ((at(End) == '-' || at(End) == ':' || at(End) == '/') &&
            isDigit(at(End + 1)))) {
      Dashes += at(End) == '-' || at(End) == '/';
      Colons += at(End) == ':';
      ++End;
    }
    bool IsDate = Dashes == 2 && End - I >= 8;
    if (!IsDate && Colons != 2)
      return false;
    if (at(End) == 'T' && isDigit(at(End + 1)))
      ++End; // The time follows as the next word.
    while ((at(End) == '.' || at(End) == ',') && isDigit(at(End + 1))) {
      ++End;
      while (isDigit(at(End)))
        ++End;
    }
    I = End;
    return true;
  }

  bool hex() {
    if (Text[I] != '0' || (at(I + 1) != 'x' && at(I + 1) != 'X'))
      return false;
    size_t End = I + 2;
    while (isHexDigit(at(End)))
      ++End;
    if (End - I < 6)
      return false;
    I = End;
    return true;
  }

  // `loss=-100` and `(-100` are negative, `step-100` is not.
  bool signAllowed() const {
    return I == 0 || isSpace(Text[I - 1]) ||
           StringRef("=(:,[`'\"").contains(Text[I - 1]);
  }

  void number() {
    size_t Begin = I, End = I + (Text[I] == '-');
    SmallString<32> Digits(Text[I] == '-' ? "-" : "");
    auto TakeDigits = [&] {
      while (isDigit(at(End)))
        Digits += Text[End++];
    };
    TakeDigits();
    while (at(End) == ',' && isDigit(at(End + 1)) && isDigit(at(End + 2)) &&
           isDigit(at(End + 3)) && !isDigit(at(End + 4))) {
      ++End;
      TakeDigits();
    }
    unsigned Dots = 0;
    while ((at(End) == '.' || at(End) == '^') && isDigit(at(End + 1))) {
      Dots += at(End) == '.';
      Digits += Text[End++];
      TakeDigits();
    }
    if (at(End) == 'x' && isDigit(at(End + 1))) { // A shape: 16x768.
      while (isDigit(at(End)) || at(End) == 'x')
        ++End;
      I = End;
      return;
    }
    if ((at(End) == 'e' || at(End) == 'E') &&
        (isDigit(at(End + 1)) ||
         (StringRef("+-").contains(at(End + 1)) && isDigit(at(End + 2))))) {
      Digits += 'e';
      if (!isDigit(at(++End)))
        Digits += Text[End++];
      TakeDigits();
    } else if (isNameChar(at(End)) && Dots < 2) {
      // `3B`, `4bit`, or a hash that begins with a digit.
      while (isNameChar(at(End)))
        ++End;
      StringRef S = Text.slice(Begin, End).ltrim('-');
      I = End;
      if (!isHash(S))
        emit(Word::Kind::Name, S, Begin);
      return;
    }
    I = End;
    // Only two addresses say something; the others are of this network.
    if (Dots == 3 && Digits != "127.0.0.1" && Digits != "0.0.0.0")
      return;
    bool Volatile =
        any() && Words.back().Line == Line && !NewClause &&
        Words.back().K == Word::Kind::Name &&
        precedesVolatileNumber(Words.back().Text);
    if (Volatile && Digits != "0")
      return;
    StringRef Written = Text.slice(Begin, End);
    emit(Word::Kind::Number,
         Digits == Written ? Written : StringRef(Digits).copy(Memory), Begin);
  }

  /// Letters of Latin, Greek and Cyrillic beyond ASCII, as in `naïve`.
  bool isLatinLetter() const {
    unsigned char B = static_cast<unsigned char>(Text[I]);
    return B >= 0xC3 && B <= 0xD1 && (at(I + 1) & 0xC0) == 0x80;
  }

  void name() {
    size_t Begin = I;
    while (I < Text.size()) {
      if (isNameChar(Text[I]))
        ++I;
      else if (isLatinLetter())
        I += 2;
      else if (Text[I] == '.' && isNameChar(at(I + 1)) && I > Begin)
        ++I;
      else
        break;
    }
    StringRef S = Text.slice(Begin, I);
    StringRef Bare = S.rtrim("0123456789");
    bool Numbered =
        isDigit(S.back()) && Bare.size() < S.size() &&
        (Bare.equals_insensitive("rank") || Bare.equals_insensitive("node") ||
         Bare.equals_insensitive("gpu") || Bare.equals_insensitive("worker"));
    if (Numbered)
      S = Bare;
    // The number in `cuda:0` and `file.py:123` is of this run.
    if (at(I) == ':' && isDigit(at(I + 1)) &&
        (S.equals_insensitive("cuda") || S.equals_insensitive("gpu") ||
         S.ends_with(".py") || S.ends_with(".cpp") || S.ends_with(".cu") ||
         S.ends_with(".h") || S.ends_with(".cc"))) {
      ++I;
      while (isDigit(at(I)))
        ++I;
    }
    if (!isHash(S))
      emit(Word::Kind::Name, S, Begin);
  }

  static unsigned sequenceLength(unsigned char B) {
    return B >= 0xF0 ? 4 : B >= 0xE0 ? 3 : B >= 0xC0 ? 2 : 1;
  }

  // CJK stands at U+2E80 and above: three bytes from E2 BA on.
  bool isHan(size_t K) const {
    unsigned char B = static_cast<unsigned char>(at(K));
    if (B == 0xE2)
      return static_cast<unsigned char>(at(K + 1)) >= 0xBA;
    if (B == 0xE3)
      return static_cast<unsigned char>(at(K + 1)) >= 0x81;
    return (B >= 0xE4 && B <= 0xED) || B == 0xF0;
  }

  void wide() {
    size_t Begin = I;
    while (I < Text.size() && isHan(I))
      I = std::min(Text.size(),
                   I + sequenceLength(static_cast<unsigned char>(Text[I])));
    if (I > Begin)
      return emit(Word::Kind::Han, Text.slice(Begin, I), Begin);
    // Typographic punctuation, or the full-width forms of it.
    NewClause = true;
    I = std::min(Text.size(),
                 I + sequenceLength(static_cast<unsigned char>(Text[I])));
  }

  /// Whether a word was found.
  bool any() const { return Words.size() > First; }

  StringRef Text;
  std::vector<WordView> &Words;
  size_t First; ///< Of Words that is of this text.
  BumpPtrAllocator &Memory;
  size_t I = 0;
  unsigned Line = 0;
  bool Joined = false;
  bool NewClause = false;
};

} // namespace

void lex(StringRef Text, std::vector<WordView> &Out,
         BumpPtrAllocator &Memory) {
  Lexer(Text, Out, Memory).run();
}

std::vector<Word> lex(StringRef Text) {
  std::vector<WordView> Views;
  BumpPtrAllocator Memory;
  lex(Text, Views, Memory);
  std::vector<Word> Out;
  Out.reserve(Views.size());
  for (const WordView &W : Views)
    Out.push_back(
        {W.K, W.Text.str(), W.Line, W.Begin, W.Joined, W.NewClause});
  return Out;
}

} // namespace culprit
