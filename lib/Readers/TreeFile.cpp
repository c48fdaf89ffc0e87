//===- TreeFile.cpp ---------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/TreeFile.h"
#include "Support/Error.h"
#include "Support/Pickle.h"

using namespace llvm;

namespace culprit {

bool isJsonObject(StringRef Head) {
  Head.consume_front("\xEF\xBB\xBF");
  return Head.ltrim().starts_with("{");
}

Expected<DataTree> readTreeFile(InputFile &File, Source &Into) {
  Expected<StringRef> Bytes = File.contents();
  if (!Bytes)
    return Bytes.takeError();
  Expected<DataTree> Tree =
      isPickle(*Bytes) ? readPickle(*Bytes) : readJsonTree(*Bytes);
  if (!Tree)
    return addContext(Into.path(), Tree.takeError());
  if (!Tree->truncation().empty())
    Into.warn(Into.path() + ": " + Tree->truncation(),
              "what came before it was read; copy the file again");
  return Tree;
}

} // namespace culprit
