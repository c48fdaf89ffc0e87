//===- MemorySnapshot.cpp ---------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/MemorySnapshot.h"
#include "Readers/MemorySnapshotRows.h"
#include "Readers/TreeFile.h"
#include "Support/Pickle.h"

using namespace llvm;

namespace culprit {

Match MemorySnapshotReader::matches(const InputFile &File) const {
  StringRef Head = File.head();
  if (isPickle(Head)) {
    // A key is written in full where it first occurs.
    bool Whole = Head.take_front(200).contains("segments") &&
                 (Head.contains("device_traces") ||
                  Head.contains("segment_type") || Head.contains("total_size"));
    bool Segments = Head.contains("segment_type") &&
                    Head.contains("total_size") && Head.contains("blocks");
    return Whole || Segments ? Match::Certain : Match::No;
  }
  if (!isJsonObject(Head))
    return Match::No;
  bool Segments = Head.contains("\"segments\"") &&
                  (Head.contains("\"segment_type\"") ||
                   Head.contains("\"device_traces\""));
  bool Events = Head.contains("\"device_traces\"") &&
                Head.contains("\"action\"");
  return Segments || Events ? Match::Certain : Match::No;
}

Error MemorySnapshotReader::read(InputFile &File, Source &Into) const {
  Expected<DataTree> Tree = readTreeFile(File, Into);
  if (!Tree)
    return Tree.takeError();
  return MemorySnapshotRows(*Tree, Into).read();
}

} // namespace culprit
