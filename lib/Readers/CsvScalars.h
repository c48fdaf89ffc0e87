//===- CsvScalars.h - Metrics as CSV or TSV ---------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Reads tables of metrics into `scalars`: Lightning's metrics.csv,
/// TensorBoard's and W&B's downloads, and what people write themselves. The
/// first line names the columns; comma, semicolon or tab part them. A blank
/// cell was not logged; a cell that says nan was. Excel's forms are read too:
/// UTF-16, and decimal commas between semicolons. Where rows have an epoch and
/// no step (Keras' CSVLogger), the epoch is the step.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_CSVSCALARS_H
#define CULPRIT_READERS_CSVSCALARS_H

#include "Readers/Reader.h"

namespace culprit {

class CsvScalarsReader : public Reader {
public:
  llvm::StringRef name() const override { return "CSV metrics"; }
  llvm::StringRef about() const override {
    return "metrics.csv and other tables with a step or a known metric among "
           "its columns";
  }
  Match matches(const InputFile &File) const override;
  llvm::Error read(InputFile &File, Source &Into) const override;
};

} // namespace culprit

#endif // CULPRIT_READERS_CSVSCALARS_H
