//===- FragmentIndex.h - Log fragments that may be in a text ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Says of which entries a log fragment can stand in a text, without reading
/// the entries. Of each fragment the eight bytes are kept (four when it has no
/// piece of eight) that the fewest others have, its anchor; a text that does
/// not hold them cannot hold the fragment. LogMatcher then decides.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_KB_FRAGMENTINDEX_H
#define CULPRIT_KB_FRAGMENTINDEX_H

#include "KB/Entry.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <string>
#include <vector>

namespace culprit {

/// The anchors of all fragments of \p Entries as bytes: twelve each, the hash
/// of the anchor, the entry and the fragment, sorted.
std::string fragmentAnchors(llvm::ArrayRef<const Entry *> Entries);

/// A fragment of an entry, both by their numbers.
using FragmentPlace = std::pair<unsigned, unsigned>;

/// The fragments of \p Anchors that may stand in \p Text, ascending.
std::vector<FragmentPlace> possibleFragments(llvm::StringRef Anchors,
                                             llvm::StringRef Text);

} // namespace culprit

#endif // CULPRIT_KB_FRAGMENTINDEX_H
