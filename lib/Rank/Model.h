//===- Model.h - The network of one diagnosis -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Makes the causes and symptoms of a network out of entries and evidence, and
/// remembers where each part came from.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_RANK_MODEL_H
#define CULPRIT_RANK_MODEL_H

#include "Rank/Diagnosis.h"
#include "llvm/ADT/StringMap.h"
#include <map>

namespace culprit {

/// The layer of a class; `project` of a cause that only a team's own entry
/// knows.
llvm::StringRef layerOf(llvm::StringRef Class, const Vocabulary &Words);

/// The network of one diagnosis. Refers to what it was made of.
class Model {
public:
  Model(llvm::ArrayRef<SymptomEvidence> Symptoms,
        llvm::ArrayRef<LogEvidence> Logs, llvm::ArrayRef<Entry> Entries,
        const Weights &W);

  Network N;
  std::vector<SymptomObservation> Seen; ///< One a symptom of N.
  std::map<std::string, std::vector<const Entry *>> ByClass;

  /// Evidence behind the node \p Symptom; null for a log node.
  const SymptomEvidence *evidence(unsigned Symptom) const {
    return Symptom < Symptoms.size() ? &Symptoms[Symptom] : nullptr;
  }

  /// The node of the symptom \p Id, if any detector declares it.
  std::optional<unsigned> symptom(llvm::StringRef Id) const {
    auto It = Index.find(Id);
    if (It == Index.end())
      return std::nullopt;
    return It->second;
  }

  bool isPresent(unsigned Symptom) const {
    return Seen[Symptom].State == Presence::Present;
  }

  /// Whether more than generic symptoms speaks for \p Cause, or all that one
  /// of its entries always shows is there.
  bool isShown(const CauseNode &Cause) const;

  /// How well \p E fits on its own, in nats: what was seen of its signals, by
  /// their words, and a line that quotes it. Tells variants of one class apart.
  double fitOf(const Entry &E) const;

  /// The log line that quotes an entry of \p Class; null when there is none.
  const LogEvidence *quoted(llvm::StringRef Class) const;

private:
  unsigned addSymptom(llvm::StringRef Id, double Leak);
  /// What the word \p F alone is worth.
  double weight(Frequency F) const;
  /// What is left of a link's weight where the symptom is absent: what is
  /// missing is missing together, as a fault that came out mildly shows none of
  /// its consequences.
  double mildly(double Weight, unsigned Symptom) const;
  /// Weight of a link: what cases made of it, else what the word is worth.
  double weight(llvm::StringRef Class, unsigned Symptom, Frequency F) const;
  /// Several entries of one class are its variants: a symptom counts as often
  /// as the variant that shows it most, is required only if every variant
  /// requires it, and is never there only if no variant has it.
  void addCause(const std::string &Class,
                llvm::ArrayRef<const Entry *> Members);
  /// The cause that is in no entry. What a run shows, it may show as well; of
  /// what a run does not show it says nothing.
  void addUnknown();

  llvm::ArrayRef<SymptomEvidence> Symptoms;
  llvm::ArrayRef<LogEvidence> Logs;
  const Weights &W;
  llvm::StringMap<unsigned> Index;
};

} // namespace culprit

#endif // CULPRIT_RANK_MODEL_H
