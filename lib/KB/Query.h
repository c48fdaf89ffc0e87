//===- Query.h - What a complaint asks for ----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// The weighted terms of a query. People say what separates causes: "only
/// when the prompt is long", "bf16 is fine". Such clauses are recognised, and
/// their terms are marked so that they count most where entries state the
/// same contrast.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_KB_QUERY_H
#define CULPRIT_KB_QUERY_H

#include "KB/Analyzer.h"
#include "KB/Weights.h"
#include "llvm/ADT/StringRef.h"
#include <string>
#include <vector>

namespace culprit {

/// What the clause that a term stands in says.
enum class Role {
  Neutral,
  Fails, ///< Under these conditions the problem shows.
  Works, ///< Under these it does not.
};

struct QueryTerm {
  Term T;
  Role Part = Role::Neutral;
  double Weight = 1; ///< Of the line it stands on; kinds are not weighted yet.
};

/// The distinct terms of \p Text in the order they first occur. Terms of a
/// pasted log weigh less than those of a sentence, those of its error lines
/// more than the rest, as \p W says.
/// Unknown words go through \p Correct, unless the text is long.
std::vector<QueryTerm> analyzeQuery(const Analyzer &A, llvm::StringRef Text,
                                    const SearchWeights &W = {},
                                    Analyzer::Corrector Correct = nullptr);

} // namespace culprit

#endif // CULPRIT_KB_QUERY_H
