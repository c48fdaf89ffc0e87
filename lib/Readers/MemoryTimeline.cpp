//===- MemoryTimeline.cpp ---------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The format is that of torch/profiler/_memory_profiler.py. Categories have
// the order of _CATEGORY_TO_COLORS, not of the enumeration. A time of -1 says
// that the memory was there before the record began. INCREMENT_VERSION is
// written as two events: the memory leaves one category and enters another.
//
//===----------------------------------------------------------------------===//

#include "Readers/MemoryTimeline.h"
#include "Readers/ScalarRows.h"
#include "Support/Units.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include <array>

using namespace llvm;

namespace culprit {

static constexpr StringLiteral Categories[] = {
    "parameter",  "optimizer-state", "input",    "temporary",
    "activation", "gradient",        "autograd", "unknown"};
static constexpr size_t NumCategories = std::size(Categories);
/// Of Action, from 1.
static constexpr StringLiteral Actions[] = {"preexisting", "alloc", "version",
                                            "free_requested"};
/// No device has a PiB, and sums of so many stay within int64.
static constexpr int64_t MaxBytes = int64_t(1) << 50;
/// Later than any clock, in ns.
static constexpr int64_t MaxTime = int64_t(4) * 1000000000000000000;
/// Times from here on are Unix times: 1973 in ns.
static constexpr int64_t UnixNs = 100'000'000'000'000'000;
/// Rows of more would not fit the memory that a small archive can ask for.
static constexpr size_t MaxTimelineRows = 20'000'000;

namespace {

/// Lists of whole numbers, in pieces of any size and in constant memory.
/// Anything else between commas is a value that is no number.
class NumberLists {
public:
  struct Sink {
    virtual ~Sink() = default;
    /// False stops the parse.
    virtual bool open(unsigned Depth) = 0;
    virtual bool close(unsigned Depth) = 0;
    virtual bool value(std::optional<int64_t> Value, unsigned Depth) = 0;
  };

  explicit NumberLists(Sink &Out) : Out(Out) {}

  /// False when the sink had enough, or the outermost list has ended.
  bool feed(StringRef Piece) {
    for (char C : Piece) {
      if (isDigit(C) || C == '-') {
        if (Length < sizeof(Word))
          Word[Length++] = C;
        else
          Odd = true;
        continue;
      }
      if (C == ' ' || C == '\n' || C == '\r' || C == '\t')
        continue;
      if (C != ',' && C != '[' && C != ']') {
        Odd = true;
        continue;
      }
      if (!endWord())
        return false;
      // What nests deeper than any form is kept in count, not in memory.
      if (C == '[' && !Out.open(++Depth))
        return false;
      if (C == ']') {
        if (Depth == 0 || !Out.close(Depth))
          return false;
        if (--Depth == 0)
          return false;
      }
    }
    return true;
  }
  unsigned depth() const { return Depth; }

private:
  bool endWord() {
    if (Length == 0 && !Odd)
      return true;
    std::optional<int64_t> Value;
    int64_t Number;
    if (!Odd && !StringRef(Word, Length).getAsInteger(10, Number))
      Value = Number;
    Length = 0;
    Odd = false;
    return Out.value(Value, Depth);
  }

  Sink &Out;
  char Word[20];
  size_t Length = 0;
  bool Odd = false;
  unsigned Depth = 0;
};

} // namespace

/// Whether \p Row may be an event: [ns, action, bytes, category].
static bool isEvent(ArrayRef<int64_t> Row) {
  if (Row.size() != 4)
    return false;
  auto [Time, Action, Bytes, Category] =
      std::array<int64_t, 4>{Row[0], Row[1], Row[2], Row[3]};
  if (Time < -1 || Time > MaxTime || Action < 1 || Action > 4 ||
      Category < 0 || Category >= static_cast<int64_t>(NumCategories) ||
      Bytes < -MaxBytes || Bytes > MaxBytes)
    return false;
  return Action == 3 || (Action == 4 ? Bytes <= 0 : Bytes >= 0);
}

/// Whether \p Row may be the sizes at one time: 0, then one a category.
static bool isSizes(ArrayRef<int64_t> Row) {
  return Row.size() == NumCategories + 1 && Row[0] == 0 &&
         all_of(Row, [](int64_t Bytes) {
           return Bytes >= -MaxBytes && Bytes <= MaxBytes;
         });
}

namespace {

enum class TimelineForm { None, Raw, Sizes, Picture };

/// Looks at the first lists of a file.
class FormFinder : public NumberLists::Sink {
public:
  bool open(unsigned Depth) override {
    Row.clear();
    IsRow = Depth == 2 || Depth == 3;
    return Depth <= 3;
  }
  bool value(std::optional<int64_t> Value, unsigned Depth) override {
    // The times of the other form fill the head.
    if (Depth == 2 && Lists == 0 && Value) {
      Ascending &= *Value >= Last;
      Last = *Value;
      ++Numbers;
    }
    if (Row.size() < 16)
      Row.push_back(Value.value_or(INT64_MIN));
    return Depth >= 1;
  }
  bool close(unsigned Depth) override {
    if (!IsRow)
      return Depth > 1;
    IsRow = false;
    ++Lists;
    // Four small numbers may be anybody's; these carry a Unix time in ns.
    Events += Depth == 2 && isEvent(Row) && (Row[0] < 0 || Row[0] > UnixNs);
    Sizes += Depth == 3 && isSizes(Row);
    return Lists < 64;
  }

  TimelineForm found() const {
    // One damaged event among the first is no reason to give up the file.
    if (Events && Events * 4 >= Lists * 3)
      return TimelineForm::Raw;
    bool Times = Ascending && Numbers && Last > 0;
    if (Times && Lists > 1 && Sizes * 4 >= (Lists - 1) * 3)
      return TimelineForm::Sizes;
    // Microseconds of this century, hundreds of them and nothing else.
    return Times && Lists == 0 && Numbers >= 256 && Last > UnixNs / 1000 &&
                   Last < MaxTime / 1000
               ? TimelineForm::Sizes
               : TimelineForm::None;
  }

private:
  SmallVector<int64_t, 16> Row;
  bool IsRow = false, Ascending = true;
  int64_t Last = INT64_MIN;
  size_t Lists = 0, Events = 0, Sizes = 0, Numbers = 0;
};

} // namespace

static TimelineForm timelineFormOf(StringRef Head) {
  Head.consume_front("\xEF\xBB\xBF");
  Head = Head.ltrim();
  if (Head.starts_with("<html") &&
      Head.take_front(512).contains("<title>GPU Memory Timeline HTML</title>"))
    return TimelineForm::Picture;
  if (!Head.consume_front("[") || !Head.ltrim().starts_with("["))
    return TimelineForm::None;
  FormFinder Finder;
  NumberLists Lists(Finder);
  Lists.feed("[");
  Lists.feed(Head);
  return Finder.found();
}

Match MemoryTimelineReader::matches(const InputFile &File) const {
  return timelineFormOf(File.head()) == TimelineForm::None ? Match::No
                                                           : Match::Certain;
}

namespace {

/// Makes rows of the events of one file.
class TimelineRows : public NumberLists::Sink {
public:
  TimelineRows(TimelineForm Kind, Source &S)
      : Kind(Kind), S(S), Row(S.table(TableId::memory_events)),
        Rank(rankOfPath(S.path())) {
    S.KeepRanks = true; // without a rank in its name a file claims none
    for (StringRef Name : Actions)
      ActionIds.push_back(Row.intern(Name));
    for (StringRef Name : Categories)
      CategoryIds.push_back(Row.intern(Name));
  }

  bool open(unsigned Depth) override {
    if (Depth > RowDepth()) {
      Broken = true; // the row that it is in
      return true;
    }
    Values.clear();
    IsRow = Depth == RowDepth() && !InTimes();
    Broken = false;
    return true;
  }
  bool value(std::optional<int64_t> Value, unsigned Depth) override;
  bool close(unsigned Depth) override;

  /// Says what was left out. \p Open: the text ended inside a list.
  Error finish(bool Open);

private:
  unsigned RowDepth() const { return Kind == TimelineForm::Raw ? 2 : 3; }
  bool InTimes() const { return Kind == TimelineForm::Sizes && !TimesRead; }
  void skip() {
    if (Skipped++ == 0)
      FirstSkipped = Number;
  }
  void add(int64_t At, int64_t Bytes, size_t Category, StringId Action);
  void addSizes();

  TimelineForm Kind;
  Source &S;
  TableBuilder &Row;
  std::optional<int64_t> Rank;
  std::vector<StringId> ActionIds, CategoryIds;
  SmallVector<int64_t, 16> Values; ///< Of the list that is open.
  bool IsRow = false, Broken = false, TimesRead = false, Full = false;
  std::vector<int64_t> Times; ///< Of the form with sizes, in us; -1 is broken.
  std::array<int64_t, NumCategories> Sizes{};
  int64_t Total = 0;
  int64_t Number = 0; ///< Of the list that is open or comes next.
  size_t Skipped = 0;
  int64_t FirstSkipped = 0;
  std::optional<int64_t> FirstTime; ///< The earliest, in ns.
};

} // namespace

bool TimelineRows::value(std::optional<int64_t> Value, unsigned Depth) {
  if (InTimes() && Depth == 2) {
    if (Times.size() == MaxTimelineRows)
      return !(Full = true);
    bool Good = Value && *Value >= 0 && *Value <= MaxTime / 1000;
    Times.push_back(Good ? *Value : -1);
    return true;
  }
  if (!IsRow || Depth != RowDepth() || !Value)
    Broken = true;
  else if (Values.size() < 16)
    Values.push_back(*Value);
  return true;
}

bool TimelineRows::close(unsigned Depth) {
  if (InTimes() && Depth == 2) {
    TimesRead = true;
    return true;
  }
  if (Depth != RowDepth() || !IsRow)
    return true;
  IsRow = false;
  if (Kind == TimelineForm::Sizes)
    addSizes();
  else if (Broken || !isEvent(Values))
    skip();
  else
    add(Values[0] < 0 ? NullInt : Values[0], Values[2],
        static_cast<size_t>(Values[3]), ActionIds[Values[1] - 1]);
  ++Number;
  return !(Full = Row.rows() >= MaxTimelineRows);
}

void TimelineRows::add(int64_t At, int64_t Bytes, size_t Category,
                       StringId Action) {
  Total = static_cast<int64_t>(static_cast<uint64_t>(Total) +
                               static_cast<uint64_t>(Bytes));
  Row.addRow();
  if (At != NullInt && (!FirstTime || At < *FirstTime))
    FirstTime = At;
  Row.set(memory_events::at, At);
  Row.set(memory_events::bytes, Bytes);
  if (Rank)
    Row.set(memory_events::rank, *Rank);
  Row.set(memory_events::allocated, Total);
  Row.set(memory_events::place, Number);
  Row.setId(memory_events::action, Action);
  Row.setId(memory_events::category, CategoryIds[Category]);
}

/// Adds what changed since the time before. What shrinks comes first, so that
/// memory that moves from one category to another makes no peak of its own.
void TimelineRows::addSizes() {
  size_t At = static_cast<size_t>(Number);
  if (Broken || !isSizes(Values) || At >= Times.size() || Times[At] < 0)
    return skip();
  // PyTorch gives what was there before the first time, in a row of its own.
  StringId Action = At == 0 && Times.size() > 1 && Times[0] == Times[1]
                        ? ActionIds[0]
                        : NullString;
  for (bool Shrinks : {true, false})
    for (size_t I = 0; I != NumCategories; ++I)
      if (int64_t Change = Values[I + 1] - Sizes[I];
          Change != 0 && (Change < 0) == Shrinks) {
        add(Times[At] * 1000, Change, I, Action);
        Sizes[I] = Values[I + 1];
      }
}

Error TimelineRows::finish(bool Open) {
  std::string Path = S.path();
  if (Skipped)
    S.warn(Path + ": " + formatCount(Skipped) + " of " + formatCount(Number) +
               (Kind == TimelineForm::Raw ? " events" : " rows of sizes") +
               " are not what PyTorch writes, the first is number " +
               Twine(FirstSkipped),
           "they were skipped, so totals may be wrong; export the timeline "
           "again");
  if (Full)
    S.warn(Path + ": has more than " + formatCount(MaxTimelineRows) +
               " events; the rest was left",
           "record fewer steps");
  else if (Open)
    S.warn(Path + ": breaks off inside number " + Twine(Number),
           "what came before it was read; the export did not end or the copy "
           "is not whole");
  else if (Kind == TimelineForm::Sizes &&
           static_cast<size_t>(Number) < Times.size())
    S.warn(Path + ": has " + formatCount(Times.size()) + " times and " +
               formatCount(Number) + " rows of sizes",
           "the times without sizes were left out; export the timeline again");
  if (Row.rows() == 0)
    return failure(Path + ": holds no event of a memory timeline",
                   "profile with profile_memory, record_shapes and with_stack, "
                   "then prof.export_memory_timeline(\"x.raw.json.gz\")");
  // Memory that was there before is drawn from the first event on.
  if (FirstTime)
    for (int64_t &At : Row.finished(memory_events::at).mutableInts())
      if (At == NullInt)
        At = *FirstTime;
  if (FirstTime && *FirstTime > UnixNs)
    S.EpochNs = 0; // its times are Unix times
  return Error::success();
}

Error MemoryTimelineReader::read(InputFile &File, Source &Into) const {
  TimelineForm Kind = timelineFormOf(File.head());
  if (Kind == TimelineForm::Picture)
    return failure(Into.path() + ": a page with a picture of the memory "
                                 "timeline, which holds no numbers",
                   "export the numbers beside it: "
                   "prof.export_memory_timeline(\"x.raw.json.gz\")");
  TimelineRows Rows(Kind, Into);
  NumberLists Lists(Rows);
  bool Ended = false, First = true;
  Error E = File.stream([&](StringRef Piece) {
    if (First)
      Piece.consume_front("\xEF\xBB\xBF");
    First = false;
    return !(Ended = !Lists.feed(Piece));
  });
  if (E)
    return E;
  return Rows.finish(!Ended && Lists.depth() != 0 &&
                     File.truncation().empty());
}

} // namespace culprit
