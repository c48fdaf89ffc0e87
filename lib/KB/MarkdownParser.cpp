//===- MarkdownParser.cpp ---------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/MarkdownParser.h"
#include "KB/MarkdownInlines.h"
#include "KB/MarkdownLines.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include <algorithm>

using namespace llvm;

namespace culprit {

using Kind = MarkdownNode::Kind;

static constexpr StringLiteral ByteOrderMark = "\xEF\xBB\xBF";

static StringRef withoutIndent(StringRef Line) { return Line.ltrim(" \t"); }

/// Of four columns or more, where no block can begin inside of a paragraph.
static bool isDeep(StringRef Line) {
  StringRef Indent = Line.drop_back(withoutIndent(Line).size());
  return Indent.size() >= 4 || Indent.contains('\t');
}

namespace {

class BlockParser {
public:
  BlockParser(StringRef Text, MarkdownVisitor Each) : T(Text), Each(Each) {}

  void run() {
    while (At < T.size()) {
      StringRef L = lineAt(At);
      if (withoutIndent(L).empty())
        next(At, Line);
      else if (!block(L))
        foreign();
      Memory.Reset();
    }
  }

private:
  StringRef lineAt(size_t Begin) const {
    return T.slice(Begin, std::min(T.find('\n', Begin), T.size()));
  }
  /// Goes to the line after the one that begins at \p Begin.
  void next(size_t &Begin, unsigned &Number) const {
    Begin = std::min(T.find('\n', Begin), T.size() - 1) + 1;
    ++Number;
  }

  MarkdownNode *make(Kind K, unsigned From) {
    MarkdownNode *N = new (Memory) MarkdownNode;
    N->K = K;
    N->Line = N->LastLine = From;
    return N;
  }

  /// Reads the block that begins with \p L; false when it is none of those
  /// that are known here.
  bool block(StringRef L) {
    switch (lineStart(L)) {
    case LineStart::Text:
      return paragraph();
    case LineStart::Heading:
      heading(L);
      return true;
    case LineStart::Bullet:
    case LineStart::Number:
      return list();
    case LineStart::Fence:
      return fence(L);
    case LineStart::Rule:
      rule();
      return true;
    case LineStart::Other:
      return false;
    }
    return false;
  }

  /// Gives out a block that ends before \p End, or, when \p Known is false,
  /// what cmark makes of its text.
  void give(MarkdownNode &N, bool Known, size_t End) {
    if (Known)
      return Each(N);
    parse(End, [&](MarkdownNode &Other) {
      Other.LastLine = N.LastLine;
      Each(Other);
    });
  }

  void skipEmpty(size_t &Begin, unsigned &Number) const {
    while (Begin < T.size() && withoutIndent(lineAt(Begin)).empty())
      next(Begin, Number);
  }

  void rule() {
    MarkdownNode *R = make(Kind::Rule, Line);
    next(At, Line);
    skipEmpty(At, Line); // They belong to it, as to a list.
    R->LastLine = Line - 1;
    Each(*R);
  }

  void heading(StringRef L) {
    MarkdownNode *H = make(Kind::Heading, Line);
    StringRef Whole = L.rtrim(" \t\n\v\f\r");
    size_t Level = Whole.size() - Whole.ltrim('#').size();
    // Signs behind it are no part of it.
    StringRef Bare = Whole.rtrim('#');
    if (Bare.size() < Whole.size() && !Bare.empty() &&
        (Bare.back() == ' ' || Bare.back() == '\t'))
      Whole = Bare.rtrim(" \t\n\v\f\r");
    H->Number = static_cast<int>(Level);
    size_t End = At;
    unsigned Number = Line;
    next(End, Number);
    StringRef Title =
        withoutIndent(Whole.drop_front(std::min(Level, Whole.size())));
    give(*H, parsePlainInlines(Title, *H, Memory), End);
    At = End;
    Line = Number;
  }

  /// The lines of \p Lines as one text.
  StringRef content(ArrayRef<StringRef> Lines) {
    bool Together = true;
    size_t Size = 0;
    for (size_t I = 0; I < Lines.size(); ++I) {
      Size += Lines[I].size() + 1;
      Together &= I == 0 || Lines[I].begin() == Lines[I - 1].end() + 1;
    }
    if (Together)
      return StringRef(Lines.front().begin(),
                       static_cast<size_t>(Lines.back().end() -
                                           Lines.front().begin()));
    char *Copy = Memory.Allocate<char>(Size), *To = Copy;
    for (StringRef L : Lines) {
      To = std::copy(L.begin(), L.end(), To);
      *To++ = '\n';
    }
    return StringRef(Copy, Size);
  }

  bool paragraph() {
    size_t End = At;
    unsigned Number = Line;
    Lines.assign(1, lineAt(At));
    for (next(End, Number); End < T.size(); next(End, Number)) {
      StringRef L = lineAt(End), Bare = withoutIndent(L);
      if (Bare.empty())
        break;
      bool Indented = Bare.size() < L.size();
      LineStart S = isDeep(L) ? LineStart::Text : lineStart(Bare);
      if (S == LineStart::Number && itemStart(Bare).Number != 1)
        S = LineStart::Text; // Any other number is part of the sentence.
      if (S == LineStart::Other || S == LineStart::Rule ||
          (Indented && S != LineStart::Text))
        return false;
      if (S != LineStart::Text)
        break;
      Lines.push_back(Bare);
    }
    MarkdownNode *P = make(Kind::Paragraph, Line);
    P->LastLine = Number - 1;
    give(*P, parsePlainInlines(content(Lines), *P, Memory), End);
    At = End;
    Line = Number;
    return true;
  }

  /// Reads the paragraph of an item from the line at \p Pos on. False when
  /// there is more in the item, or may be.
  bool item(MarkdownNode &List, char Sign, size_t &Pos, unsigned &Number,
            bool &Known) {
    ItemStart Start = itemStart(lineAt(Pos));
    if (Start.Text.empty() || Start.Sign != Sign)
      return false;
    MarkdownNode *I = make(Kind::Item, Number);
    MarkdownNode *P = make(Kind::Paragraph, Number);
    List.append(I);
    I->append(P);
    size_t Indent = static_cast<size_t>(Start.Text.begin() - T.begin()) - Pos;
    Lines.assign(1, Start.Text);
    for (next(Pos, Number); Pos < T.size(); next(Pos, Number)) {
      StringRef L = lineAt(Pos), Bare = withoutIndent(L);
      if (Bare.empty())
        break;
      LineStart S = lineStart(Bare);
      if (S == LineStart::Other || S == LineStart::Rule ||
          (Bare.size() < L.size() && S != LineStart::Text))
        return false;
      if (S != LineStart::Text)
        break;
      // A line that is not indented as the item is keeps its blanks.
      StringRef Blanks = L.drop_back(Bare.size());
      if (Blanks.contains('\t'))
        return false;
      Lines.push_back(Blanks.size() < Indent ? L : Bare);
    }
    Known = Known && parsePlainInlines(content(Lines), *P, Memory);
    return true;
  }

  bool list() {
    MarkdownNode *List = make(Kind::List, Line);
    ItemStart Start = itemStart(lineAt(At));
    List->Ordered = Start.Sign == '.' || Start.Sign == ')';
    List->Number = Start.Number;
    size_t Pos = At, End = At;
    unsigned Number = Line;
    bool Known = true;
    while (true) {
      if (!item(*List, Start.Sign, Pos, Number, Known))
        return false;
      End = Pos;
      skipEmpty(Pos, Number);
      if (Pos == T.size())
        break;
      LineStart S = lineStart(lineAt(Pos));
      if (S == LineStart::Other)
        return false;
      if ((S != LineStart::Bullet && S != LineStart::Number) ||
          itemStart(lineAt(Pos)).Sign != Start.Sign)
        break;
    }
    List->LastLine = Number - 1;
    give(*List, Known, End);
    At = Pos;
    Line = Number;
    return true;
  }

  bool fence(StringRef L) {
    char Sign = L.front();
    StringRef Info = L.ltrim(Sign);
    size_t Length = L.size() - Info.size();
    if (Length > 255 || Info.contains('&') || Info.contains('\\'))
      return false;
    size_t Pos = At;
    unsigned Number = Line;
    next(Pos, Number);
    for (size_t Begin = Pos; Pos < T.size();) {
      StringRef Close = lineAt(Pos);
      size_t Lines = Pos;
      next(Pos, Number);
      StringRef Bare = Close.ltrim(' ');
      StringRef Rest = Bare.ltrim(Sign);
      bool Closes = Close.size() - Bare.size() <= 3 &&
                    Bare.size() - Rest.size() >= Length &&
                    withoutIndent(Rest).empty();
      if (!Closes)
        continue;
      MarkdownNode *C = make(Kind::CodeBlock, Line);
      C->Info = Info.trim(" \t\n\v\f\r");
      C->Text = T.slice(Begin, Lines);
      C->LastLine = Number - 1;
      Each(*C);
      At = Pos;
      Line = Number;
      return true;
    }
    return false;
  }

  /// Leaves what begins here to cmark, up to a heading that nothing open can
  /// swallow, as cmark itself finds: it must stand in the document, not in a
  /// fence or in HTML.
  void foreign() {
    for (size_t Least = 1;; Least *= 2) {
      size_t Heading = At + Least - 1;
      do
        Heading = T.find("\n#", Heading + 1);
      while (Heading != StringRef::npos &&
             lineStart(lineAt(Heading + 1)) != LineStart::Heading);
      if (Heading == StringRef::npos)
        return rest();
      size_t Begin = Heading + 1, End = Begin;
      unsigned Number =
          Line + static_cast<unsigned>(T.slice(At, Begin).count('\n'));
      unsigned Ignored = 0;
      next(End, Ignored);
      SmallVector<MarkdownNode *, 16> Blocks;
      parse(End, [&](MarkdownNode &N) { Blocks.push_back(&N); });
      MarkdownNode *Last = Blocks.empty() ? nullptr : Blocks.back();
      if (Last && Last->K == Kind::Heading && Last->Line == Number) {
        for (MarkdownNode *N : ArrayRef(Blocks).drop_back())
          Each(*N);
        At = Begin;
        Line = Number;
        return;
      }
      Least = std::max(Least, Begin - At);
      Memory.Reset();
    }
  }

  void rest() {
    parse(T.size(), [&](MarkdownNode &N) {
      Each(N);
      Memory.Reset();
    });
    At = T.size();
  }

  /// Parses the text up to \p End by cmark.
  void parse(size_t End, MarkdownVisitor Visit) {
    StringRef Text = T.slice(At, End);
    std::string Guarded;
    unsigned Before = Line - 1;
    if (At && Text.starts_with(ByteOrderMark)) {
      // A mark that is none here would be dropped.
      Guarded = "\n" + Text.str();
      Text = Guarded;
      --Before;
    }
    forEachBlockOfCmark(Text, Before, Memory, Visit);
  }

  StringRef T;
  MarkdownVisitor Each;
  size_t At = 0;
  unsigned Line = 1; ///< Of the text at At.
  BumpPtrAllocator Memory;
  SmallVector<StringRef, 16> Lines; ///< Of the paragraph that is read.
};

} // namespace

void forEachBlock(StringRef Text, bool Valid, MarkdownVisitor Each) {
  std::string Plain;
  if (Text.contains('\r')) { // Every end of line as one character.
    Plain.reserve(Text.size());
    for (size_t I = 0; I < Text.size(); ++I) {
      if (Text[I] == '\n' && I && Text[I - 1] == '\r')
        continue;
      Plain += Text[I] == '\r' ? '\n' : Text[I];
    }
    Text = Plain;
  }
  if (Valid && !Text.starts_with(ByteOrderMark) && !mayDefineLinks(Text))
    return BlockParser(Text, Each).run();
  BumpPtrAllocator Memory;
  forEachBlockOfCmark(Text, 0, Memory, [&](MarkdownNode &N) {
    Each(N);
    Memory.Reset();
  });
}

} // namespace culprit
