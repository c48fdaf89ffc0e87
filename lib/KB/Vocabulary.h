//===- Vocabulary.h - The words entries are written in ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// The closed vocabularies of the knowledge base: symptoms (`symptoms.md`),
/// root-cause classes (`classes.tsv`) and the aliases by which people and
/// libraries name one thing (`aliases.tsv`).
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_KB_VOCABULARY_H
#define CULPRIT_KB_VOCABULARY_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <string>
#include <vector>

namespace culprit {

/// An observation that a detector can make.
struct SymptomTerm {
  std::string Id;
  std::string Text;  ///< What was observed, one sentence without full stop.
  std::string Group; ///< The `##` heading it stands under.
};

/// A root cause.
struct ClassTerm {
  std::string Id;
  std::string Layer;
  std::string Definition;
  unsigned Line = 0; ///< In `classes.tsv`.
};

/// Phrases that mean the same: error code, enum name, prose, translations.
struct AliasGroup {
  std::string Concept; ///< The name of the group, a single word.
  std::vector<std::string> Phrases;
};

/// Immutable after loading; safe to read from several threads.
class Vocabulary {
public:
  /// Loads `symptoms.md`, `classes.tsv` and `aliases.tsv` of \p Directory,
  /// the folder `kb` of an installation. The aliases may be missing.
  static llvm::Expected<Vocabulary> load(llvm::StringRef Directory);
  /// The same from texts, for tests; the names in messages are those of the
  /// files.
  static llvm::Expected<Vocabulary> parse(llvm::StringRef SymptomsMd,
                                          llvm::StringRef ClassesTsv,
                                          llvm::StringRef AliasesTsv = "");

  /// Adds a project's own symptoms, \p Text of \p File in the form of
  /// `symptoms.md`. An id that is there already is an error. hash() stays: a
  /// store built with fewer symptoms is as good.
  llvm::Error addSymptoms(llvm::StringRef Text, llvm::StringRef File);

  llvm::ArrayRef<SymptomTerm> symptoms() const { return Symptoms; }
  llvm::ArrayRef<ClassTerm> classes() const { return Classes; }
  llvm::ArrayRef<AliasGroup> aliases() const { return Aliases; }

  /// The term \p Id, or null.
  const SymptomTerm *symptom(llvm::StringRef Id) const;
  const ClassTerm *rootCause(llvm::StringRef Id) const;

  /// The known id closest to \p Unknown, empty when none is close.
  std::string closestSymptom(llvm::StringRef Unknown) const;
  std::string closestClass(llvm::StringRef Unknown) const;

  /// Changes when any of the vocabularies does.
  uint64_t hash() const { return Hash; }

private:
  std::vector<SymptomTerm> Symptoms;
  std::vector<ClassTerm> Classes;
  std::vector<AliasGroup> Aliases;
  llvm::StringMap<unsigned> SymptomIndex;
  llvm::StringMap<unsigned> ClassIndex;
  uint64_t Hash = 0;
};

} // namespace culprit

#endif // CULPRIT_KB_VOCABULARY_H
