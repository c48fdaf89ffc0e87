//===- Costs.h - Where the time of a script goes ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Counts the calls, the time and the table memory of every verb by the line
/// that called it, for `diagnose --time-detectors`. What is left between two
/// verbs is Lua's own and goes to the line that is being run when one begins
/// or a thousand instructions have passed.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_SCRIPT_COSTS_H
#define CULPRIT_SCRIPT_COSTS_H

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

namespace culprit {

/// A line of one of the files that a script consists of.
struct ScriptLine {
  unsigned Chunk = 0; ///< 0: the detector; others are modules.
  unsigned Line = 0;  ///< From 1; 0 when not known.

  bool operator==(const ScriptLine &Other) const = default;
  bool operator<(const ScriptLine &Other) const {
    return std::tie(Chunk, Line) < std::tie(Other.Chunk, Other.Line);
  }
};

/// Not thread-safe.
class Costs {
public:
  using Clock = std::chrono::steady_clock;

  struct Cost {
    uint64_t Calls = 0;
    int64_t Ns = 0;
    size_t Bytes = 0;
  };
  /// By line and verb; an empty verb is Lua itself.
  using Map = std::map<std::pair<ScriptLine, std::string>, Cost>;

  Costs() : Last(Clock::now()) {}

  /// Lua has come to \p At.
  void tick(ScriptLine At) {
    const Clock::time_point Now = Clock::now();
    Cost &C = Open.empty() ? ByPlace[{At, std::string()}] : *Open.back();
    C.Ns += std::chrono::duration_cast<std::chrono::nanoseconds>(Now - Last)
                .count();
    Last = Now;
  }
  /// A verb begins, called from \p At. Calls may nest: the comparison of
  /// table.sort calls verbs in turn.
  void begin(ScriptLine At, const char *Verb) {
    tick(At);
    Cost &C = ByPlace[{At, Verb}];
    ++C.Calls;
    Open.push_back(&C); // the places of a map stay where they are
  }
  /// The innermost verb ended.
  void end() {
    tick({});
    Open.pop_back();
  }
  /// The innermost verb made tables of \p Bytes.
  void addBytes(size_t Bytes) {
    if (!Open.empty())
      Open.back()->Bytes += Bytes;
  }

  const Map &all() const { return ByPlace; }

private:
  Map ByPlace;
  std::vector<Cost *> Open;
  Clock::time_point Last;
};

} // namespace culprit

#endif // CULPRIT_SCRIPT_COSTS_H
