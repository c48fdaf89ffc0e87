//===- CaptureCheck.cpp -----------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/CaptureCheck.h"
#include "Readers/CaptureParts.h"
#include "Support/Units.h"
#include "llvm/ADT/STLExtras.h"

using namespace llvm;
using namespace culprit::capture;

namespace culprit {

static std::string number(uint64_t Count) {
  return formatCount(
      static_cast<int64_t>(std::min<uint64_t>(Count, INT64_MAX)));
}

using cprt::counted;

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

class Checker {
public:
  explicit Checker(const CaptureFile &File)
      : File(File), Harm(cprt::damageOf(File)) {}
  CaptureCheck check();

private:
  void frames();
  void counts();
  void sums();
  void totals();
  void beforeDrops();
  void names();
  template <typename Record> void namesOf(uint32_t Record::*Field);
  void broken(const Twine &Text) { Out.Broken.push_back(Text.str()); }
  void note(const Twine &Text) { Out.Notes.push_back(Text.str()); }

  const CaptureFile &File;
  const cprt::Damage Harm;
  CaptureCheck Out;
  uint64_t Unnamed = 0;
  bool HasCount = false; ///< Of what was seen, at the end or before it.
  bool TellsSeen = false; ///< By kind, and what a ring wrote over.
};

} // namespace

void Checker::frames() {
  if (!File.isHeadGood())
    broken("the head does not fit its checksum");
  if (File.frames().empty())
    broken("there is no whole frame");
  // The last write of a process that is killed may be torn.
  if (Harm.IsTorn)
    note("the last frame is torn: the " + counted(Harm.TornBytes, "byte") +
         " from offset " + Twine(Harm.TornAt) +
         " on are lost; copy the file again if there is a whole one");
  if (!Harm.Places.empty()) {
    const Gap &First = Harm.Places.front();
    broken(counted(First.Size, "byte") + " at offset " + Twine(First.Begin) +
           " are damaged" +
           (Harm.Places.size() > 1
                ? "; so are " + counted(Harm.Places.size() - 1, "more place")
                : std::string()));
  }
  if (Harm.Missing)
    broken(counted(Harm.Missing, "frame") +
           (Harm.Missing == 1 ? " is" : " are") +
           " missing between those that are there");
  if (Harm.Overwritten)
    note("a ring: " + counted(Harm.Overwritten, "older frame") +
         (Harm.Overwritten == 1 ? " was" : " were") +
         " overwritten, as --ring asks for");
  if (uint64_t Lost = File.recordsWithoutSchema()) {
    if (File.head().Minor > MinorVersion)
      note(counted(Lost, "record") + " are of kinds that are newer than this "
                                     "culprit: read them with a newer one");
    else
      broken(counted(Lost, "record") +
             " cannot be read: what says how they are laid out is lost");
  }
}

/// For programs: the numbers that the rest is said of.
void Checker::counts() {
  const Drops &D = File.drops();
  uint64_t Lost = 0;
  for (const cprt::Loss &L : cprt::losses()) {
    Lost += D.*L.Count;
    Out.Losses.push_back({L.Name, L.Why, D.*L.Count});
  }
  if (HasCount)
    Out.Records = {D.Seen, D.Written, Lost, D.Unwanted};
  for (unsigned K = 1; K <= MaxRecordKind; ++K) {
    const RecordKind Id = RecordKind(K);
    if (!File.count(Id) && !File.total(Id) && !File.seen(Id))
      continue;
    CaptureCheck::Kind Kind = {kindName(K), {}, {}, {}, File.count(Id)};
    if (File.end())
      Kind.Written = File.total(Id);
    if (TellsSeen) {
      Kind.Seen = File.seen(Id);
      Kind.Overwritten = File.overwritten(Id);
    }
    Out.Kinds.push_back(Kind);
  }
}

void Checker::sums() {
  const Drops &D = File.drops();
  uint64_t Lost = D.Unwanted;
  for (const cprt::Loss &L : cprt::losses())
    Lost += D.*L.Count;
  if (D.Seen != D.Written + Lost)
    broken(counted(D.Seen, "record") + " seen, but " + number(D.Written) +
           " written and " + number(Lost) + " counted as lost or left out: " +
           (D.Seen > D.Written + Lost
                ? number(D.Seen - D.Written - Lost) + " unaccounted for"
                : number(D.Written + Lost - D.Seen) + " too many"));
  else if (HasCount) {
    uint64_t Gone = File.overwritten();
    Out.Sum = counted(D.Seen, "record") + " seen = " + number(D.Written) +
              " written + " + number(Lost) + " lost or left out";
    if (Gone)
      Out.Sum += "; of those written " + number(Gone) +
                 " were overwritten by newer ones, as --ring asks for";
  }
  for (const cprt::Loss &L : cprt::losses())
    if (uint64_t Count = D.*L.Count)
      note(cprt::lossText(Count, L.Why) + "; " + L.Next);
  if (D.Unwanted)
    note(counted(D.Unwanted, "record") +
         (D.Unwanted == 1 ? " was" : " were") +
         " left out: of kinds or calls that were not asked for; --kinds "
         "chooses them");
  if (D.ParseStopBytes)
    note(counted(D.ParseStopBytes, "byte") +
         " of CUPTI's buffers could not be read, and the records in them are "
         "not among those seen; this CUPTI may be newer than the agent");
  if (D.StringsFull)
    note(counted(D.StringsFull, "name") +
         " found no room and read <strings-full>; does the program put numbers "
         "into its range names?");
}

/// With an end: what it says was written is there, kind by kind.
void Checker::totals() {
  uint64_t Sum = 0;
  for (unsigned K = 1; K <= MaxRecordKind; ++K) {
    uint64_t Has = File.count(RecordKind(K)), Said = File.total(RecordKind(K));
    Sum += Said;
    uint64_t Gone = std::min(Said, File.overwritten(RecordKind(K)));
    if (File.isRing() && !TellsSeen ? Has > Said : Has != Said - Gone)
      broken(kindName(K) + ": " + counted(Has, "record") +
             " in the file, where its end counts " + number(Said - Gone));
  }
  if (Sum != File.end()->Lost.Written)
    broken("the end counts " + number(Sum) + " records by kind and " +
           number(File.end()->Lost.Written) + " in all");
}

/// Without an end: what was there when the last count was written.
void Checker::beforeDrops() {
  uint64_t Records = 0, Then = 0;
  for (const FrameView &V : File.frames()) {
    if (V.Head.Type == FrameType::Records)
      Records += V.Head.Count;
    if (V.Head.Type == FrameType::Drops)
      Then = Records;
  }
  if (HasCount && !Harm.Overwritten && Then != File.drops().Written)
    broken(counted(Then, "record") + " before the last count, which says " +
           number(File.drops().Written));
  if (Records != Then)
    note(counted(Records - Then, "record") +
         " came after the last count, so that it is not known whether any "
         "were lost with them");
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
  namesOf(&CallRecord::name);
  namesOf(&MarkerRecord::name);
  if (Unnamed)
    broken(counted(Unnamed, "record") + " name texts that are not in the file");
}

CaptureCheck Checker::check() {
  HasCount = File.end() || any_of(File.frames(), [](const FrameView &V) {
               return V.Head.Type == FrameType::Drops;
             });
  for (const FrameView &V : File.frames())
    if (V.Head.Type == FrameType::End && File.end())
      TellsSeen = V.Head.Payload >=
                  sizeof(EndHead) + uint64_t(File.end()->Kinds) *
                                        (sizeof(KindTotal) + sizeof(KindMore));
  frames();
  counts();
  sums();
  if (File.end()) {
    totals();
    note(("ended: " + cprt::endText(File.end()->Reason)).str());
  } else {
    beforeDrops();
    Out.Cut = true;
    note(Harm.Places.empty()
             ? "no end: the process was killed, or is still being recorded, or "
               "the file was cut; what is there can be used"
             : "no end: it may be in what is damaged");
  }
  names();
  return std::move(Out);
}

CaptureCheck checkCapture(const CaptureFile &File) {
  return Checker(File).check();
}

} // namespace culprit
