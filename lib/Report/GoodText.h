//===- GoodText.h - What a report says of the good runs ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// The part of a report about the runs that worked:
///
///   against the good run runs/41
///
///     changed    setting  learning_rate 0.003 -> 0.3
///                metric   loss outside the band from step 93 on: ...
///     same       batch_size and 12 more settings; 9 packages; ...
///     left out   loss-spike: the good run shows it as well
///     note       ...
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_REPORT_GOODTEXT_H
#define CULPRIT_REPORT_GOODTEXT_H

#include "Rank/GoodRun.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"
#include <optional>
#include <string>
#include <vector>

namespace culprit {

/// All that is told of the good runs.
struct GoodReport {
  struct Given {
    std::string Path;
    std::string Unused; ///< Why it took no part; empty if it did.
  };
  /// Something that is other in the bad run.
  struct Change {
    std::string Kind; ///< setting, package, environment, metric, log, work.
    std::string Name;
    std::string Good, Bad; ///< Values; empty for none.
    std::string Says;
    double Standing = 0; ///< How much it stands out, 0 to 1.
    /// Of a metric: the first step outside the band; whether it stays there.
    std::optional<int64_t> From;
    bool Stays = false;
  };

  std::vector<Given> Runs; ///< As given on the command line.
  std::vector<Change> Changes; ///< By kind, what stands out most first.
  std::vector<std::string> Same, Remarks;
  std::vector<SymptomBeside> Symptoms;
};

/// Changes of a kind that text and markdown show.
inline constexpr size_t MostChangesShown = 5;

void printGood(llvm::raw_ostream &OS, const GoodReport &G, unsigned Width);
void printGoodMarkdown(llvm::raw_ostream &OS, const GoodReport &G);
void printGoodHtml(llvm::raw_ostream &OS, const GoodReport &G);
/// The key `good` of docs/json.md.
llvm::json::Value goodJson(const GoodReport &G);

} // namespace culprit

#endif // CULPRIT_REPORT_GOODTEXT_H
