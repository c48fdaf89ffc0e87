//===- Describe.h - What a capture says of its process ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_AGENT_DESCRIBE_H
#define CULPRIT_AGENT_DESCRIBE_H

#include "Capture/Protocol.h"

#ifndef CULPRIT_VERSION
#define CULPRIT_VERSION "0.1.0"
#endif

namespace culprit::agent {

/// The name of the process's first thread, as the kernel keeps it; empty when
/// /proc does not say.
void processName(char (&Name)[16]);

/// Field \p Number of /proc/self/stat, from 3 on; 0 when /proc does not say. 20
/// are the threads, 22 is the start in clock ticks.
uint64_t processStat(int Number);

/// The number behind `Key=` in \p Options, which are divided by commas.
uint64_t option(const char *Options, const char *Key, uint64_t Otherwise);

/// What culprit compares with its own version.
extern const char AgentVersion[];

/// Fills in what is known of this process without CUDA; the rest is zero.
void describeProcess(capture::Superblock &Head);

/// What is asked of a recorded process that cannot reach culprit, from
/// `kinds=NUMBER,max-size=NUMBER,ring=0|1,pool=NUMBER,buffer=NUMBER`; what is
/// missing is as culprit would ask.
capture::StartMessage startFromOptions(const char *Options);

/// Whether the culprit that runs this command lives: as `live=NUMBER` of \p
/// Options says it holds a lock on a file beside the captures, which \p Pattern
/// names. Who was told of none need not look.
bool isAwaited(const char *Pattern, const char *Options);

/// \p Pattern with `%p` as the pid.
void capturePath(char *Path, size_t Size, const char *Pattern);

} // namespace culprit::agent

#endif // CULPRIT_AGENT_DESCRIBE_H
