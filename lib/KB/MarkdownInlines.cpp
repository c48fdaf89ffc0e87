//===- MarkdownInlines.cpp --------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/MarkdownInlines.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include <algorithm>
#include <array>
#include <optional>

using namespace llvm;

namespace culprit {

using Kind = MarkdownNode::Kind;

static bool isSpecial(char C) {
  static constexpr std::array<bool, 256> Table = [] {
    std::array<bool, 256> T = {};
    for (unsigned char S : {'\n', '`', '\\', '&', '<', '*', '_', '[', ']', '!'})
      T[S] = true;
    return T;
  }();
  return Table[static_cast<unsigned char>(C)];
}

/// Of ASCII, as CommonMark has it.
static bool isMark(char C) { return isPrint(C) && C != ' ' && !isAlnum(C); }

namespace {

/// A run of `*` or `_` that may open or close emphasis.
struct Delimiter {
  MarkdownNode *Node;
  char Sign;
  bool Opens, Closes;
  size_t End;    ///< Offset behind the run.
  size_t Length; ///< Of the run as written.
  int Before, After; ///< The neighbours that are left; -1 for none.
};

/// The parser of one block. The order of steps is that of cmark, since what
/// is emphasis is defined by them.
class InlineParser {
public:
  InlineParser(StringRef Text, MarkdownNode &Block, BumpPtrAllocator &Memory)
      : T(Text.rtrim(" \t\n\v\f\r")), Block(Block), Memory(Memory) {}

  bool run() {
    while (At < T.size())
      if (!step()) {
        Block.First = Block.Last = nullptr;
        return false;
      }
    if (LastDelimiter >= 0)
      emphasis();
    join(Block);
    return true;
  }

private:
  char peek(size_t I) const { return I < T.size() ? T[I] : '\0'; }

  MarkdownNode *make(Kind K, StringRef Text = "") {
    MarkdownNode *N = new (Memory) MarkdownNode;
    N->K = K;
    N->Text = Text;
    return N;
  }

  /// Adds text, to the node before if it is one and goes on here.
  void text(StringRef S) {
    MarkdownNode *L = Block.Last;
    if (L && L->K == Kind::Text && L != LastRun &&
        (S.empty() || L->Text.end() == S.begin())) {
      if (!S.empty())
        L->Text = StringRef(L->Text.begin(), L->Text.size() + S.size());
      return;
    }
    Block.append(make(Kind::Text, S));
  }

  bool step() {
    size_t Begin = At;
    char C = T[At];
    switch (C) {
    case '\n':
      newline();
      return true;
    case '`':
      return backticks();
    case '\\':
      backslash();
      return true;
    case '&': {
      // `&amp;` and `&#35;`.
      size_t End = T.find_if_not(
          [](char C) { return isAlnum(C) || C == '#'; }, At + 1);
      if (peek(End) == ';')
        return false;
      break;
    }
    case '<':
      // A tag or an address.
      if (isAlpha(peek(At + 1)) || StringRef("/!?").contains(peek(At + 1)) ||
          hasMail())
        return false;
      break;
    case ']':
      if (peek(At + 1) == '(')
        return false;
      break;
    case '*':
    case '_':
      return run(C);
    case '[':
    case '!':
      break;
    default:
      while (At < T.size() && !isSpecial(T[At]))
        ++At;
      StringRef S = T.slice(Begin, At);
      text(peek(At) == '\n' ? S.rtrim(" \t\v\f\r") : S);
      return true;
    }
    ++At;
    text(T.slice(Begin, At));
    return true;
  }

  /// Whether an address of electronic mail may stand in angle brackets.
  bool hasMail() {
    if (!Mail)
      Mail = T.contains('@');
    return *Mail;
  }

  void newline() {
    bool Hard = At > 1 && T[At - 1] == ' ' && T[At - 2] == ' ';
    ++At;
    while (peek(At) == ' ' || peek(At) == '\t')
      ++At;
    Block.append(make(Hard ? Kind::LineBreak : Kind::SoftBreak));
  }

  void backslash() {
    char C = peek(++At);
    if (C != '\0' && isMark(C)) {
      text(T.slice(At, At + 1));
      ++At;
    } else if (C == '\n') {
      ++At;
      Block.append(make(Kind::LineBreak));
    } else {
      text(T.slice(At - 1, At));
    }
  }

  bool backticks() {
    size_t Begin = At;
    while (peek(At) == '`')
      ++At;
    size_t Size = At - Begin;
    for (size_t End = At;;) {
      size_t Close = T.find('`', End);
      if (Close == StringRef::npos)
        return false; // Never closed; what that means is involved.
      End = std::min(T.find_first_not_of('`', Close), T.size());
      if (End - Close != Size)
        continue;
      Block.append(make(Kind::Code, codeText(T.slice(At, Close))));
      At = End;
      return true;
    }
  }

  StringRef codeText(StringRef S) {
    if (S.contains('\n')) {
      char *Copy = Memory.Allocate<char>(S.size());
      std::replace_copy(S.begin(), S.end(), Copy, '\n', ' ');
      S = StringRef(Copy, S.size());
    }
    bool Padded = S.starts_with(" ") && S.ends_with(" ") &&
                  S.find_first_not_of(' ') != StringRef::npos;
    return Padded ? S.drop_front().drop_back() : S;
  }

  bool run(char Sign) {
    size_t Begin = At;
    while (peek(At) == Sign)
      ++At;
    char Before = Begin ? T[Begin - 1] : '\n';
    char After = At < T.size() ? T[At] : '\n';
    if ((Before & 0x80) || (After & 0x80))
      return false;
    auto IsSpace = [](char C) {
      return C == ' ' || C == '\t' || C == '\n' || C == '\f' || C == '\r';
    };
    bool SpaceBefore = IsSpace(Before), SpaceAfter = IsSpace(After);
    bool MarkBefore = isMark(Before), MarkAfter = isMark(After);
    bool Left = !SpaceAfter && (!MarkAfter || SpaceBefore || MarkBefore);
    bool Right = !SpaceBefore && (!MarkBefore || SpaceAfter || MarkAfter);
    bool Opens = Left, Closes = Right;
    if (Sign == '_') {
      Opens = Left && (!Right || MarkBefore);
      Closes = Right && (!Left || MarkAfter);
    }
    StringRef S = T.slice(Begin, At);
    if (!Opens && !Closes) {
      text(S);
      return true;
    }
    LastRun = make(Kind::Text, S);
    Block.append(LastRun);
    int Index = static_cast<int>(Delimiters.size());
    Delimiters.push_back(
        {LastRun, Sign, Opens, Closes, At, S.size(), LastDelimiter, -1});
    if (LastDelimiter >= 0)
      Delimiters[static_cast<size_t>(LastDelimiter)].After = Index;
    LastDelimiter = Index;
    return true;
  }

  Delimiter &delimiter(int I) { return Delimiters[static_cast<size_t>(I)]; }

  void drop(int I) {
    Delimiter &D = delimiter(I);
    if (D.Before >= 0)
      delimiter(D.Before).After = D.After;
    if (D.After >= 0)
      delimiter(D.After).Before = D.Before;
  }

  void emphasis() {
    // Below these offsets no opener is left, by the sort of closer.
    std::array<size_t, 7> Bottom = {};
    for (int Closer = 0; Closer >= 0;) {
      Delimiter &C = delimiter(Closer);
      if (!C.Closes) {
        Closer = C.After;
        continue;
      }
      size_t &Least =
          Bottom[C.Sign == '_' ? 0 : 1 + (C.Opens ? 3 : 0) + C.Length % 3];
      int Opener = C.Before;
      for (; Opener >= 0 && delimiter(Opener).End >= Least;
           Opener = delimiter(Opener).Before) {
        const Delimiter &O = delimiter(Opener);
        if (O.Opens && O.Sign == C.Sign &&
            (!(C.Opens || O.Closes) || C.Length % 3 == 0 ||
             (O.Length + C.Length) % 3 != 0))
          break;
      }
      if (Opener >= 0 && delimiter(Opener).End >= Least) {
        Closer = wrap(Opener, Closer);
        continue;
      }
      int After = C.After;
      Least = C.End;
      if (!C.Opens)
        drop(Closer);
      Closer = After;
    }
  }

  /// Puts what stands between two runs into emphasis; the closer to go on with.
  int wrap(int Opener, int Closer) {
    Delimiter &O = delimiter(Opener), &C = delimiter(Closer);
    size_t Used = O.Node->Text.size() >= 2 && C.Node->Text.size() >= 2 ? 2 : 1;
    O.Node->Text = O.Node->Text.drop_back(Used);
    C.Node->Text = C.Node->Text.drop_back(Used);
    O.After = Closer;
    C.Before = Opener;
    MarkdownNode *E = make(Used == 1 ? Kind::Emphasis : Kind::Strong);
    if (O.Node->Next != C.Node) {
      E->First = O.Node->Next;
      E->Last = C.Node->Previous;
      E->First->Previous = E->Last->Next = nullptr;
    }
    O.Node->Next = C.Node->Previous = E;
    E->Previous = O.Node;
    E->Next = C.Node;
    if (O.Node->Text.empty()) {
      Block.remove(O.Node);
      drop(Opener);
    }
    if (!C.Node->Text.empty())
      return Closer;
    Block.remove(C.Node);
    int After = C.After;
    drop(Closer);
    return After;
  }

  /// Joins neighbouring texts below \p Top.
  void join(MarkdownNode &Top) {
    SmallVector<MarkdownNode *, 8> Stack = {&Top};
    while (!Stack.empty()) {
      MarkdownNode *P = Stack.pop_back_val();
      for (MarkdownNode *N = P->First; N; N = N->Next) {
        if (N->First)
          Stack.push_back(N);
        if (N->K == Kind::Text && N->Next && N->Next->K == Kind::Text)
          joinFrom(*P, *N);
      }
    }
  }

  void joinFrom(MarkdownNode &P, MarkdownNode &N) {
    MarkdownNode *End = N.Next;
    size_t Size = N.Text.size();
    for (; End && End->K == Kind::Text; End = End->Next)
      Size += End->Text.size();
    char *Copy = Memory.Allocate<char>(Size), *To = Copy;
    for (MarkdownNode *M = &N; M != End; M = M->Next)
      To = std::copy(M->Text.begin(), M->Text.end(), To);
    N.Text = StringRef(Copy, Size);
    N.Next = End;
    (End ? End->Previous : P.Last) = &N;
  }

  StringRef T;
  MarkdownNode &Block;
  BumpPtrAllocator &Memory;
  size_t At = 0;
  std::optional<bool> Mail;
  SmallVector<Delimiter, 16> Delimiters;
  int LastDelimiter = -1;
  MarkdownNode *LastRun = nullptr;
};

} // namespace

bool parsePlainInlines(StringRef Text, MarkdownNode &Block,
                       BumpPtrAllocator &Memory) {
  return InlineParser(Text, Block, Memory).run();
}

} // namespace culprit
