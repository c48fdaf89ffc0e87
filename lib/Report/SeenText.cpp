//===- SeenText.cpp ---------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Report/SeenText.h"
#include "KB/AddEntryText.h"
#include "KB/EntryTitle.h"
#include "Report/TextHypothesis.h"

using namespace llvm;

namespace culprit {

StringRef seenBy(const SeenBefore &S) {
  switch (S.How) {
  case SeenBefore::Quote:
    return "quote";
  case SeenBefore::Class:
    return "class";
  case SeenBefore::Words:
    return "words";
  }
  llvm_unreachable("unknown way");
}

StringRef seenState(const SeenBefore &S) {
  StringRef Status = S.Which->Status;
  return isOpen(Status) ? "open" : isSetAside(Status) ? "set-aside" : "fixed";
}

/// Why a matter was left as it is: the first line of what the entry says.
static std::string reasonOf(const Entry &E) {
  for (StringRef Label : {"rationale", "decision", "reason", "action"})
    for (const OtherSection &O : E.Other)
      if (StringRef(O.Label).equals_insensitive(Label)) {
        StringRef Text = StringRef(O.Text).trim();
        Text.consume_front("- ");
        return firstSentences(Text.split('\n').first, 1);
      }
  return {};
}

std::string seenText(const SeenBefore &S) {
  const Entry &E = *S.Which;
  StringRef State = seenState(S);
  std::string Out = "seen before";
  if (!E.Date.empty())
    Out += " on " + E.Date;
  Out += " (" + E.Source.File + ":" + std::to_string(E.Source.Line) + ")";
  if (State == "open")
    Out += ", still open";
  else if (State == "set-aside")
    Out += ", left as it was (" + E.Status + ")";
  Out += ": " + E.Title;
  auto add = [&](StringRef Label, StringRef Text) {
    if (!Text.empty() && !isPrompt(Text)) // Nobody answered yet.
      Out += ("; " + Label + ": " + Text.rtrim('.')).str();
  };
  add(State == "open" ? "so far" : "fix", firstSentences(E.Fix, 2));
  if (State == "set-aside")
    add("because", reasonOf(E));
  if (!E.Prevention.empty())
    add("prevention", firstSentences(E.Prevention.front(), 2));
  if (S.How == SeenBefore::Quote)
    Out += "; it quotes '" + S.Text + "'";
  return Out;
}

StringRef firstWith(ArrayRef<const Entry *> Entries,
                    std::string Entry::*Field) {
  for (const Entry *E : Entries)
    if (!(E->*Field).empty() && !isPrompt(E->*Field))
      return E->*Field;
  return {};
}

ArrayRef<std::string> firstPrevention(ArrayRef<const Entry *> Entries) {
  for (const Entry *E : Entries)
    if (!E->Prevention.empty() && !isPrompt(E->Prevention.front()))
      return E->Prevention;
  return {};
}

ArrayRef<const Entry *> generalEntries(const Hypothesis &H) {
  ArrayRef<const Entry *> All = H.Entries;
  return All.size() > H.Seen.size() ? All.drop_front(H.Seen.size()) : All;
}

} // namespace culprit
