//===- Rules.h - Preventions as rules ---------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// `kb rules`: what a team has learned, as a file for people and coding
/// agents. A general rule says "do X"; these say also what broke without it.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_KB_RULES_H
#define CULPRIT_KB_RULES_H

#include "KB/Entry.h"
#include "KB/Strategy.h"
#include "KB/Vocabulary.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/JSON.h"
#include <string>
#include <vector>

namespace llvm {
class raw_ostream;
} // namespace llvm

namespace culprit {

/// One rule and the entries that ask for it.
struct Rule {
  std::string Text; ///< As first written, on one line.
  std::vector<const Entry *> Because;
};

/// The rules of one kind of test, those of most entries first.
struct RuleGroup {
  const Practice *What = nullptr; ///< Null for those of no kind.
  std::vector<Rule> Rules;
};

struct RuleBook {
  std::vector<RuleGroup> Groups; ///< In the order of practices().
  unsigned Items = 0;            ///< Preventions that were read.
  /// Left out: wishes that `kb check` refuses, with the reason, and prompts.
  std::vector<std::pair<const Entry *, std::string>> Refused;
};

/// The preventions of \p Entries; those that say the same are one rule.
RuleBook makeRules(llvm::ArrayRef<const Entry *> Entries, const Vocabulary &V);

/// The contract of `kb rules --format json`.
llvm::json::Value rulesJson(const RuleBook &B);
void printRules(llvm::raw_ostream &OS, const RuleBook &B);
void printRulesMarkdown(llvm::raw_ostream &OS, const RuleBook &B);

} // namespace culprit

#endif // CULPRIT_KB_RULES_H
