//===- Observation.cpp - Whether a sentence says anything --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// "It does not work" tells the next reader nothing, and neither does "fixed
/// the bug". Both are refused by what remains when the words are taken away
/// that fit any issue: a number, a name in code or one word that does not.
///
//===----------------------------------------------------------------------===//

#include "KB/Check.h"
#include "KB/Lexer.h"
#include "KB/WordForms.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace culprit {

// What can be said of every fault.
static constexpr StringRef Vague[] = {
    "work",     "broken",   "break",     "bug",      "bad",      "badly",
    "wrong",    "wrongly",  "weird",     "strange",  "odd",      "issue",
    "problem",  "error",    "fail",      "failure",  "failed",   "failing",
    "training", "train",    "model",     "code",     "run",      "job",
    "thing",    "something", "anything", "everything", "nothing", "stuff",
    "properly", "correctly", "expected", "unexpected", "behavior",
    "behaviour", "unexpectedly", "happen", "happens", "does",    "doesn",
    "didn",     "isn",      "goes",      "went",     "get",      "got",
    "just",     "still",    "again",     "sometimes", "randomly", "hell",
    "program",  "script",   "system",    "poor",     "poorly",   "terrible",
    "quality",  "performance", "good",   "enough",   "mess",     "messed",
    "look",     "looks",    "seems",     "output",   "outputs",  "answer",
    "answers",  "result",   "results"};

// What every fix is called.
static constexpr StringRef Called[] = {
    "fix",    "fixed",   "fixes",   "solve",   "solved",  "resolve",
    "resolved", "change", "changed", "update", "updated", "correct",
    "corrected", "correctly", "bug", "issue",  "problem", "error",
    "code",   "thing",   "stuff",   "work",    "works",   "working",
    "now",    "properly", "repair", "repaired", "patch",  "patched",
    "improve", "improved", "adjust", "adjusted", "tweak", "tweaked",
    "done",   "some",    "model",   "script",  "it",      "everything",
    "something", "made", "make",    "sure",    "again",   "fine",
    "rewrote", "refactor", "refactored", "cleaned", "clean", "several",
    "things", "mistake", "stuff",   "better",  "trial",  "tried",
    "different", "values", "various"};

// What output says that reports nothing: "Step 3 complete. Tensor stats:
// various values. Check logs for details."
static constexpr StringRef Reported[] = {
    "step",   "tensor",   "tensors", "stats", "statistics", "various", "value",
    "values", "complete", "completed", "done", "finished",  "check",   "see",
    "look",   "log",      "logs",    "output", "details",   "detail",  "info",
    "information", "above", "below", "attached"};

// The words of the form that people copy and forget to fill in.
static constexpr StringRef FormWords[] = {
    "how it manifested",  "what you observed",  "how it was resolved",
    "code changes",       "why it happened",    "the actual bug",
    "which files were",   "how to avoid similar", "describe the",
    "what one sees",      "brief description"};

/// Whether \p Text is what the form says and nothing of one's own.
static bool isOfForm(StringRef Text) {
  std::string Lower = Text.ltrim("(*_`<[").lower();
  return any_of(FormWords, [&](StringRef Words) {
    return StringRef(Lower).starts_with(Words) && Text.size() < 60;
  });
}

/// Whether \p Text holds nothing but words of \p Empty or of \p More, and at
/// least one. Only the number of a step says as little.
static bool saysNothing(StringRef Text, ArrayRef<StringRef> Empty,
                        ArrayRef<StringRef> More = {}) {
  if (Text.contains('`') || Text.contains('"') || Text.contains("://"))
    return false;
  bool Any = false;
  std::string Before;
  for (const Word &W : lex(Text)) {
    if (W.K == Word::Kind::Number && Before == "step")
      continue;
    if (W.K != Word::Kind::Name)
      return false;
    std::string Lower = StringRef(W.Text).lower();
    Before = Lower;
    if (Lower.size() < 2 || isStopWord(Lower))
      continue;
    std::string Stem = stem(Lower);
    auto Is = [&](StringRef E) { return Lower == E || stem(E) == Stem; };
    if (!any_of(Empty, Is) && !any_of(More, Is))
      return false;
    Any = true;
  }
  return Any;
}

std::string symptomObjection(StringRef Symptom) {
  if (isOfForm(Symptom))
    return "is what the form says, not filled in";
  if (saysNothing(Symptom, Vague, Reported))
    return "is no observation: it says that something is wrong, not what one "
           "sees";
  std::string Lower = Symptom.ltrim().lower();
  for (StringRef Start :
       {"we forgot", "forgot ", "i forgot", "we should", "should ", "need to",
        "needs to", "must ", "a bug in", "bug in", "a typo in", "typo in",
        "be careful", "todo", "tbd", "n/a", "see above", "see title"})
    if (StringRef(Lower).starts_with(Start))
      return ("is no observation: '" + Start.rtrim() +
              "' begins a cause or a task")
          .str();
  return {};
}

std::string causeObjection(StringRef Cause) {
  if (isOfForm(Cause))
    return "is what the form says, not filled in";
  if (saysNothing(Cause, Reported))
    return "names nothing that went wrong";
  return {};
}

std::string fixObjection(StringRef Fix) {
  if (isOfForm(Fix))
    return "is what the form says, not filled in";
  if (saysNothing(Fix, Called, Reported))
    return "names nothing: it says that there is one, not what was changed";
  std::string Lower = Fix.trim(" .").lower();
  for (StringRef None : {"tbd", "todo", "n/a", "none", "unknown", "see above",
                         "yes", "be more careful"})
    if (Lower == None)
      return "names nothing that was changed";
  return {};
}

} // namespace culprit
