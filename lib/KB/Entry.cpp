//===- Entry.cpp ------------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/Entry.h"
#include "Support/Text.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"

using namespace llvm;

namespace culprit {

StringRef frequencyName(Frequency F) {
  switch (F) {
  case Frequency::Required:
    return "required";
  case Frequency::Always:
    return "always";
  case Frequency::Often:
    return "often";
  case Frequency::Sometimes:
    return "sometimes";
  case Frequency::Never:
    return "never";
  }
  llvm_unreachable("unknown frequency");
}

std::optional<Frequency> parseFrequency(StringRef Word) {
  return StringSwitch<std::optional<Frequency>>(Word.trim())
      .CaseLower("required", Frequency::Required)
      .CaseLower("always", Frequency::Always)
      .CaseLower("often", Frequency::Often)
      .CaseLower("sometimes", Frequency::Sometimes)
      .CaseLower("never", Frequency::Never)
      .Default(std::nullopt);
}

std::string placeText(const SourcePlace &P) {
  return P.File + ":" + std::to_string(P.Line);
}

static bool isSlugChar(char C) {
  return isAlnum(C) || static_cast<unsigned char>(C) >= 0x80;
}

std::string slug(StringRef Title, size_t Limit) {
  std::string Out;
  size_t WordEnd = 0;
  for (char C : Title) {
    if (isSlugChar(C)) {
      Out += toLower(C);
    } else if (C == '\'' || C == '`' || C == '"') {
      continue;
    } else if (!Out.empty() && Out.back() != '-') {
      if (Out.size() <= Limit)
        WordEnd = Out.size();
      Out += '-';
    }
  }
  while (!Out.empty() && Out.back() == '-')
    Out.pop_back();
  if (Out.size() <= Limit)
    return Out;
  if (WordEnd)
    Out.resize(WordEnd);
  else {
    // One word longer than the limit; keep its characters whole.
    Out.resize(wholeCharacters(Out, Limit).size());
  }
  return Out;
}

// A full stop ends a sentence when white space and something that can begin
// one follow. "e.g. a mask" and "layer 3. attention" go on in lower case;
// "2.5" and "nn.Linear" have no space.
static bool endsSentence(StringRef Text, size_t I) {
  char C = Text[I];
  if (C != '.' && C != '!' && C != '?')
    return false;
  size_t Next = I + 1;
  while (Next < Text.size() && StringRef(")\"'").contains(Text[Next]))
    ++Next;
  if (Next == Text.size())
    return true;
  if (!isSpace(Text[Next]))
    return false;
  while (Next < Text.size() && isSpace(Text[Next]))
    ++Next;
  if (Next == Text.size())
    return true;
  if (isLower(Text[Next]))
    return false;
  StringRef Before = Text.take_front(I);
  return !Before.ends_with("e.g") && !Before.ends_with("i.e") &&
         !Before.ends_with("vs") && !Before.ends_with(" cf");
}

std::vector<std::string> sentences(StringRef Text) {
  std::vector<std::string> Out;
  std::string Line;
  bool InCode = false;
  auto Flush = [&] {
    StringRef Trimmed = StringRef(Line).trim();
    if (!Trimmed.empty())
      Out.push_back(Trimmed.str());
    Line.clear();
  };
  for (size_t I = 0; I < Text.size(); ++I) {
    char C = Text[I];
    if (isSpace(C)) {
      bool Paragraph = C == '\n' && I + 1 < Text.size() && Text[I + 1] == '\n';
      if (Paragraph && !InCode)
        Flush();
      else if (!Line.empty() && Line.back() != ' ')
        Line += ' ';
      continue;
    }
    if (C == '`')
      InCode = !InCode;
    Line += C;
    if (!InCode && endsSentence(Text, I)) {
      while (I + 1 < Text.size() && StringRef(")\"'").contains(Text[I + 1]))
        Line += Text[++I];
      Flush();
    }
  }
  Flush();
  return Out;
}

std::string firstSentence(StringRef Text) {
  std::vector<std::string> All = sentences(Text);
  return All.empty() ? std::string() : All.front();
}

} // namespace culprit
