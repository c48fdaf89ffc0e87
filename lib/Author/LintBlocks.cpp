//===- LintBlocks.cpp - Where an `end` is missing ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Lua tells where it could not go on, which is often far below the block that
// lacks its `end`. How lines are indented tells which one that is.
//
//===----------------------------------------------------------------------===//

#include "LintPass.h"
#include <tuple>

using namespace llvm;

namespace culprit {

namespace {

/// A block or a bracket that is open.
struct Opener {
  StringRef Word, Closer;
  unsigned Line;
  size_t Indent; ///< Of its line.
};

} // namespace

/// The blanks that the line of \p T begins with, and whether \p T is the first
/// word of that line.
static std::pair<size_t, bool> indentOf(const LuaToken &T, StringRef Source) {
  size_t At = static_cast<size_t>(T.Source.data() - Source.data());
  size_t Begin = Source.take_front(At).rfind('\n') + 1; // npos + 1 is 0
  size_t First = std::min(Source.find_first_not_of(" \t", Begin), At);
  return {First - Begin, First == At};
}

/// What closes the block that \p T opens; empty for none. The `do` of a loop
/// belongs to its `for` or `while`.
static StringRef closerOf(const LuaToken &T, bool InLoopHead) {
  if (T.is("function") || T.is("if") || T.is("for") || T.is("while"))
    return "end";
  if (T.is("do"))
    return InLoopHead ? "" : "end";
  if (T.is("repeat"))
    return "until";
  return T.is("(") ? ")" : T.is("{") ? "}" : T.is("[") ? "]" : "";
}

static std::string missing(const Opener &Block) {
  return ("'" + Block.Word + "' of line " + Twine(Block.Line) + " has no '" +
          Block.Closer + "'")
      .str();
}

std::string unclosedBlock(ArrayRef<LuaToken> Tokens, StringRef Source) {
  std::vector<Opener> Open;
  bool InLoopHead = false;
  unsigned Line = 0; // of the token before
  size_t Indent = 0;
  for (const LuaToken &T : Tokens) {
    if (T.Kind == LuaToken::End)
      break;
    // Looked for once a line: a line may be as long as the file.
    bool First = false;
    if (T.Line != Line)
      std::tie(Indent, First) = indentOf(T, Source);
    Line = T.Line;
    StringRef Closer = closerOf(T, InLoopHead);
    if (T.is("for") || T.is("while"))
      InLoopHead = true;
    else if (T.is("do"))
      InLoopHead = false;
    if (!Closer.empty()) {
      Open.push_back({T.Source, Closer, T.Line, Indent});
      continue;
    }
    if (!T.is("end") && !T.is("until") && !T.is(")") && !T.is("}") &&
        !T.is("]"))
      continue;
    if (Open.empty())
      return ("'" + T.Source + "' of line " + Twine(T.Line) +
              " closes nothing")
          .str();
    if (Open.back().Closer != T.Source)
      return missing(Open.back());
    // An `end` further left than its block is that of a block around it.
    if (T.is("end") && First && Indent < Open.back().Indent)
      return missing(Open.back());
    Open.pop_back();
  }
  return Open.empty() ? "" : missing(Open.back());
}

} // namespace culprit
