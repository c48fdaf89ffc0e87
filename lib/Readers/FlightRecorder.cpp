//===- FlightRecorder.cpp ---------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/FlightRecorder.h"
#include "Readers/FlightRecorderRows.h"
#include "Readers/TreeFile.h"
#include "Support/Pickle.h"

using namespace llvm;

namespace culprit {

Match FlightRecorderReader::matches(const InputFile &File) const {
  StringRef Head = File.head();
  if (isPickle(Head)) {
    // A pickle writes each key in full the first time.
    bool Entry = Head.contains("profiling_name") &&
                 (Head.contains("collective_seq_id") ||
                  Head.contains("seq_id"));
    if (Entry || (Head.contains("pg_config") && Head.contains("version")))
      return Match::Certain;
    // Version 1 of a rank that had not called for any collective.
    StringRef Start = Head.take_front(200);
    return Start.contains("entries") && Start.contains("version")
               ? Match::Likely
               : Match::No;
  }
  // A Kineto trace has a pg_config in its distributedInfo.
  if (!isJsonObject(Head) || Head.contains("\"traceEvents\"") ||
      Head.contains("\"distributedInfo\""))
    return Match::No;
  bool Entry = Head.contains("\"profiling_name\"") &&
               Head.contains("\"record_id\"");
  bool Groups =
      Head.contains("\"pg_config\"") &&
      (Head.contains("\"pg_status\"") || Head.contains("\"nccl_version\"") ||
       Head.contains("\"entries\""));
  return Entry || Groups ? Match::Certain : Match::No;
}

Error FlightRecorderReader::read(InputFile &File, Source &Into) const {
  Expected<DataTree> Tree = readTreeFile(File, Into);
  if (!Tree)
    return Tree.takeError();
  return FlightRecorderRows(*Tree, Into).read();
}

} // namespace culprit
