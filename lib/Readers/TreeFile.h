//===- TreeFile.h - A file that is one tree of data -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// What the readers share of files that PyTorch writes as a pickle or as JSON.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_TREEFILE_H
#define CULPRIT_READERS_TREEFILE_H

#include "Case/Source.h"
#include "Support/DataTree.h"
#include "Support/InputFile.h"

namespace culprit {

/// Whether \p Head may begin a JSON object.
bool isJsonObject(llvm::StringRef Head);

/// All of \p File as a tree, which \p File must outlive. Warns in \p Into of a
/// file that breaks off; errors name the file.
llvm::Expected<DataTree> readTreeFile(InputFile &File, Source &Into);

} // namespace culprit

#endif // CULPRIT_READERS_TREEFILE_H
