//===- CompileLines.h - What torch.compile prints ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Takes what torch.compile says of its work out of the lines of a text log,
/// into `compilations`: recompiles with the guard that failed, graph breaks,
/// the limits, hits and misses of the caches of graphs, the steps of a
/// compilation with their times, and vLLM's sentences about the graphs it
/// compiles. TORCH_LOGS=recompiles,graph_breaks,dynamo prints most of it:
///
///   Recompiling function scale in /w/train.py:4
///     triggered by the following guard failure(s):
///     - 0/0: tensor 'x' size mismatch at index 0. expected 4, actual 6
///   Graph break in user code at /w/train.py:13
///   torch._dynamo hit config.recompile_limit (8)
///
/// A message that is not said whole, as at the end of a log, counts as far as
/// it goes.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_COMPILELINES_H
#define CULPRIT_READERS_COMPILELINES_H

#include "Case/Source.h"
#include "Readers/DynamoLine.h"
#include <vector>

namespace culprit {

/// Collects the compilations of one log. Not thread-safe.
class CompileLines {
public:
  explicit CompileLines(Source &S);

  /// Returns whether \p L is a line of the compiler's, of which none may be
  /// left out.
  bool line(const LogLine &L);
  /// Writes what is still under way.
  void finish();

private:
  /// A row, as far as it is known; texts that are empty are not.
  struct Record {
    llvm::StringRef Kind;
    std::string Function, Site, Reason, Frame;
    std::optional<double> Seconds, At;
    int64_t Place = 0;
  };
  /// What one rank is saying.
  struct Voice {
    std::optional<int64_t> Rank;
    std::optional<Record> Open; ///< Recompile, break or limit under way.
    std::string Prefix;         ///< Of the message that Open is from.
    bool SiteGiven = false;     ///< The message said it before its frames.
    bool FramesDone = false;    ///< What follows are frames of PyTorch.
    std::string LastBreak; ///< Frame and site: some versions tell it twice.
    std::optional<Record> Compile; ///< The compilation under way.
    std::optional<double> StepAt;  ///< When its outermost step began.
    std::optional<double> DoneAt;  ///< When a step was last done.
    uint64_t LastUsed = 0;
  };

  Voice &voiceOf(std::optional<int64_t> Rank);
  Record &begin(Voice &V, llvm::StringRef Kind, const DynamoLine &Line);
  bool starts(const DynamoLine &Line, Voice &V);
  bool startsBreak(const DynamoLine &Line, Voice &V);
  void goesOn(llvm::StringRef Message, Voice &V);
  void breakGoesOn(llvm::StringRef Message, Voice &V);
  void step(const DynamoLine &Line, Voice &V);
  void cache(const DynamoLine &Line, const Voice &V);
  bool server(const LogLine &L);
  void close(Voice &V);
  void closeCompile(Voice &V);
  void write(const Record &R, std::optional<int64_t> Rank);

  /// Ranks that may speak in turns in one log; the one that was silent for
  /// longest is closed then.
  static constexpr size_t MaxVoices = 1024;
  /// Rows of one log at most: fewer tell that it is a storm.
  static constexpr size_t MaxRows = 200000;

  Source &S;
  StringId File, Run;
  std::optional<int64_t> FileRank;
  std::vector<Voice> Voices;
  uint64_t Now = 0;
  size_t NumRows = 0;
};

} // namespace culprit

#endif // CULPRIT_READERS_COMPILELINES_H
