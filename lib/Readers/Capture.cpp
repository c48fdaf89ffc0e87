//===- Capture.cpp ----------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/Capture.h"
#include "Readers/CaptureParts.h"
#include "Readers/CollectiveOrder.h"
#include "llvm/Support/JSON.h"

using namespace llvm;
using namespace culprit::capture;

namespace culprit {

namespace cprt {

/// CUPTI's times are Unix times; what is before 1980 or after 2096 is none.
static constexpr uint64_t Earliest = 315532800000000000,
                          Latest = 4000000000000000000;

static bool isTime(uint64_t Time) { return Time >= Earliest && Time < Latest; }

std::optional<int64_t> Part::time(uint64_t Cupti) const {
  if (!isTime(Cupti))
    return std::nullopt;
  return static_cast<int64_t>(Cupti) - Base;
}

std::optional<Span> Part::span(uint64_t Start, uint64_t End) {
  std::optional<int64_t> From = time(Start), To = time(End);
  if (From && To && *To >= *From)
    return Span{*From, *To};
  ++Skipped;
  return std::nullopt;
}

std::string cleanText(std::string_view Text) {
  StringRef Given(Text.data(), Text.size());
  return json::isUTF8(Given) ? Given.str() : json::fixUTF8(Given);
}

StringId memoryKindOf(StringPool &Pool, uint32_t Kind) {
  static constexpr StringLiteral Names[] = {
      "pageable", "pinned", "device", "array", "managed", "device", "managed"};
  return Kind >= 1 && Kind <= std::size(Names) ? Pool.intern(Names[Kind - 1])
                                               : NullString;
}

/// A time near all records: when the capture began, or else its first record.
static int64_t baseOf(const CaptureFile &File) {
  if (isTime(File.head().Created))
    return static_cast<int64_t>(File.head().Created);
  uint64_t First = Latest;
  auto Take = [&](uint64_t Time) {
    if (isTime(Time))
      First = std::min(First, Time);
  };
  File.each<KernelRecord>(
      [&](const KernelRecord &R, uint32_t, uint64_t) { Take(R.start); });
  File.each<CallRecord>(
      [&](const CallRecord &R, uint32_t, uint64_t) { Take(R.start); });
  return First == Latest ? static_cast<int64_t>(Earliest)
                         : static_cast<int64_t>(First);
}

/// What other parts look up.
static void readKeys(Part &P) {
  P.File.each<ContextRecord>([&](const ContextRecord &R, uint32_t, uint64_t) {
    P.DeviceOfContext[R.context] = R.device;
  });
  // Of several kinds, that which PyTorch's profiler gives operators.
  constexpr uint32_t Custom0 = 3;
  P.External.reserve(P.File.count(RecordKind::External));
  P.File.each<ExternalRecord>([&](const ExternalRecord &R, uint32_t, uint64_t) {
    if (R.kind == Custom0)
      P.External[R.correlation] = R.external;
    else
      P.External.try_emplace(R.correlation, R.external);
  });
}

} // namespace cprt

Match CaptureReader::matches(const InputFile &File) const {
  StringRef Head = File.head();
  return CaptureFile::isCapture({Head.data(), Head.size()}) ? Match::Certain
                                                            : Match::No;
}

Error CaptureReader::read(InputFile &Input, Source &Into) const {
  Expected<StringRef> Bytes = Input.contents();
  if (!Bytes)
    return Bytes.takeError();
  StringRef Path = Input.path();
  if (Bytes->size() < SuperblockSize)
    return failure(Path + ": ends inside of its head, at byte " +
                       Twine(Bytes->size()) + " of " + Twine(SuperblockSize),
                   "the disk was full, or the copy of the file was cut short");
  CaptureFile File({Bytes->data(), Bytes->size()});
  // What is in a damaged head says nothing.
  if (File.isHeadGood() && File.isNewer())
    return failure(Path + ": is a capture of format " +
                       Twine(File.head().Major) + ", of which only " +
                       Twine(MajorVersion) + " is known here",
                   "read it with a culprit as new as the one that wrote it");
  if (File.isHeadGood() && File.head().ByteOrder != ByteOrder)
    return failure(Path + ": was written on a machine of another byte order",
                   "captures are little-endian");

  bool HasRank = File.isHeadGood() && File.head().Rank != ~0u;
  cprt::Part P = {File, Into, cprt::baseOf(File),
                  HasRank ? int64_t(File.head().Rank) : 0, {}, {}};
  cprt::readKeys(P);
  cprt::readDeviceWork(P);
  cprt::readPaging(P);
  cprt::readCalls(P);
  cprt::readSyncs(P);
  cprt::readRanges(P);
  cprt::readMemory(P);
  cprt::readPools(P);
  cprt::readProcess(P);
  cprt::readOverheads(P);
  cprt::remark(P, Path);
  // No viewer opens the file itself, so it has no time of its own.
  Into.EpochNs = P.Base;
  numberCollectives(Into);
  return Error::success();
}

} // namespace culprit
