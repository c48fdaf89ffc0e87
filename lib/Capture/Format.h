//===- Format.h - The capture file ------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// The layout of a capture, `*.cprt`: a superblock of 4 KiB, then frames one
/// after the other. A frame is one write(2), so that a process that dies
/// leaves whole frames and at most one torn one. Frames say what they hold:
/// the schema of a kind of record comes before its first record, a string
/// before its first use.
///
/// Plain C++ without a library: this is compiled into the agent, which lives in
/// other people's processes. All numbers are little-endian.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_CAPTURE_FORMAT_H
#define CULPRIT_CAPTURE_FORMAT_H

#include <stddef.h>
#include <stdint.h>

namespace culprit::capture {

inline constexpr char Magic[8] = {'C', 'P', 'R', 'T', '1', 0, 0, 0};
inline constexpr uint16_t MajorVersion = 1; ///< Readers refuse a higher one.
inline constexpr uint16_t MinorVersion = 1; ///< Readers take any.
inline constexpr uint32_t ByteOrder = 0x01020304;
inline constexpr size_t SuperblockSize = 4096;
inline constexpr uint32_t FrameMagic = 0x46525043; // "CPRF"
inline constexpr uint32_t MaxPayload = 1u << 20;
inline constexpr size_t FrameAlign = 8;

/// What to do when the file reaches its limit.
enum class FullPolicy : uint32_t { Stop = 0, Ring = 1 };

/// How the agent came into the process.
enum class Entry : uint32_t { Attached = 1, Launched = 2 };

/// The first 4 KiB. Texts end with a zero byte and are cut when too long.
struct Superblock {
  char Magic[8];
  uint16_t Major, Minor;
  uint32_t ByteOrder;
  uint8_t Uuid[16];
  uint8_t BootId[16];
  uint32_t Pid;          ///< As the process itself sees it.
  uint32_t Parent;
  uint64_t ProcessStart; ///< Field 22 of /proc/PID/stat, clock ticks.
  uint64_t Created;      ///< CLOCK_REALTIME, ns.
  uint32_t Cupti;        ///< cuptiGetVersion, 0 when there was none.
  uint32_t Driver;       ///< cuDriverGetVersion, 13000 is 13.0.
  Entry How;
  uint32_t Rank;         ///< From RANK or similar; ~0u when not told.
  uint64_t Kinds;        ///< Bit set of RecordKind that were asked for.
  char Agent[64];        ///< Version of the agent.
  char Host[64];
  char Executable[256];
  char CuptiPath[256];
  char Command[1024];    ///< Arguments separated by single blanks.
  FullPolicy Full;       ///< From minor version 1 on.
  uint8_t Reserved[SuperblockSize - 1772];
  uint32_t Reserved2;
  uint32_t Crc; ///< CRC-32C of all bytes before.
};
static_assert(sizeof(Superblock) == SuperblockSize);

enum class FrameType : uint16_t {
  Schema = 1,    ///< SchemaHead, then its SchemaField rows.
  Strings = 2,   ///< StringHead and its bytes, repeated, each 4-aligned; texts,
                 ///< and LaunchShape as its bytes.
  Records = 3,   ///< Frame::Kind says of what; an array of fixed size.
  Clock = 4,     ///< An array of ClockSample.
  Drops = 5,     ///< Drops, totals since the start.
  State = 6,     ///< StateHead and a text: what went wrong in the agent.
  Heartbeat = 7, ///< Heartbeat, once a second.
  End = 8,       ///< EndHead, KindTotal rows, as many KindMore, EndMore.
  // 9 was never written.
  Again = 10,    ///< As Records, of a ring: what was written before and names
                 ///< devices, contexts, streams, threads. Counted nowhere.
};

/// Before each payload; payloads are padded with zeros to FrameAlign, padding
/// not counted in Payload.
struct Frame {
  uint32_t Magic;
  FrameType Type;
  uint16_t Kind;    ///< RecordKind of Records and Schema frames, else 0.
  uint32_t Payload; ///< Bytes, at most MaxPayload.
  uint32_t Count;   ///< Records, strings or samples in it.
  uint64_t Sequence; ///< 0, 1, 2, ... over the capture.
  uint32_t Epoch;   ///< Counts up when strings and schemas begin anew.
  uint32_t Crc;     ///< CRC-32C of the 28 bytes before and the payload.
};
static_assert(sizeof(Frame) == 32);

enum class FieldType : uint8_t { U8, U16, U32, U64, I32, I64, F64, String };

struct SchemaHead {
  uint32_t Size; ///< Of a record, bytes.
  uint32_t Fields;
  char Name[24];
};
struct SchemaField {
  char Name[26];
  FieldType Type;
  uint8_t Unused;
  uint32_t Offset;
};
static_assert(sizeof(SchemaHead) == 32 && sizeof(SchemaField) == 32);

struct StringHead {
  uint32_t Id; ///< From 1; 0 is no string.
  uint32_t Size;
};

struct ClockSample {
  uint64_t Realtime, Monotonic, MonotonicRaw; ///< ns.
  uint64_t Cupti; ///< cuptiGetTimestamp, ns; 0 when it failed.
};

/// What was seen but is not in the file, in records unless told otherwise.
/// Seen == written + the record counters, kept by the agent and checked by
/// `culprit verify`.
struct Drops {
  uint64_t Seen;         ///< Records that CUPTI handed over or says it lost.
  uint64_t Written;
  uint64_t CuptiDropped; ///< By cuptiActivityGetNumDroppedRecords.
  uint64_t PoolOverflow; ///< No free buffer: CUPTI got a spare one or none.
  uint64_t ZeroTime;     ///< Kernels without a start or end.
  uint64_t FileCap;      ///< After --max-size.
  uint64_t WriteError;   ///< In frames that could not be written.
  uint64_t Unwanted;     ///< Of kinds or calls that were not asked for.
  uint64_t ParseStopBytes; ///< Bytes of buffers that could not be walked.
  uint64_t StringsFull;  ///< Names that became "<strings-full>"; not lost.
};

enum class StateCode : uint32_t {
  Note = 0,
  CuptiMissing = 1,   ///< No libcupti was found.
  CuptiFailed = 2,    ///< A CUPTI call failed; the text names it.
  SubscriberBusy = 3, ///< Another tool has CUPTI; the text names it.
  KindRefused = 4,    ///< One kind could not be enabled.
  FileFailed = 5,
  SoftDetach = 6, ///< CUPTI stays attached, idle.
  FullDetach = 7, ///< cuptiFinalize was called.
  Forked = 8,     ///< This process is a child; its agent is off.
  Late = 9,       ///< The program was not kept until all kinds were enabled;
                  ///< the text says from when on they are.
};
struct StateHead {
  StateCode Code;
  uint32_t Result; ///< CUptiResult or errno, 0 when there is none.
  uint64_t At;     ///< CLOCK_REALTIME, ns.
};

struct Heartbeat {
  uint64_t At;           ///< CLOCK_REALTIME, ns.
  uint64_t AgentCpu;     ///< CPU time of the agent's thread, ns.
  uint64_t BuffersInUse; ///< Of the pool.
  uint64_t BytesWritten;
};

enum class EndReason : uint32_t {
  Detached = 1, ///< Asked to.
  Duration = 2,
  Exit = 3,     ///< The process ended by itself.
  FileFull = 4,
  ControlLost = 5, ///< culprit went away.
  Failed = 6,
};
struct EndHead {
  EndReason Reason;
  uint32_t Kinds;
  uint64_t At; ///< CLOCK_REALTIME, ns.
  Drops Lost;
};
struct KindTotal {
  uint32_t Kind;
  uint32_t Unused;
  uint64_t Written; ///< Over all rounds of a ring.
};
/// Of the kind of the KindTotal with the same number.
struct KindMore {
  uint64_t Seen;        ///< Of those asked for, before any was lost.
  uint64_t Overwritten; ///< Of those written, what a ring wrote over.
};
struct EndMore {
  uint64_t KeptFrom; ///< CLOCK_REALTIME of what is oldest in a ring, ns; 0 when
                     ///< nothing was overwritten.
};

/// CRC-32C (Castagnoli) of \p Size bytes at \p Data, going on from \p Crc.
uint32_t crc32c(uint32_t Crc, const void *Data, size_t Size);

} // namespace culprit::capture

#endif // CULPRIT_CAPTURE_FORMAT_H
