//===- LogMatcher.cpp -------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Fragments are cut at `...` into pieces; all pieces of all fragments go into
/// one Aho-Corasick automaton, which is run over each line once. A fragment
/// matches a line when its pieces were seen in their order without overlap.
///
/// Numbers: lines are folded before matching, every run of digits to one `0`
/// (with a fraction: `0.0` is again folded to `0`). Fragments are folded in
/// the same way, except where the number is the message. Such a piece goes to
/// a second automaton over the unfolded line, as `Xid 79` must not match
/// `Xid 13`.
///
//===----------------------------------------------------------------------===//

#include "KB/LogMatcher.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include <algorithm>
#include <array>
#include <map>

using namespace llvm;

namespace culprit {

/// Where the number that begins at \p I ends: `12`, `1.5`, `4,096`.
static size_t endOfNumber(StringRef S, size_t I) {
  while (I < S.size() &&
         (isDigit(S[I]) || ((S[I] == '.' || S[I] == ',') && I + 1 < S.size() &&
                            isDigit(S[I + 1]))))
    ++I;
  return I;
}

std::string foldNumbers(StringRef S) {
  std::string Out;
  for (size_t I = 0; I < S.size();) {
    if (!isDigit(S[I])) {
      Out += S[I++];
      continue;
    }
    I = endOfNumber(S, I);
    Out += '0';
  }
  return Out;
}

/// The place in \p S of place \p End of its folded form.
static size_t unfolded(StringRef S, size_t End) {
  size_t I = 0;
  for (; End && I < S.size(); --End)
    I = isDigit(S[I]) ? endOfNumber(S, I) : I + 1;
  return I;
}

/// Whether a number of \p Lower is the message itself: it belongs to a word
/// (`fp16`, `sm_90`), or one that says so stands before it.
static bool numbersMatter(StringRef Lower) {
  static constexpr std::array<StringRef, 9> Words = {
      "error",  "code", "xid",     "signal",    "errno",
      "status", "exit", "version", "capability"};
  for (size_t I = 0; I < Lower.size(); ++I) {
    if (!isDigit(Lower[I]) || (I && (isDigit(Lower[I - 1]))))
      continue;
    if (I && (isAlpha(Lower[I - 1]) || Lower[I - 1] == '_'))
      return true;
    StringRef Before = Lower.take_front(I).rtrim(" :=(#");
    for (StringRef Word : Words)
      if (Before.ends_with(Word))
        return true;
  }
  // Nothing but the number: 2147483648.
  return !any_of(Lower, [](char C) { return isAlpha(C); });
}

namespace {

/// An Aho-Corasick automaton over bytes.
class Automaton {
public:
  /// Adds \p Text; it is reported as \p Id.
  void add(StringRef Text, unsigned Id) {
    unsigned At = 0;
    for (char C : Text) {
      unsigned Next = child(At, C);
      if (!Next) {
        Next = Nodes.size();
        Nodes.emplace_back();
        Nodes[At].Children.push_back({C, Next});
      }
      At = Next;
    }
    Nodes[At].Ids.push_back(Id);
  }

  /// Links each node to the longest suffix that is a node too.
  void finish() {
    std::vector<unsigned> Queue = {0};
    for (size_t I = 0; I < Queue.size(); ++I) {
      unsigned At = Queue[I];
      for (auto [C, Next] : Nodes[At].Children) {
        unsigned Link = At ? Nodes[At].Link : 0;
        while (Link && !child(Link, C))
          Link = Nodes[Link].Link;
        unsigned Target = child(Link, C);
        Nodes[Next].Link = Target == Next ? 0 : Target;
        append_range(Nodes[Next].Ids, Nodes[Nodes[Next].Link].Ids);
        Queue.push_back(Next);
      }
    }
  }

  /// Calls \p Found with the id and the end of every occurrence in \p Text.
  template <typename Function> void scan(StringRef Text, Function Found) const {
    if (Nodes.size() == 1)
      return;
    unsigned At = 0;
    for (size_t I = 0; I < Text.size(); ++I) {
      unsigned Next;
      while (!(Next = child(At, Text[I])) && At)
        At = Nodes[At].Link;
      At = Next;
      for (unsigned Id : Nodes[At].Ids)
        Found(Id, I + 1);
    }
  }

private:
  struct Node {
    SmallVector<std::pair<char, unsigned>, 2> Children;
    SmallVector<unsigned, 1> Ids;
    unsigned Link = 0;
  };

  unsigned child(unsigned At, char C) const {
    for (auto [Byte, Next] : Nodes[At].Children)
      if (Byte == C)
        return Next;
    return 0;
  }

  std::vector<Node> Nodes = std::vector<Node>(1);
};

struct Piece {
  unsigned Pattern;
  unsigned Order; ///< Within the fragment.
  unsigned Length;
};

struct Pattern {
  unsigned Entry, Fragment, Pieces;
};

} // namespace

struct LogMatcher::State {
  std::vector<Pattern> Patterns;
  std::vector<Piece> Pieces;
  Automaton Folded, Exact;

  void add(unsigned Entry, unsigned Fragment, StringRef Text) {
    LogPieces Cut = logPieces(Text);
    if (Cut.Pieces.empty())
      return;
    unsigned Index = Patterns.size(), Order = 0;
    for (const std::string &Piece : Cut.Pieces) {
      (Cut.Exact ? Exact : Folded).add(Piece, Pieces.size());
      Pieces.push_back({Index, Order++, static_cast<unsigned>(Piece.size())});
    }
    Patterns.push_back({Entry, Fragment, Order});
  }

  void finish() {
    Folded.finish();
    Exact.finish();
  }
};

LogPieces logPieces(StringRef Fragment) {
  std::string Lower = Fragment.lower();
  LogPieces Out;
  Out.Exact = numbersMatter(Lower) && any_of(Lower, isDigit);
  for (size_t At; (At = Lower.find("…")) != std::string::npos;)
    Lower.replace(At, 3, "...");
  SmallVector<StringRef, 4> Parts;
  StringRef(Lower).split(Parts, "...", -1, false);
  size_t Letters = 0;
  for (StringRef Part : Parts) {
    Part = Part.trim();
    Letters += Part.size();
    if (!Part.empty())
      Out.Pieces.push_back(Out.Exact ? Part.str() : foldNumbers(Part));
  }
  if (Letters < LogMatcher::MinFragment)
    Out.Pieces.clear();
  return Out;
}

LogMatcher::LogMatcher(ArrayRef<Entry> Entries) {
  std::unique_ptr<State> New = std::make_unique<State>();
  for (unsigned E = 0; E < Entries.size(); ++E)
    for (unsigned F = 0; F < Entries[E].LogFragments.size(); ++F)
      New->add(E, F, Entries[E].LogFragments[F]);
  New->finish();
  S = std::move(New);
}

LogMatcher::LogMatcher(ArrayRef<LogFragment> Fragments) {
  std::unique_ptr<State> New = std::make_unique<State>();
  for (const LogFragment &F : Fragments)
    New->add(F.Entry, F.Fragment, F.Text);
  New->finish();
  S = std::move(New);
}

LogMatcher::LogMatcher(LogMatcher &&) noexcept = default;
LogMatcher &LogMatcher::operator=(LogMatcher &&) noexcept = default;
LogMatcher::~LogMatcher() = default;

/// Whether \p Rest, what stands behind a fragment, says how often it came, and
/// that it never did: "uncorrectable ECC error encountered: 0".
static bool isCountOfNone(StringRef Rest) {
  Rest = Rest.ltrim("'\"` ");
  if (!Rest.consume_front(":") && !Rest.consume_front("="))
    return false;
  Rest = Rest.ltrim();
  return Rest.consume_front("0") &&
         (Rest.empty() || !(isAlnum(Rest.front()) || Rest.front() == '.'));
}

std::vector<LogMatch> LogMatcher::match(ArrayRef<StringRef> Lines) const {
  std::map<unsigned, LogMatch> Found; // By pattern, so in order.
  // The pieces of a pattern seen on this line, and where the last one ended.
  struct Progress {
    unsigned Line = ~0u, Next = 0;
    size_t End = 0;
  };
  std::vector<Progress> Seen(S->Patterns.size());
  for (unsigned L = 0; L < Lines.size(); ++L) {
    const std::string Lower = Lines[L].lower();
    auto See = [&](unsigned Id, size_t End, bool IsFolded) {
      const Piece &P = S->Pieces[Id];
      Progress &Now = Seen[P.Pattern];
      if (Now.Line != L)
        Now = {L, 0, 0};
      if (P.Order != Now.Next || End < Now.End + P.Length)
        return;
      Now.End = End;
      const Pattern &Whole = S->Patterns[P.Pattern];
      if (++Now.Next != Whole.Pieces ||
          isCountOfNone(StringRef(Lower).substr(
              IsFolded ? unfolded(Lower, End) : End)))
        return;
      LogMatch &M = Found[P.Pattern];
      M.Entry = Whole.Entry;
      M.Fragment = Whole.Fragment;
      if (M.Count++ < MaxLines)
        M.Lines.push_back(L);
    };
    S->Exact.scan(Lower, [&](unsigned Id, size_t End) { See(Id, End, false); });
    S->Folded.scan(foldNumbers(Lower),
                   [&](unsigned Id, size_t End) { See(Id, End, true); });
  }
  std::vector<LogMatch> Out;
  for (auto &[Index, M] : Found)
    Out.push_back(std::move(M));
  return Out;
}

std::vector<LogMatch> LogMatcher::match(StringRef Text) const {
  SmallVector<StringRef, 64> Lines;
  Text.split(Lines, '\n');
  return match(Lines);
}

} // namespace culprit
