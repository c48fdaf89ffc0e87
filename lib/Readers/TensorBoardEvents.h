//===- TensorBoardEvents.h - events.out.tfevents files ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Reads the event files that TensorFlow, torch.utils.tensorboard, tensorboardX
/// and Keras write: scalars, old style and new, into `scalars`; settings of the
/// hparams plugin into `config`. Texts, histograms and images are counted and
/// left. A run is the folder of the file; a resumed run has several files in
/// it, of which the later goes on where the earlier stopped.
///
/// A file is a row of TFRecords, each with a checksum over its length and one
/// over its data. A record whose data is damaged costs itself; one whose length
/// is damaged costs what lies before the next offset at which a length and its
/// checksum agree. A file that a run still writes to is read to its last whole
/// record.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_TENSORBOARDEVENTS_H
#define CULPRIT_READERS_TENSORBOARDEVENTS_H

#include "Readers/Reader.h"

namespace culprit {

class TensorBoardEventsReader : public Reader {
public:
  llvm::StringRef name() const override { return "TensorBoard events"; }
  llvm::StringRef about() const override {
    return "events.out.tfevents files of TensorBoard's writers";
  }
  Match matches(const InputFile &File) const override;
  llvm::Error read(InputFile &File, Source &Into) const override;
};

} // namespace culprit

#endif // CULPRIT_READERS_TENSORBOARDEVENTS_H
