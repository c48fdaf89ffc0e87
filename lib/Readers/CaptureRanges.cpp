//===- CaptureRanges.cpp - NVTX ranges from their markers -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// CUPTI writes a record where a range begins and another where it ends, which
// have an id in common. They come from buffers of two threads when a range is
// ended by another thread than began it, so that the end may stand before the
// begin in the file. A range whose begin is missing was open when the capture
// began: neither its name nor its length is known, and it is counted only.
//
//===----------------------------------------------------------------------===//

#include "Readers/CaptureParts.h"
#include "Readers/KernelRoles.h"
#include "llvm/ADT/StringMap.h"

using namespace llvm;
using namespace culprit::capture;

namespace culprit::cprt {

namespace {

// CUpti_ActivityFlag of markers.
enum : uint32_t { Instant = 1, Begin = 2, End = 4 };
constexpr uint32_t ThreadObject = 2; ///< CUPTI_ACTIVITY_OBJECT_THREAD.

struct RangeName {
  std::string Text;
  StringId Category = NullString;
  std::optional<int64_t> Step;
  unsigned Stem = 0; ///< From 1; 0 is none.
};

struct Range {
  const RangeName *Name;
  StringId Domain;
  int64_t Start, Stop, Pid, Tid, Place;
  bool Mark;
};

class RangeReader {
public:
  explicit RangeReader(Part &P) : P(P), Names(P), Domains(P) {}
  void read();

private:
  using Key = std::pair<uint32_t, uint32_t>; // process, id
  void begin(const MarkerRecord &R, uint32_t Epoch, int64_t Place, bool Mark);
  void end(const MarkerRecord &R);
  void close(Range &Open, int64_t At);
  bool addOperator(const Range &R);
  void addRows();
  unsigned countingStem() const;

  Part &P;
  TextCache<RangeName> Names;
  TextCache<StringId> Domains;
  std::vector<Range> Ranges;
  std::map<Key, size_t> Open;     ///< Begun; the row of Ranges.
  std::map<Key, int64_t> EndOnly; ///< Ended before the begin was seen.
  StringMap<unsigned> Stems;
  std::vector<int64_t> StemTime{0};
};

} // namespace

void RangeReader::begin(const MarkerRecord &R, uint32_t Epoch, int64_t Place,
                        bool Mark) {
  std::optional<int64_t> At = P.time(R.at);
  if (!At) {
    ++P.Skipped;
    return;
  }
  const RangeName &Name =
      Names(Epoch, R.name, [&](RangeName &Out, std::string Text) {
        Out.Category = P.Into.pool().intern(rangeCategory(Text));
        Out.Step = stepNumber(Text);
        if (Out.Step) {
          // "train step " of "train step 12": what all of one kind share.
          StringRef Stem = StringRef(Text).rtrim("0123456789");
          auto [It, New] = Stems.try_emplace(Stem, StemTime.size());
          if (New)
            StemTime.push_back(0);
          Out.Stem = It->second;
        }
        Out.Text = std::move(Text);
      });
  StringId Domain =
      R.domain ? Domains(Epoch, R.domain,
                         [&](StringId &Out, const std::string &Text) {
                           Out = P.Into.pool().intern(Text);
                         })
               : NullString;
  bool OfThread = R.object == ThreadObject;
  Ranges.push_back({&Name, Domain, *At, Mark ? *At : NullInt,
                    int64_t(R.process), OfThread ? int64_t(R.thread) : NullInt,
                    Place, Mark});
  if (Mark)
    return;
  Key K = {R.process, R.id};
  if (auto It = EndOnly.find(K); It != EndOnly.end()) {
    close(Ranges.back(), It->second);
    EndOnly.erase(It);
  } else {
    Open[K] = Ranges.size() - 1;
  }
}

void RangeReader::close(Range &Opened, int64_t At) {
  // Ends before its begin: the id was used twice.
  if (At < Opened.Start)
    return;
  Opened.Stop = At;
  // Sums of damaged times would overflow.
  if (int64_t &Sum = StemTime[Opened.Name->Stem]; Opened.Name->Stem)
    Sum = std::min(Sum, INT64_MAX / 2) + (At - Opened.Start);
}

void RangeReader::end(const MarkerRecord &R) {
  std::optional<int64_t> At = P.time(R.at);
  if (!At) {
    ++P.Skipped;
    return;
  }
  Key K = {R.process, R.id};
  auto It = Open.find(K);
  if (It == Open.end()) {
    EndOnly[K] = *At;
    return;
  }
  close(Ranges[It->second], *At);
  Open.erase(It);
}

/// torch.autograd.profiler.emit_nvtx writes each operator as a range named
/// "aten::add, op_id = 314359" or "AddBackward0, seq = 7": those are operators
/// and not annotations, and 16,000 different names would help nobody.
bool RangeReader::addOperator(const Range &R) {
  StringRef Text = R.Name->Text;
  auto [Name, Rest] = Text.split(',');
  if (R.Stop == NullInt ||
      (!Rest.starts_with(" op_id = ") && !Rest.starts_with(" seq = ")))
    return false;
  TableBuilder &Row = P.Into.table(TableId::host_ops);
  Row.addRow();
  Row.set(host_ops::name, Name);
  Row.set(host_ops::category, "operator");
  Row.set(host_ops::start, R.Start);
  Row.set(host_ops::stop, R.Stop);
  Row.set(host_ops::dur, R.Stop - R.Start);
  Row.set(host_ops::rank, P.Rank);
  Row.set(host_ops::pid, R.Pid);
  if (R.Tid != NullInt)
    Row.set(host_ops::tid, R.Tid);
  if (size_t At = Rest.find("op_id = "); At != StringRef::npos) {
    StringRef Id = Rest.drop_front(At + 8);
    if (int64_t Number; !Id.consumeInteger(10, Number))
      Row.set(host_ops::external, Number);
  }
  if (size_t At = Rest.find("sizes = "); At != StringRef::npos)
    Row.set(host_ops::shapes,
            Rest.drop_front(At + 8).split(", input_op_ids").first);
  Row.set(host_ops::place, R.Place);
  return true;
}

/// Of the ways in which ranges of the user are numbered, the outermost counts
/// the steps: the name without its number of those that take longest in sum.
unsigned RangeReader::countingStem() const {
  std::map<StringRef, unsigned> Sorted; // a tie goes to the first name
  for (const auto &Entry : Stems)
    Sorted[Entry.getKey()] = Entry.second;
  unsigned Best = 0;
  int64_t Longest = -1;
  for (const auto &[Stem, Id] : Sorted)
    if (StemTime[Id] > Longest) {
      Longest = StemTime[Id];
      Best = Id;
    }
  return Best;
}

void RangeReader::addRows() {
  unsigned Counting = countingStem();
  StringId StepText = P.Into.pool().intern("step"),
           Annotation = P.Into.pool().intern("annotation");
  for (const Range &R : Ranges) {
    if (!R.Mark && addOperator(R))
      continue;
    bool IsStep = !R.Mark && Counting && R.Name->Stem == Counting;
    TableBuilder &Row = P.Into.table(TableId::ranges);
    Row.addRow();
    Row.set(ranges::name, StringRef(R.Name->Text));
    Row.setId(ranges::category, IsStep   ? StepText
                                : R.Mark ? Annotation
                                         : R.Name->Category);
    Row.set(ranges::start, R.Start);
    if (R.Stop != NullInt) {
      Row.set(ranges::stop, R.Stop);
      Row.set(ranges::dur, R.Stop - R.Start);
    }
    Row.set(ranges::rank, P.Rank);
    Row.set(ranges::pid, R.Pid);
    if (R.Tid != NullInt)
      Row.set(ranges::tid, R.Tid);
    if (R.Domain != NullString)
      Row.setId(ranges::domain, R.Domain);
    if (IsStep)
      Row.set(ranges::step, *R.Name->Step);
    Row.set(ranges::place, R.Place);
  }
}

void RangeReader::read() {
  int64_t Place = 0;
  P.File.each<MarkerRecord>([&](const MarkerRecord &R, uint32_t Epoch,
                                uint64_t) {
    int64_t Number = Place++;
    if (R.flags & (Instant | Begin))
      begin(R, Epoch, Number, R.flags & Instant);
    else if (R.flags & End)
      end(R);
    // Others belong to locks of the user.
  });
  addRows();
  P.LoneEnds = static_cast<int64_t>(EndOnly.size());
}

void readRanges(Part &P) { RangeReader(P).read(); }

} // namespace culprit::cprt
