//===- LogBars.cpp ----------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/LogBars.h"
#include "llvm/ADT/STLExtras.h"
#include <cmath>

using namespace llvm;

namespace culprit {

void LogBars::state(StringRef Text) {
  size_t Open = Text.find("%|");
  if (Open == StringRef::npos)
    return;
  // "| 5/100 [" closes the bar.
  size_t Close = Text.find("| ", Open + 2);
  if (Close == StringRef::npos)
    return;
  StringRef Count = Text.drop_front(Close + 2).split('[').first.trim();
  auto [Done, Of] = Count.split('/');
  Bar B;
  if (Done.getAsInteger(10, B.First) || Of.getAsInteger(10, B.Total) ||
      B.First < 0 || B.First > B.Total)
    return;
  B.Last = B.First;
  Longest = std::max(Longest, B.Total);
  Gap &Here = Gaps.back();
  for (Bar &Known : Here)
    if (Known.Total == B.Total) {
      Known.Last = B.Last;
      return;
    }
  if (Here.size() < MaxBars)
    Here.push_back(B);
}

void LogBars::dict(std::optional<double> Epoch) {
  Epochs.push_back(Epoch);
  Gaps.emplace_back();
}

/// The steps by the bar of \p Total steps: by its first state behind each dict
/// or by its last one before it. Empty where a dict has neither.
std::vector<int64_t> LogBars::stepsOf(int64_t Total, bool Behind) const {
  std::vector<int64_t> Out;
  auto in = [&](const Gap &G) {
    return llvm::find_if(G, [&](const Bar &B) { return B.Total == Total; });
  };
  for (size_t I = 0; I != Epochs.size(); ++I) {
    const auto *Before = in(Gaps[I]), *After = in(Gaps[I + 1]);
    bool HasBefore = Before != Gaps[I].end();
    bool HasAfter = After != Gaps[I + 1].end();
    if (HasAfter && (Behind || !HasBefore))
      Out.push_back(After->First);
    else if (HasBefore)
      Out.push_back(Before->Last);
    else if (!Out.empty()) // an evaluation right behind a step's dict
      Out.push_back(Out.back());
    else
      return {};
  }
  return Out;
}

/// Whether \p Steps never go back and the epochs are in proportion to them.
/// Transformers rounds an epoch to two decimals, or to four digits.
bool LogBars::agrees(ArrayRef<int64_t> Steps) const {
  if (Steps.empty() || !llvm::is_sorted(Steps) || Steps.back() == 0)
    return false;
  if (Steps.size() > 2 && Steps.front() == Steps.back())
    return false;
  std::optional<double> Last = Epochs.back();
  if (!Last || !(*Last > 0))
    return false;
  double PerStep = *Last / static_cast<double>(Steps.back());
  for (size_t I = 0; I != Steps.size(); ++I)
    if (!Epochs[I] ||
        std::fabs(*Epochs[I] - PerStep * static_cast<double>(Steps[I])) >
            0.011 + 0.01 * *Epochs[I])
      return false;
  return true;
}

std::vector<int64_t> LogBars::steps() const {
  if (Longest == 0 || Epochs.empty())
    return {};
  for (bool Behind : {true, false})
    if (std::vector<int64_t> Steps = stepsOf(Longest, Behind); agrees(Steps))
      return Steps;
  return {};
}

} // namespace culprit
