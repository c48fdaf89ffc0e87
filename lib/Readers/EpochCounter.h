//===- EpochCounter.h - Steps that begin again with each epoch --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// MMCV, SlowFast and many a hand-written loop log the iteration of an epoch
/// beside the epoch. A counter of the whole run cannot fall while the epoch
/// rises: what is resumed goes on in the epoch of its checkpoint, which is not
/// behind the one that was logged last. So a counter that does is one of each
/// epoch.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_EPOCHCOUNTER_H
#define CULPRIT_READERS_EPOCHCOUNTER_H

#include <cstdint>
#include <map>
#include <optional>

namespace culprit {

class EpochCounter {
public:
  /// The step of the run that \p Count of \p Of (0 where that is not told) in
  /// \p Epoch is.
  int64_t step(int64_t Count, double Of, double Epoch) {
    auto It = Before.find(Epoch); // also of what is trained again
    if (It == Before.end())
      It = Before.try_emplace(Epoch, stepsBefore(Count, Of, Epoch)).first;
    else if (Last && Epoch == LastEpoch && Count > *Last)
      Interval = Count - *Last;
    Last = Count;
    LastEpoch = Epoch;
    return It->second + Count;
  }

private:
  int64_t stepsBefore(int64_t Count, double Of, double Epoch) {
    if (!Last || Epoch < LastEpoch)
      return 0;
    const int64_t Steps = Before.at(LastEpoch);
    OfEpoch |= Count < *Last;
    if (!OfEpoch)
      return Steps;
    if (Of >= static_cast<double>(*Last) && Of < 1e9)
      return Steps + static_cast<int64_t>(Of);
    // A counter from 0 has one interval more than its last number tells.
    return Steps + *Last + (Count == 0 ? Interval : 0);
  }

  std::map<double, int64_t> Before; ///< Steps before each epoch.
  std::optional<int64_t> Last;      ///< Count of the last record.
  double LastEpoch = 0;
  int64_t Interval = 1;
  bool OfEpoch = false; ///< The counter has fallen while the epoch rose.
};

} // namespace culprit

#endif // CULPRIT_READERS_EPOCHCOUNTER_H
