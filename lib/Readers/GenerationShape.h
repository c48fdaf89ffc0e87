//===- GenerationShape.h - Whether JSON is of generations -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Tells records of requests and answers from other JSON by their keys, for a
/// head that may break off in the middle of the first record.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_GENERATIONSHAPE_H
#define CULPRIT_READERS_GENERATIONSHAPE_H

#include "llvm/ADT/StringRef.h"

namespace culprit {

enum class GenerationShape {
  None,
  Possible, ///< A prompt and an answer, by the names of two keys.
  Clear,    ///< A prompt and an answer, by names that nothing else uses.
  Server    ///< What a server or its client writes.
};

/// Looks at the keys of the value that \p Text begins with, as far as it goes.
/// Of a list the keys of all its elements count. \p End receives the offset
/// behind the value, or 0 where the text breaks off before.
GenerationShape generationShape(llvm::StringRef Text, size_t &End);

/// The data of a line of a stream of server-sent events; the line itself where
/// it is none.
llvm::StringRef withoutEventPrefix(llvm::StringRef Line);

} // namespace culprit

#endif // CULPRIT_READERS_GENERATIONSHAPE_H
