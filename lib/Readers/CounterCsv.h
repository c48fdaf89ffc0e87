//===- CounterCsv.h - Device counters of monitors ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Reads what monitors of devices write into `counters`: nvidia-smi
/// --query-gpu as CSV, nvidia-smi dmon, dcgmi dmon, the exposition text of
/// dcgm-exporter, and dynolog's JSON lines. Names and units are made canonical
/// by CounterNames.def; of the cells that it does not know none is taken.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_COUNTERCSV_H
#define CULPRIT_READERS_COUNTERCSV_H

#include "Readers/Reader.h"

namespace culprit {

class CounterCsvReader : public Reader {
public:
  llvm::StringRef name() const override { return "device counters"; }
  llvm::StringRef about() const override {
    return "samples of nvidia-smi, DCGM and dynolog";
  }
  Match matches(const InputFile &File) const override;
  llvm::Error read(InputFile &File, Source &Into) const override;
};

} // namespace culprit

#endif // CULPRIT_READERS_COUNTERCSV_H
