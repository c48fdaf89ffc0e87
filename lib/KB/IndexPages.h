//===- IndexPages.h - A knowledge base to leaf through ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// `kb export --format index`: three markdown pages that lead to the entries of
/// logs by layer and class, by symptom and by the text of an error.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_KB_INDEXPAGES_H
#define CULPRIT_KB_INDEXPAGES_H

#include "KB/Entry.h"
#include "KB/Vocabulary.h"
#include "llvm/ADT/ArrayRef.h"
#include <string>
#include <vector>

namespace culprit {

struct IndexPage {
  std::string Name; ///< Of its file.
  std::string Text;
};

/// The anchor that GitHub and most renderers give a heading: lower case,
/// without punctuation, a dash for each blank.
std::string headingAnchor(llvm::StringRef Heading);

/// The pages README.md, by-symptom.md and by-error.md for the folder
/// \p Directory, from which links lead to the sources of \p Entries.
std::vector<IndexPage> indexPages(llvm::ArrayRef<const Entry *> Entries,
                                  const Vocabulary &V,
                                  llvm::StringRef Directory);

} // namespace culprit

#endif // CULPRIT_KB_INDEXPAGES_H
