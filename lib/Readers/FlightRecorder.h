//===- FlightRecorder.h - PyTorch's record of collectives -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Reads what torch.distributed's flight recorder writes when a job hangs: the
/// last few thousand collectives of one rank, its process groups and how far
/// each got. Versions 1.x and 2.x, as a pickle or as JSON.
///
/// The dump does not say its rank. It follows from the groups, for a rank is
/// a member of each of its groups, and from the end of the file's name
/// (nccl_trace_rank_9, _dump_9, rank_9.json); where the two disagree the
/// groups are believed.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_FLIGHTRECORDER_H
#define CULPRIT_READERS_FLIGHTRECORDER_H

#include "Readers/Reader.h"

namespace culprit {

class FlightRecorderReader : public Reader {
public:
  llvm::StringRef name() const override { return "NCCL flight recorder"; }
  llvm::StringRef about() const override {
    return "PyTorch's record of the last collectives of a rank, pickle or JSON";
  }
  Match matches(const InputFile &File) const override;
  llvm::Error read(InputFile &File, Source &Into) const override;
};

} // namespace culprit

#endif // CULPRIT_READERS_FLIGHTRECORDER_H
