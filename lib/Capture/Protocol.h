//===- Protocol.h - What culprit and the agent say --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Messages over a Unix stream socket. culprit listens on `control` in a
/// folder of the session, the agent connects. Agent: Hello. culprit: Start
/// with the open capture file as a passed descriptor. Agent: Started or Failed,
/// then Status about five times a second, Done at the end. culprit may send Stop.
/// A connection that breaks is a Stop.
///
/// The same layout on both sides: agent and culprit are of one version, which
/// Hello checks.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_CAPTURE_PROTOCOL_H
#define CULPRIT_CAPTURE_PROTOCOL_H

#include "Capture/Format.h"
#include "Capture/Records.h"

namespace culprit::capture {

inline constexpr uint32_t ProtocolVersion = 3;
inline constexpr uint32_t MessageMagic = 0x4d525043; // "CPRM"

/// Names in the session's folder.
inline constexpr char AgentFile[] = "libculprit-agent.so";
inline constexpr char ControlFile[] = "control";
/// Of a recorded command: the path of the control socket, and the pattern of
/// the capture's path for a process that cannot reach it (`%p` is the pid).
inline constexpr char ControlVariable[] = "CULPRIT_CONTROL";
inline constexpr char FallbackVariable[] = "CULPRIT_CAPTURE";
/// StartMessage::CuptiPath, for NVTX, which may begin before the agent.
inline constexpr char CuptiVariable[] = "CULPRIT_CUPTI";
/// What Start would have said, for that process: `key=value` by commas.
inline constexpr char OptionsVariable[] = "CULPRIT_OPTIONS";
/// Called by the injector in an agent that is loaded already, with the path of
/// a session's folder; begins another session. 0 is success.
inline constexpr char BeginSymbol[] = "culprit_agent_begin";
/// A string of the agent's version, to tell it in a process.
inline constexpr char VersionSymbol[] = "culprit_agent_version";

enum class MessageType : uint16_t {
  Hello = 1,
  Start = 2,
  Started = 3,
  Failed = 4,
  Status = 5,
  Stop = 6,
  Done = 7,
};

struct MessageHead {
  uint32_t Magic;
  MessageType Type;
  uint16_t Size; ///< Of the body behind it.
};

struct HelloMessage {
  uint32_t Protocol;
  uint32_t Pid;    ///< As the process sees it.
  uint32_t Thread; ///< Of the agent, likewise.
  Entry How;
  uint32_t Sessions; ///< That ended before in this process.
  uint32_t Unused;
  char Agent[64];
  char CuptiPath[256]; ///< Already in the process; empty when none is.
};

/// What is recorded unless told otherwise: neither GraphLaunch, which hides the
/// kernels of a graph, nor External, Event and Paging, which cost and are rarely
/// needed.
inline constexpr uint64_t DefaultKinds =
    ((uint64_t(1) << (MaxRecordKind + 1)) - 2) &
    ~(uint64_t(1) << unsigned(RecordKind::GraphLaunch) |
      uint64_t(1) << unsigned(RecordKind::External) |
      uint64_t(1) << unsigned(RecordKind::Event) |
      uint64_t(1) << unsigned(RecordKind::Paging));
inline constexpr uint64_t DefaultMaxSize = uint64_t(2) << 30;
/// Of a ring: less has no room for two parts with what is under way.
inline constexpr uint64_t LeastRingSize = uint64_t(4) << 20;
inline constexpr uint64_t DefaultPoolBytes = uint64_t(128) << 20;
inline constexpr uint64_t DefaultBufferBytes = uint64_t(1) << 20;

struct StartMessage {
  uint64_t Kinds;       ///< Bit set of RecordKind.
  uint64_t MaxSize;     ///< Bytes; 0 is no limit.
  uint64_t PoolBytes;   ///< Memory for buffers of records.
  uint64_t BufferBytes; ///< Of one.
  FullPolicy Full;
  uint32_t AllDriverCalls; ///< Not only launches, copies and syncs.
  uint32_t Finalize;       ///< 1: cuptiFinalize at the end where it is safe.
  uint32_t WaitForCuda;    ///< ms to wait for a process that has no CUDA yet.
  char CuptiPath[256];     ///< To load when the process has none.
};

struct StartedMessage {
  uint32_t Cupti, Driver;
  uint64_t EnableTime; ///< ns from Start to the last kind enabled.
  uint64_t Kinds;      ///< Bit set of those that could be enabled.
  char CuptiPath[256];
};

struct FailedMessage {
  StateCode Code;
  uint32_t Result;
  char What[496];
};

struct StatusMessage {
  uint64_t At;              ///< CLOCK_REALTIME, ns.
  uint64_t Seen[MaxRecordKind + 1]; ///< By RecordKind since the start.
  uint64_t Kept[MaxRecordKind + 1]; ///< Of them, what is in the file now.
  uint64_t Overwritten; ///< Records that a ring wrote over.
  uint64_t KeptFrom;    ///< See EndMore.
  uint64_t BusyTime;        ///< Sum of kernel and copy durations, ns; not their
                            ///< union.
  uint64_t BytesWritten;
  uint64_t AgentCpu;        ///< ns.
  uint32_t BuffersInUse, Buffers;
  Drops Lost;
};

struct DoneMessage {
  EndReason Reason;
  StateCode Detach;       ///< SoftDetach or FullDetach.
  uint64_t FinishTime;    ///< ns from Stop to here.
  StatusMessage Last;
  char What[256];         ///< What the user must know of it, or empty.
};

} // namespace culprit::capture

#endif // CULPRIT_CAPTURE_PROTOCOL_H
