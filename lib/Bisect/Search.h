//===- Search.h - The first that is bad -------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Binary search for the first bad one of a row, with a check of what it rests
/// on: that after the first bad one all are bad. The last one is asked first,
/// then the search runs, then a few on either side of what it found are asked
/// too. A row that does not keep to the assumption is reported, and when an
/// earlier bad one shows itself the search goes on before it.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_BISECT_SEARCH_H
#define CULPRIT_BISECT_SEARCH_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"
#include <optional>
#include <vector>

namespace culprit {

struct FirstBadSearch {
  std::optional<size_t> First; ///< None: no bad one was seen.
  size_t Tests = 0;            ///< Questions asked, each once.
  /// One that is good after a bad one, where that was seen.
  std::optional<size_t> GoodAfter;
};

/// Searches 0 to \p Count - 1. \p Every asks all instead, from the first on.
llvm::Expected<FirstBadSearch>
findFirstBad(size_t Count,
             llvm::function_ref<llvm::Expected<bool>(size_t)> IsBad,
             bool Every = false);

/// Tests that a bisection of \p Count candidates takes at most: ceil(log2).
unsigned testsFor(size_t Count);

} // namespace culprit

#endif // CULPRIT_BISECT_SEARCH_H
