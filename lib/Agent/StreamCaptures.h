//===- StreamCaptures.h - Whether a graph is being captured -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Follows the captures of streams into CUDA graphs by callbacks of CUPTI.
/// cuptiFinalize waits for all contexts, which would invalidate a capture of
/// any thread.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_AGENT_STREAMCAPTURES_H
#define CULPRIT_AGENT_STREAMCAPTURES_H

#include "Agent/Cupti.h"

namespace culprit::agent {

/// Asked and told from any thread, without a lock.
class StreamCaptures {
public:
  /// Forgets all and asks \p A for the callbacks. What began before is not
  /// known, unless followFromStart() is called.
  void follow(const cupti::Api &A, cupti::Subscriber *S);
  /// The process had no capture before follow().
  void followFromStart() {
    __atomic_store_n(&Known, 1, __ATOMIC_RELEASE);
  }

  /// Hears of the begin or end of a call.
  void hear(int Domain, uint32_t Id, const cupti::CallbackData &Data);

  /// That there is none: each that was seen to begin ended, and the program has
  /// since waited for the device without one, or was followed from its start.
  bool areOver() const;

  /// Whether a call waits for the device. None can while its thread captures.
  static bool isWait(int Domain, uint32_t Id);

private:
  static constexpr unsigned Most = 64;
  void add(int Of, uint64_t Stream);
  void remove(int Of, uint64_t Stream);
  bool areOpen() const;

  /// The runtime's calls are told by both domains, a driver call by one: each
  /// domain counts for itself. 0 is a free place: no handle of a stream that
  /// can be captured.
  uint64_t Streams[2][Most] = {};
  uint32_t Beginning[2] = {}; ///< Threads in a call that begins one.
  uint32_t Overflow = 0;      ///< More were open than there are places.
  uint32_t Known = 0;
};

} // namespace culprit::agent

#endif // CULPRIT_AGENT_STREAMCAPTURES_H
