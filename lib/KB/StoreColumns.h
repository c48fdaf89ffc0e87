//===- StoreColumns.h - What of an entry is where in a store ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Shared by what writes a store and what reads it.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_KB_STORECOLUMNS_H
#define CULPRIT_KB_STORECOLUMNS_H

#include "KB/Entry.h"
#include "llvm/ADT/StringRef.h"
#include <array>
#include <string>
#include <utility>
#include <vector>

namespace culprit {

/// The texts of an entry that are columns of `entries`, in their order; behind
/// them come those of Confirm.
inline std::array<std::string Entry::*, 10> plainTexts() {
  return {&Entry::Id,      &Entry::Date,      &Entry::Status, &Entry::Title,
          &Entry::Class,   &Entry::Symptom,   &Entry::RootCause, &Entry::Fix,
          &Entry::Files,   &Entry::Workarounds};
}

/// The lists of an entry, in the order of their names; null for Other.
inline constexpr std::pair<llvm::StringLiteral,
                           std::vector<std::string> Entry::*>
    EntryLists[] = {{"also", &Entry::AlsoSeenAs},
                    {"fails_when", &Entry::FailsWhen},
                    {"log", &Entry::LogFragments},
                    {"other", nullptr},
                    {"prevention", &Entry::Prevention},
                    {"reference", &Entry::References},
                    {"works_when", &Entry::WorksWhen}};

} // namespace culprit

#endif // CULPRIT_KB_STORECOLUMNS_H
