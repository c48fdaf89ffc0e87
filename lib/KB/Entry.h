//===- Entry.h - One entry of an issues log ---------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// What the knowledge base knows about one cause: plain data, the same
/// whether it was read from markdown or loaded from a store. Prose is readable
/// text without markdown emphasis; a line break separates lines, an empty
/// line paragraphs; code keeps its backquotes or fences.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_KB_ENTRY_H
#define CULPRIT_KB_ENTRY_H

#include "llvm/ADT/StringRef.h"
#include <optional>
#include <string>
#include <vector>

namespace culprit {

/// How often a signal is seen when the cause is present. Required is part of
/// what the cause means: where it was looked for and is not there, the cause is
/// out.
enum class Frequency { Required, Always, Often, Sometimes, Never };

/// `required`, `always`, `often`, `sometimes` or `never`.
llvm::StringRef frequencyName(Frequency F);
/// The inverse, in any case; nothing for any other word.
std::optional<Frequency> parseFrequency(llvm::StringRef Word);

/// A symptom of `kb/symptoms.md` and how often the cause shows it.
struct Signal {
  std::string Symptom;
  Frequency How = Frequency::Sometimes;
};

/// The cheapest experiment that settles whether this is the cause.
struct Confirmation {
  std::string Experiment;
  std::string Confirms; ///< The outcome that confirms.
  std::string Refutes;  ///< The outcome that refutes, and what then.
};

/// Where an entry stands.
struct SourcePlace {
  std::string File; ///< As given, or relative to the root of the store.
  unsigned Line = 0;
};
/// `file:line`.
std::string placeText(const SourcePlace &P);

/// A section that culprit has no use for. Kept so that nothing is lost.
struct OtherSection {
  std::string Label;
  std::string Text;
};

/// One entry. A team's log fills the first part, curated entries also the
/// second.
struct Entry {
  /// File stem and the title's first clause: `numerics/fp16-attention-scores-
  /// overflow`. Unique within a KnowledgeBase, and the same as long as the
  /// file name and the title are.
  std::string Id;
  std::string Date;   ///< Of the heading above; empty when there is none.
  std::string Status; ///< Upper case: FIXED, OPEN. Empty when not given.
  std::string Title;
  std::string Symptom;
  std::string RootCause;
  std::string Fix;
  std::string Files;
  std::vector<std::string> Prevention;

  std::string Class; ///< Of `kb/classes.tsv`; empty in a team's own log.
  /// The same trouble in the words of others who hit it.
  std::vector<std::string> AlsoSeenAs;
  std::vector<Signal> Signals;
  std::vector<std::string> LogFragments;
  std::vector<std::string> FailsWhen;
  std::vector<std::string> WorksWhen;
  std::string Workarounds;
  Confirmation Confirm;
  std::vector<std::string> References;

  std::vector<OtherSection> Other;
  SourcePlace Source;
};

/// `title` in lower case with runs of anything but letters and digits as one
/// dash, cut at a word end before \p Limit. Letters beyond ASCII are kept.
std::string slug(llvm::StringRef Title, size_t Limit = 60);

/// The text up to the end of its first sentence, on one line. A full stop
/// inside a number, a name or a code span does not end a sentence.
std::string firstSentence(llvm::StringRef Text);

/// The sentences of \p Text in order, each on one line.
std::vector<std::string> sentences(llvm::StringRef Text);

} // namespace culprit

#endif // CULPRIT_KB_ENTRY_H
