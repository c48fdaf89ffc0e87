//===- CaptureFile.h - Reads a capture --------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Finds the frames of a capture and hands out their records. Takes any bytes:
/// what is damaged is stepped over and counted, what follows it is read.
///
/// Not for the agent: this uses the C++ library.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_CAPTURE_CAPTUREFILE_H
#define CULPRIT_CAPTURE_CAPTUREFILE_H

#include "Capture/Records.h"
#include <algorithm>
#include <cstring>
#include <map>
#include <string_view>
#include <vector>

namespace culprit::capture {

/// A frame whose checksum is right.
struct FrameView {
  Frame Head;
  const char *Payload; ///< Of Head.Payload bytes, not aligned.
  uint64_t Offset;     ///< Of the frame in the file.
};

/// Bytes that are no frame.
struct Gap {
  uint64_t Begin, Size;
};

/// What the agent said of itself.
struct StateView {
  StateHead Head;
  std::string_view What;
};

/// A capture in memory. Holds no copy: the bytes must outlive it.
class CaptureFile {
public:
  /// Whether \p Bytes begin as a capture does.
  static bool isCapture(std::string_view Bytes);

  /// Reads the frames of \p Bytes. Never fails: see the members below.
  explicit CaptureFile(std::string_view Bytes);

  const Superblock &head() const { return Head; }
  /// Whether the checksum of the superblock is right.
  bool isHeadGood() const { return HeadGood; }
  /// By sequence; a sequence that is there twice is there once.
  const std::vector<FrameView> &frames() const { return Frames; }
  /// By place.
  const std::vector<Gap> &gaps() const { return Gaps; }
  uint64_t gapBytes() const;
  /// Whether the file ends within a frame, or in zeros that were never written:
  /// as a killed process or a copy that was cut leaves it. Bytes of a frame
  /// that has its whole length are not cut but damaged.
  bool isTailCut() const { return TailCut; }
  /// Frames that the sequence says were there.
  uint64_t missingFrames() const { return Missing; }
  /// Records in whole frames that have no schema that is left.
  uint64_t recordsWithoutSchema() const { return WithoutSchema; }
  /// Whether the oldest part was to be written over when the file was full.
  bool isRing() const;
  bool isNewer() const { return Head.Major > MajorVersion; }

  /// How it ended; null when the process or the agent did not live to say so.
  const EndHead *end() const { return HasEnd ? &End : nullptr; }
  /// The totals of the End frame, by kind; 0 for others.
  uint64_t total(RecordKind Kind) const { return Totals[unsigned(Kind)]; }
  /// Likewise, what came of a kind before any was lost, and what of it a ring
  /// wrote over; as written and 0 in a file that does not tell.
  uint64_t seen(RecordKind Kind) const { return More[unsigned(Kind)].Seen; }
  uint64_t overwritten(RecordKind Kind) const {
    return More[unsigned(Kind)].Overwritten;
  }
  /// Of all kinds.
  uint64_t overwritten() const;
  /// CLOCK_REALTIME since when a ring that wrote over something has all, ns;
  /// else 0.
  uint64_t keptFrom() const { return Kept.KeptFrom; }
  /// The last word on what was lost; zeros when there was none.
  const Drops &drops() const { return Lost; }
  const std::vector<ClockSample> &clocks() const { return Clocks; }
  const std::vector<Heartbeat> &heartbeats() const { return Beats; }
  std::vector<StateView> states() const;

  /// Records of \p Kind in whole frames with a schema.
  uint64_t count(RecordKind Kind) const { return Counts[unsigned(Kind)]; }

  /// The text \p Id at \p Epoch; empty for 0 and for one that is lost.
  std::string_view text(uint32_t Epoch, uint32_t Id) const;

  /// The shape \p Id at \p Epoch of a KernelRecord; zeros for one that is lost.
  LaunchShape shape(uint32_t Epoch, uint32_t Id) const {
    LaunchShape S = {};
    std::string_view Bytes = text(Epoch, Id);
    if (!Bytes.empty())
      std::memcpy(&S, Bytes.data(), std::min(Bytes.size(), sizeof(S)));
    return S;
  }

  /// Calls \p F(const Record &, uint32_t Epoch, uint64_t Offset) for every
  /// record of a kind in the order of the file; fields that a file of another
  /// version lacks are 0.
  template <typename Record, typename Function> void each(Function F) const {
    for (const FrameView &V : Frames) {
      if (V.Head.Kind != uint16_t(Record::Kind) || !isRead(V))
        continue;
      const Layout *L = layout(V.Head.Epoch, Record::Kind);
      if (!L)
        continue;
      for (uint32_t I = 0; I < count(V, *L); ++I) {
        Record R = {};
        const char *From = V.Payload + size_t(I) * L->Size;
        if (L->Same)
          std::memcpy(&R, From, sizeof(R));
        else
          convert(*L, From, reinterpret_cast<char *>(&R));
        F(R, V.Head.Epoch, V.Offset);
      }
    }
  }

private:
  /// Where a file has the fields of a record.
  struct Move {
    uint32_t From, To;
    FieldType FromType, ToType;
  };
  struct Layout {
    uint32_t Size = 0;
    bool Same = false; ///< As the struct is.
    std::vector<Move> Moves;
  };

  /// Records, and those that the oldest part of a ring has from before it.
  bool isRead(const FrameView &V) const {
    return V.Head.Type == FrameType::Records ||
           (V.Head.Type == FrameType::Again && V.Head.Epoch == FirstAgain);
  }
  void scan(std::string_view Bytes);
  void order();
  void read();
  void readSchema(const FrameView &V);
  void readStrings(const FrameView &V);
  void readEnd(const FrameView &V);
  const Layout *layout(uint32_t Epoch, RecordKind Kind) const;
  static uint32_t count(const FrameView &V, const Layout &L);
  static void convert(const Layout &L, const char *From, char *To);

  Superblock Head = {};
  bool HeadGood = false, HasEnd = false, TailCut = false;
  EndHead End = {};
  Drops Lost = {};
  uint64_t Totals[MaxRecordKind + 1] = {};
  KindMore More[MaxRecordKind + 1] = {};
  EndMore Kept = {};
  uint32_t FirstAgain = ~0u; ///< The first epoch with such frames.
  uint64_t Counts[MaxRecordKind + 1] = {};
  uint64_t Missing = 0, WithoutSchema = 0;
  std::vector<FrameView> Frames;
  std::vector<Gap> Gaps;
  std::vector<ClockSample> Clocks;
  std::vector<Heartbeat> Beats;
  std::map<std::pair<uint32_t, uint16_t>, Layout> Layouts; ///< Epoch, kind.
  /// By epoch, then id - 1; ids count up from 1.
  std::map<uint32_t, std::vector<std::string_view>> Texts;
  /// Places that may still be made in Texts: as many as the bytes can fill, and
  /// one epoch's of strings that are lost. Else each epoch of a few damaged
  /// bytes would take 16 MiB.
  uint64_t TextRoom = 0;
};

} // namespace culprit::capture

#endif // CULPRIT_CAPTURE_CAPTUREFILE_H
