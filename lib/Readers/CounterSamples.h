//===- CounterSamples.h - Samples on their way to counters ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Cells of monitors as rows of `counters`: numbers out of cells with units,
/// times against the first one, and the reasons in NVML's throttle mask.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_COUNTERSAMPLES_H
#define CULPRIT_READERS_COUNTERSAMPLES_H

#include "Case/Source.h"
#include <optional>
#include <string>

namespace culprit {

/// What a column of a table is.
struct CounterColumn {
  enum { Other, Counter, Device, Time, Date, Clock, Rank } What = Other;
  std::string Name;
  double Factor = 1;
};

/// The samples of one file. Times are kept as Unix time until the first is
/// known, which becomes time 0.
class CounterSamples {
public:
  explicit CounterSamples(Source &Into) : Into(Into) {}

  void add(const std::string &Name, double Value, std::optional<double> Unix,
           std::optional<int64_t> Device, std::optional<int64_t> Rank,
           int64_t Line);
  void addText(const CounterColumn &C, llvm::StringRef Cell,
               std::optional<double> Unix, std::optional<int64_t> Device,
               std::optional<int64_t> Rank, int64_t Line);
  size_t rows() const { return Rows; }

private:
  Source &Into;
  size_t Rows = 0;
};

} // namespace culprit

#endif // CULPRIT_READERS_COUNTERSAMPLES_H
