//===- Glob.cpp -------------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Support/Glob.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include <algorithm>

using namespace llvm;

namespace culprit {

bool globMatch(StringRef Pattern, StringRef Text) {
  // On a mismatch only the last `*` needs to give back one more character:
  // an earlier `*` could not help, since the last one may match any run.
  size_t P = 0, T = 0, Star = StringRef::npos, Resume = 0;
  while (T < Text.size()) {
    if (P < Pattern.size() && Pattern[P] == '*') {
      Star = P++;
      Resume = T;
    } else if (P < Pattern.size() &&
               (Pattern[P] == '?' || Pattern[P] == Text[T])) {
      ++P;
      ++T;
    } else if (Star != StringRef::npos) {
      P = Star + 1;
      T = ++Resume;
    } else {
      return false;
    }
  }
  while (P < Pattern.size() && Pattern[P] == '*')
    ++P;
  return P == Pattern.size();
}

GlobList::GlobList(StringRef CommaSeparated) {
  SmallVector<StringRef, 8> Parts;
  CommaSeparated.split(Parts, ',', -1, false);
  for (StringRef Part : Parts) {
    Part = Part.trim();
    bool Negative = Part.consume_front("-");
    if (!Part.empty())
      Items.push_back({!Negative, Part.str()});
  }
}

bool GlobList::contains(StringRef Text) const {
  bool In = Items.empty() || !Items.front().Positive;
  for (const Item &I : Items)
    if (globMatch(I.Pattern, Text))
      In = I.Positive;
  return In;
}

std::string closestName(StringRef Unknown, ArrayRef<std::string> Known) {
  std::string Best;
  unsigned BestDistance = static_cast<unsigned>(Unknown.size()) / 3 + 2;
  for (const std::string &Name : Known) {
    unsigned Distance =
        Unknown.edit_distance(Name, /*AllowReplacements=*/true, BestDistance);
    if (Distance < BestDistance) {
      BestDistance = Distance;
      Best = Name;
    }
  }
  // An abbreviation is far by edits: 'duration' for 'dur'.
  for (const std::string &Name : Known)
    if (Best.empty() && std::min(Name.size(), Unknown.size()) >= 3 &&
        (Unknown.starts_with(Name) || StringRef(Name).starts_with(Unknown)))
      Best = Name;
  return Best;
}

} // namespace culprit
