//===- LockWriter.cpp - A golden lock as text -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Golden/LockFile.h"
#include "Support/Units.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;

namespace culprit {

/// A list is broken into lines of about so many columns.
static constexpr size_t Columns = 100;

/// Whether \p Word means itself to every YAML reader, be it a number or text.
static bool isPlain(StringRef Word) {
  if (Word.empty() || Word.size() > 200)
    return false;
  for (StringRef Special : {"null", "true", "false", "yes", "no", "on", "off",
                            "~", "y", "n"})
    if (Word.equals_insensitive(Special))
      return false;
  if (!isAlnum(Word[0]) && Word[0] != '_' && Word[0] != '/' &&
      !(Word[0] == '-' && Word.size() > 1 && isDigit(Word[1])))
    return false;
  for (char C : Word)
    if (!isAlnum(C) && !StringRef("_./+-|<>?()=@~^$").contains(C))
      return false;
  return true;
}

std::string quotedText(StringRef Raw) {
  const std::string Fixed =
      json::isUTF8(Raw) ? Raw.str() : json::fixUTF8(Raw);
  std::string Out = "\"";
  for (size_t I = 0; I != Fixed.size(); ++I) {
    const auto C = uint8_t(Fixed[I]);
    const auto Behind = [&](size_t K) {
      return I + K < Fixed.size() ? uint8_t(Fixed[I + K]) : 0u;
    };
    if (C == '"' || C == '\\')
      (Out += '\\') += char(C);
    else if (C == '\n')
      Out += "\\n";
    else if (C == '\t')
      Out += "\\t";
    else if (C < 0x20 || C == 0x7f)
      Out += formatv("\\x{0:x-2}", unsigned(C)).str();
    else if (C == 0xC2 && Behind(1) < 0xA0) { // C1 controls, next line
      Out += formatv("\\x{0:x-2}", Behind(1)).str();
      ++I;
    } else if (C == 0xE2 && Behind(1) == 0x80 &&
             (Behind(2) == 0xA8 || Behind(2) == 0xA9)) {
      Out += Behind(2) == 0xA8 ? "\\L" : "\\P";
      I += 2;
    } else if (C == 0xEF && Behind(1) == 0xBB && Behind(2) == 0xBF) {
      Out += "\\uFEFF";
      I += 2;
    } else {
      Out += char(C);
    }
  }
  return Out + "\"";
}

static std::string wordText(StringRef Word) {
  return isPlain(Word) ? Word.str() : quotedText(Word);
}

static void writeList(raw_ostream &OS, ArrayRef<std::string> List) {
  OS << '[';
  size_t Column = 12;
  for (size_t I = 0; I != List.size(); ++I) {
    const std::string Word = wordText(List[I]);
    if (I != 0) {
      OS << ',';
      if (Column + Word.size() + 2 > Columns) {
        OS << "\n    ";
        Column = 4;
      } else {
        OS << ' ';
        Column += 2;
      }
    }
    OS << Word;
    Column += Word.size();
  }
  OS << ']';
}

std::string itemText(const GoldenItem &Item) {
  std::string Out;
  raw_string_ostream OS(Out);
  OS << "- id: " << wordText(Item.Id) << '\n'
     << "  kind: " << toString(Item.Kind) << '\n'
     << "  of: " << toString(Item.Of) << '\n';
  for (const auto &[Key, Value] : Item.Values) {
    OS << "  " << wordText(Key) << ':';
    switch (Value.Is) {
    case GoldenValue::Form::Text:
      OS << ' ' << wordText(Value.Text) << '\n';
      break;
    case GoldenValue::Form::List:
      OS << ' ';
      writeList(OS, Value.List);
      OS << '\n';
      break;
    case GoldenValue::Form::Map:
      if (Key == "stats" || Key == "shares") {
        OS << " {";
        for (size_t I = 0; I != Value.Map.size(); ++I)
          OS << (I ? ", " : "") << wordText(Value.Map[I].first) << ": "
             << wordText(Value.Map[I].second);
        OS << "}\n";
        break;
      }
      OS << (Value.Map.empty() ? " {}\n" : "\n");
      for (const auto &[Name, Text] : Value.Map)
        OS << "    " << wordText(Name) << ": " << wordText(Text) << '\n';
      break;
    }
  }
  OS << "  tolerance: ";
  if (Item.Tolerance.empty())
    OS << "none";
  for (size_t I = 0; I != Item.Tolerance.size(); ++I)
    OS << (I == 0 ? "{" : ", ") << Item.Tolerance[I].first << ": "
       << formatNumber(Item.Tolerance[I].second, 6);
  OS << (Item.Tolerance.empty() ? "\n" : "}\n");
  if (!Item.Why.empty())
    OS << "  why: " << quotedText(Item.Why) << '\n';
  return Out;
}

std::string lockText(ArrayRef<GoldenItem> Items) {
  std::string Out =
      "# Written by culprit golden record. Each item is a promise about a run: "
      "review it as code.\n"
      "# kind, tolerance and why may be edited by hand; docs/golden.md says "
      "what they mean.\n"
      "culprit_golden: 1\nitems:";
  Out += Items.empty() ? " []\n" : "\n";
  for (const GoldenItem &I : Items)
    Out += itemText(I);
  return Out;
}

std::string splicedLock(StringRef Text, ArrayRef<GoldenItem> Old,
                        ArrayRef<GoldenItem> Renewed,
                        ArrayRef<std::string> Dropped) {
  if (Old.empty())
    return lockText(Renewed);
  std::vector<StringRef> Lines;
  while (!Text.empty()) {
    const size_t End = Text.find('\n');
    const size_t Size = End == StringRef::npos ? Text.size() : End + 1;
    Lines.push_back(Text.take_front(Size));
    Text = Text.drop_front(Size);
  }
  std::string Out;
  size_t Next = 0; // of Lines
  const auto CopyTo = [&](size_t End) {
    for (; Next < std::min(End, Lines.size()); ++Next)
      Out += Lines[Next];
    if (!Out.empty() && Out.back() != '\n')
      Out += '\n';
  };
  StringSet<> Leaving, Known;
  for (const std::string &Id : Dropped)
    Leaving.insert(Id);
  for (const GoldenItem &I : Old)
    Known.insert(I.Id);
  StringMap<const GoldenItem *> NewById;
  for (const GoldenItem &I : Renewed)
    NewById[I.Id] = &I;
  // A formatter may have indented the list.
  const std::string Indent(
      Lines[Old[0].FirstLine - 1].take_while([](char C) { return C == ' '; })
          .size(),
      ' ');
  const auto Add = [&](const GoldenItem &I) {
    const std::string Written = itemText(I);
    for (StringRef Rest = Written; !Rest.empty();) {
      auto [Line, Behind] = Rest.split('\n');
      Out += Indent;
      (Out += Line) += '\n';
      Rest = Behind;
    }
  };
  size_t Added = 0; // of Renewed: new ones are written in the order of names
  const auto AddBefore = [&](const GoldenItem *Before) {
    for (; Added != Renewed.size(); ++Added) {
      if (Known.contains(Renewed[Added].Id))
        continue;
      if (Before && !(Renewed[Added].Id < Before->Id))
        break;
      Add(Renewed[Added]);
    }
  };
  for (const GoldenItem &I : Old) {
    CopyTo(I.FirstLine - 1);
    AddBefore(&I);
    const GoldenItem *New = NewById.lookup(I.Id);
    if (!New && !Leaving.contains(I.Id)) {
      CopyTo(I.EndLine - 1);
      continue;
    }
    if (New)
      Add(*New);
    Next = I.EndLine - 1;
  }
  CopyTo(Lines.size());
  AddBefore(nullptr);
  return Out;
}

} // namespace culprit
