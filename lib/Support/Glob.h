//===- Glob.h - Linear-time globs -------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Globs that cannot hang. Lua and POSIX patterns can take exponential time
/// on a short input; these take at most |pattern| * |text| steps.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_SUPPORT_GLOB_H
#define CULPRIT_SUPPORT_GLOB_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <string>
#include <vector>

namespace culprit {

/// Whether \p Text as a whole matches \p Pattern: `*` is any run of
/// characters, `?` any one character, everything else itself. Case matters.
bool globMatch(llvm::StringRef Pattern, llvm::StringRef Text);

/// An ordered list of globs, as in clang-tidy's checks: `gpu/*,-gpu/idle*`.
/// The last glob that matches decides; a leading `-` removes. A list that
/// starts with a removal starts from everything.
class GlobList {
public:
  explicit GlobList(llvm::StringRef CommaSeparated);

  bool contains(llvm::StringRef Text) const;

private:
  struct Item {
    bool Positive;
    std::string Pattern;
  };
  std::vector<Item> Items;
};

/// The entry of \p Known closest to \p Unknown, or empty when none is close
/// enough to suggest. Ties go to the earlier entry.
std::string closestName(llvm::StringRef Unknown,
                        llvm::ArrayRef<std::string> Known);

} // namespace culprit

#endif // CULPRIT_SUPPORT_GLOB_H
