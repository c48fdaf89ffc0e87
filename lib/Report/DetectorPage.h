//===- DetectorPage.h - A detector as a page of the docs --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// docs/detectors/ in markdown: a page for each detector and an index. All of
/// it comes from the detector's file, `kb/symptoms.md` and the entries, so
/// that a page cannot say what the program does not do.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_REPORT_DETECTORPAGE_H
#define CULPRIT_REPORT_DETECTORPAGE_H

#include "Detect/Detector.h"
#include "KB/Entry.h"
#include "KB/Vocabulary.h"

namespace llvm {
class raw_ostream;
} // namespace llvm

namespace culprit {

/// Prints the page of \p D: its doc comment, what it needs, its symptoms with
/// those of \p Entries that they are signals of, and its options.
void printDetectorPage(llvm::raw_ostream &OS, const DetectorInfo &D,
                       const Vocabulary &Words,
                       llvm::ArrayRef<Entry> Entries);

/// Prints the index of \p All, which is in the order of ids, group by group
/// with links to `GROUP/NAME.md`.
void printDetectorIndex(llvm::raw_ostream &OS,
                        llvm::ArrayRef<std::unique_ptr<Detector>> All);

} // namespace culprit

#endif // CULPRIT_REPORT_DETECTORPAGE_H
