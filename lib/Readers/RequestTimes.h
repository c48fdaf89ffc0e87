//===- RequestTimes.h - When a request came and how long it took -*- C++ -*-==//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Clients name the length of a request in a dozen ways, with the unit at the
/// end of the key or without it.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_REQUESTTIMES_H
#define CULPRIT_READERS_REQUESTTIMES_H

#include "Readers/RequestRows.h"
#include "Support/LooseTree.h"

namespace culprit {

/// A time stamp as Unix seconds: seconds, ms, us, ns or an ISO date.
std::optional<double> unixTimeOf(LooseValue V);

/// Sets what \p R does not have yet of the time to the first token and of the
/// whole latency from the keys of \p Object. A key without a unit is in
/// seconds, total_duration of Ollama in ns.
void findTimes(LooseValue Object, RequestRecord &R);

} // namespace culprit

#endif // CULPRIT_READERS_REQUESTTIMES_H
