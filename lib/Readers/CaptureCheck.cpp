//===- CaptureCheck.cpp -----------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/CaptureCheck.h"
#include "Readers/CaptureParts.h"
#include "Support/Units.h"

using namespace llvm;
using namespace culprit::capture;

namespace culprit {

static std::string number(uint64_t Count) {
  return formatCount(
      static_cast<int64_t>(std::min<uint64_t>(Count, INT64_MAX)));
}

static std::string counted(uint64_t Count, StringRef What) {
  return number(Count) + " " + What.str() + (Count == 1 ? "" : "s");
}

static StringRef kindName(unsigned Kind) {
  switch (RecordKind(Kind)) {
#define CAPTURE_RECORD(Id, Number, Name)                                       \
  case RecordKind::Id:                                                         \
    return Name;
#include "Capture/Records.def"
  }
  return "unknown";
}

namespace {

/// A reason for which records are not in the file.
struct Loss {
  uint64_t Drops::*Count;
  StringLiteral Why;
};
constexpr Loss Losses[] = {
    {&Drops::CuptiDropped, "CUPTI had no room for"},
    {&Drops::PoolOverflow, "found all buffers of the agent in use"},
    {&Drops::ZeroTime, "are kernels that CUPTI could not time"},
    {&Drops::FileCap, "came after the file was full"},
    {&Drops::WriteError, "could not be written"},
    {&Drops::Unwanted, "were not asked for"},
};

class Checker {
public:
  explicit Checker(const CaptureFile &File) : File(File) {}
  CaptureCheck check();

private:
  void frames();
  void sums();
  void totals();
  void beforeDrops();
  void names();
  template <typename Record> void namesOf(uint32_t Record::*Field);
  void broken(const Twine &Text) { Out.Broken.push_back(Text.str()); }
  void note(const Twine &Text) { Out.Notes.push_back(Text.str()); }

  /// Whether older rounds were overwritten, as was asked for.
  bool isRing() const {
    return !File.frames().empty() && File.frames().back().Head.Epoch > 0;
  }

  const CaptureFile &File;
  CaptureCheck Out;
  uint64_t Unnamed = 0;
};

} // namespace

void Checker::frames() {
  if (!File.isHeadGood())
    broken("the head does not fit its checksum");
  if (File.frames().empty())
    broken("there is no whole frame");
  // The last write of a process that is killed may be torn.
  bool Torn = !File.end() && File.gaps().size() == 1 && !File.missingFrames();
  if (Torn)
    note("the last frame is torn: " + counted(File.gapBytes(), "byte") +
         " at offset " + Twine(File.gaps()[0].Begin));
  else if (!isRing())
    for (const Gap &G : File.gaps()) {
      broken(counted(G.Size, "byte") + " at offset " + Twine(G.Begin) +
             " are no frame" +
             (File.gaps().size() > 1
                  ? "; there are " + number(File.gaps().size() - 1) + " more"
                  : std::string()));
      break;
    }
  if (File.missingFrames() && !isRing())
    broken(counted(File.missingFrames(), "frame") +
           (File.missingFrames() == 1 ? " is" : " are") +
           " missing between those that are there");
  if (isRing())
    note("a ring: " + counted(File.missingFrames(), "older frame") +
         (File.missingFrames() == 1 ? " was" : " were") + " overwritten");
  if (uint64_t Lost = File.recordsWithoutSchema()) {
    if (File.head().Minor > MinorVersion)
      note(counted(Lost, "record") + " are of kinds that are newer than this "
                                     "culprit");
    else
      broken(counted(Lost, "record") + " have no layout");
  }
}

void Checker::sums() {
  const Drops &D = File.drops();
  uint64_t Lost = 0;
  for (const Loss &L : Losses)
    Lost += D.*L.Count;
  Out.Sum = counted(D.Seen, "record") + " seen = " + number(D.Written) +
            " written + " + number(Lost) + " lost or left out";
  if (D.Seen != D.Written + Lost) {
    Out.Sum.clear();
    broken(counted(D.Seen, "record") + " seen, but " + number(D.Written) +
           " written and " + number(Lost) + " counted as lost or left out: " +
           (D.Seen > D.Written + Lost
                ? number(D.Seen - D.Written - Lost) + " unaccounted for"
                : number(D.Written + Lost - D.Seen) + " too many"));
  }
  for (const Loss &L : Losses)
    if (D.*L.Count)
      note(counted(D.*L.Count, "record") + " " + L.Why);
  if (D.ParseStopBytes)
    note(counted(D.ParseStopBytes, "byte") +
         " of CUPTI's buffers could not be read; the records in them are not "
         "among those seen");
  if (D.StringsFull)
    note(counted(D.StringsFull, "name") + " found no room");
}

/// With an end: what it says was written is there, kind by kind.
void Checker::totals() {
  uint64_t Sum = 0;
  for (unsigned K = 1; K <= MaxRecordKind; ++K) {
    uint64_t Has = File.count(RecordKind(K)), Said = File.total(RecordKind(K));
    Sum += Said;
    if (isRing() ? Has > Said : Has != Said)
      broken(kindName(K) + ": " + number(Has) + " in the file, " +
             number(Said) + " by its end");
  }
  if (Sum != File.end()->Lost.Written)
    broken("the end counts " + number(Sum) + " records by kind and " +
           number(File.end()->Lost.Written) + " in all");
}

/// Without an end: what was there when the last count was written.
void Checker::beforeDrops() {
  uint64_t Records = 0, Then = 0, Frames = 0;
  bool Any = false;
  for (const FrameView &V : File.frames()) {
    if (V.Head.Type == FrameType::Records)
      Records += V.Head.Count;
    if (V.Head.Type == FrameType::Drops) {
      Then = Records;
      Any = true;
    }
    ++Frames;
  }
  if (Any && !isRing() && Then != File.drops().Written)
    broken(number(Then) + " records before the last count, which says " +
           number(File.drops().Written));
  if (Records != Then)
    note(counted(Records - Then, "record") + " after the last count");
}

template <typename Record> void Checker::namesOf(uint32_t Record::*Field) {
  File.each<Record>([&](const Record &R, uint32_t Epoch, uint64_t) {
    // An empty text that is there is not null.
    if (R.*Field && !File.text(Epoch, R.*Field).data())
      ++Unnamed;
  });
}

void Checker::names() {
  namesOf(&KernelRecord::name);
  namesOf(&KernelRecord::shape);
  namesOf(&KernelRecord::shape);
  namesOf(&CallRecord::name);
  namesOf(&MarkerRecord::name);
  if (Unnamed)
    broken(counted(Unnamed, "record") + " name texts that are not in the file");
}

CaptureCheck Checker::check() {
  frames();
  sums();
  if (File.end()) {
    totals();
    note(("ended: " + cprt::endText(File.end()->Reason)).str());
  } else {
    beforeDrops();
    note("no end: the process was killed, or is still being recorded");
  }
  names();
  return std::move(Out);
}

CaptureCheck checkCapture(const CaptureFile &File) {
  return Checker(File).check();
}

} // namespace culprit
