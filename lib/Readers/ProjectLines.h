//===- ProjectLines.h - Lines of metrics of one project ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Lines of metrics in which words do not tell what the numbers are, or tell it
/// otherwise than everywhere else, so that LogDialects cannot read them by its
/// rules:
///
///   Ep. 1 : Up. 100 : Sen. 6,400 : Cost 9.5 : Time 1.2s : ...        Marian
///   Train loss 10 0.81 Grad Norm 1.2 0.51s/it       Tacotron 2, WaveGlow
///   TRAIN Batch 0/100 loss 10.5 loss_att 8.0 lr 0.001 rank 0          WeNet
///   [...][epoch:  0, iter:     100, lr:(1e-04,)] [...] l_pix: 0.1   BasicSR
///    100: 2.3, 2.5 avg loss, 0.001 rate, 1.2 seconds, 6400 images   Darknet
///   Iteration 100, lr = 0.01                                          Caffe
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_PROJECTLINES_H
#define CULPRIT_READERS_PROJECTLINES_H

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include <optional>
#include <string>

namespace culprit {

/// What such a line says. Values have the names that scalarName() knows.
struct ProjectLine {
  double Step = 0;
  /// Whose steps are counted from its beginning on; none for those of the run.
  std::optional<double> Epoch;
  llvm::SmallVector<std::pair<std::string, double>, 8> Values;
};

/// Reads \p Body, a line without its stamp; none if it is of no such form.
std::optional<ProjectLine> projectLine(llvm::StringRef Body);

} // namespace culprit

#endif // CULPRIT_READERS_PROJECTLINES_H
