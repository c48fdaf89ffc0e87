//===- Prevention.cpp - Whether a prevention can be acted on ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// "Validate the model structure against the reference before hardcoding
/// defaults" can be done and can be seen to be done; "be more careful" and
/// "test better" cannot. The difference is not grammar: what makes an item
/// specific is something named besides the verb. So the words are taken away
/// that everybody agrees with (better, more, always, carefully, properly, ...)
/// and what remains must hold an action and at least two words for its object.
///
//===----------------------------------------------------------------------===//

#include "KB/Check.h"
#include "KB/Lexer.h"
#include "KB/WordForms.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include <array>

using namespace llvm;

namespace culprit {

static constexpr std::array<StringRef, 29> Wishes = {"be more careful",
                                                     "be careful",
                                                     "be careful with",
                                                     "pay attention",
                                                     "pay more attention",
                                                     "take care",
                                                     "take more care",
                                                     "keep in mind",
                                                     "be aware",
                                                     "be vigilant",
                                                     "stay vigilant",
                                                     "be more thorough",
                                                     "think before",
                                                     "think harder",
                                                     "think more",
                                                     "try harder",
                                                     "do better",
                                                     "avoid mistakes",
                                                     "avoid bugs",
                                                     "avoid this",
                                                     "avoid such",
                                                     "don't do this again",
                                                     "do not do this again",
                                                     "never do this again",
                                                     "make sure it works",
                                                     "write better code",
                                                     "remember to",
                                                     "remember that",
                                                     "watch out"};

// Words that make any sentence sound better and none more specific.
static constexpr std::array<StringRef, 58> Fillers = {
    "better",     "more",      "always",    "never",      "carefully",
    "careful",    "properly",  "correctly", "thoroughly", "closely",
    "well",       "good",      "best",      "next",       "time",
    "future",     "again",     "code",      "things",     "thing",
    "everything", "stuff",     "sure",      "make",       "ensure",
    "improve",    "improved",  "quality",   "practice",   "practices",
    "bug",        "bugs",      "issue",     "issues",     "problem",
    "problems",   "mistake",   "mistakes",  "error",      "errors",
    "similar",    "double",    "harder",    "earlier",    "soon",
    "early",      "often",     "regularly", "need",       "needed",
    "must",       "attention", "care",      "aware",      "testing",
    "coverage",   "happen",    "happens"};

// What one can do. Stems, as in `asserts`, `asserted`.
static constexpr std::array<StringRef, 112> Actions = {
    "abort",    "accept",      "add",       "alert",     "allocate", "alarm",
    "assert",   "audit",       "ban",       "bound",     "build",    "cap",
    "capture",  "catch",       "check",     "choose",    "clamp",    "clip",
    "compare",  "compile",     "compute",   "configure", "confirm",  "count",
    "crash",    "create",      "cut",       "decode",    "default",  "define",
    "delete",   "derive",      "detect",    "disable",   "document", "drop",
    "dump",     "enable",      "enforce",   "exit",      "expose",   "fail",
    "feed",     "fix",         "flag",      "forbid",    "freeze",   "gate",
    "generate", "golden",      "guard",     "hash",      "hold",     "init",
    "inspect",  "install",     "keep",      "launch",    "limit",    "lint",
    "list",     "load",        "log",       "mark",      "measure",  "monitor",
    "mount",    "name",        "normalize", "pass",      "pin",      "plot",
    "poll",     "preallocate", "prefer",    "print",     "probe",    "profile",
    "raise",    "read",        "record",    "refuse",    "reject",   "release",
    "replace",  "replay",      "report",    "require",   "reserve",  "restart",
    "retry",    "review",      "run",       "sample",    "save",     "scan",
    "schedule", "ship",        "size",      "start",     "stop",     "store",
    "swap",     "test",        "track",     "train",     "treat",    "use",
    "validate", "verify",      "warn",      "write"};

static constexpr std::array<StringRef, 24> MoreActions = {
    "call",  "put",   "set",   "share", "pad", "mask",  "shuffle", "seed",
    "wrap",  "warm",  "watch", "wait",  "do",  "give",  "take",    "move",
    "merge", "order", "apply", "time",  "tie", "route", "show",    "benchmark"};

static bool isAction(StringRef Stem) {
  static const StringSet<> Stems = [] {
    StringSet<> Out;
    for (StringRef Verb : Actions)
      Out.insert(stem(Verb));
    for (StringRef Verb : MoreActions)
      Out.insert(stem(Verb));
    return Out;
  }();
  return Stems.contains(Stem);
}

std::string preventionObjection(StringRef Item) {
  std::vector<Word> Words = lex(Item);
  std::string Plain;
  for (const Word &W : Words)
    Plain += (Plain.empty() ? "" : " ") + StringRef(W.Text).lower();

  size_t Objects = 0;
  bool Acts = false, Names = Item.contains('`');
  for (const Word &W : Words) {
    if (W.K == Word::Kind::Han) {
      // No lexicon for these; a sentence of some length is taken on trust.
      Objects += W.Text.size() / 9;
      Acts = true;
      continue;
    }
    Names |= W.K == Word::Kind::Number;
    std::string Lower = StringRef(W.Text).lower();
    std::string Stem = stem(Lower);
    bool Action = isAction(Stem);
    Acts |= Action;
    bool Telling = Lower.size() > 1 && Lower != "don't"; // "Don't do X"
    if (Telling && !Action && !isStopWord(Lower) &&
        !is_contained(Fillers, Lower))
      ++Objects;
  }
  for (StringRef Wish : Wishes) {
    bool Whole = StringRef(Plain).starts_with(Wish);
    // "Be careful with X: assert Y" is still specific.
    if (Whole && Objects < 4 && !Names)
      return "is a wish, not an action";
  }
  if (Names)
    return {};
  if (Objects == 0)
    return Acts ? "names no object: it says to act, not on what"
                : "names nothing to do";
  if (Objects < 2 && Words.size() < 5)
    return "is too short to act on";
  if (!Acts && Objects < 4)
    return "names no action that one could do or see done";
  return {};
}

} // namespace culprit
