//===- KinetoTraceRows.cpp --------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/KinetoTraceRows.h"
#include "Readers/KernelRoles.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"

using namespace llvm;

namespace culprit::kineto {

namespace {

/// What an event of a category becomes. Kineto renamed its categories in
/// 2022; both spellings are in use.
enum class Category {
  Ignored,
  Kernel,
  Copy,
  Set,
  Call,
  Sync,
  Operator,
  Annotation,
  Python,
  Overhead
};

} // namespace

static Category categoryOf(StringRef Text) {
  // The commonest first; StringSwitch compares in order.
  Category Known = StringSwitch<Category>(Text)
                       .Cases("cpu_op", "Operator", Category::Operator)
                       .Case("python_function", Category::Python)
                       .Cases("cuda_runtime", "Runtime", Category::Call)
                       .Cases("kernel", "Kernel", Category::Kernel)
                       .Cases("gpu_memcpy", "Memcpy", Category::Copy)
                       .Cases("gpu_memset", "Memset", Category::Set)
                       .Case("user_annotation", Category::Annotation)
                       .Case("cuda_sync", Category::Sync)
                       .Case("overhead", Category::Overhead)
                       .Default(Category::Ignored);
  if (Known == Category::Ignored && (Text.ends_with("_runtime") ||
                                     Text.ends_with("_driver")))
    return Category::Call; // cuda_driver, hip_runtime, xpu_runtime, ...
  return Known;
}

/// The number in "25738", "stream 7" or 7.
static std::optional<int64_t> looseNumber(StringRef Text) {
  size_t First = Text.find_if(isDigit);
  if (First == StringRef::npos)
    return std::nullopt;
  if (First > 0 && Text[First - 1] == '-')
    --First;
  return scaledDecimal(Text.substr(First).take_while([](char C) {
    return isDigit(C) || C == '-' || C == '.';
  }), 0);
}

static void set(TableBuilder &Row, unsigned Column,
                std::optional<int64_t> Value) {
  if (Value)
    Row.set(Column, *Value);
}

static void setId(TableBuilder &Row, unsigned Column, StringId Value) {
  if (Value != NullString)
    Row.setId(Column, Value);
}

/// "[8, 64, 1]" as a list, if it is one.
static void setList(TableBuilder &Row, unsigned Column, StringRef Text) {
  int64_t Values[3];
  unsigned Count = 0;
  if (!Text.consume_front("[") || !Text.consume_back("]"))
    return;
  while (!Text.empty() && Count != 3) {
    auto [Item, Rest] = Text.split(',');
    std::optional<int64_t> Value = scaledDecimal(Item.trim(), 0);
    if (!Value)
      return;
    Values[Count++] = *Value;
    Text = Rest;
  }
  Row.setList(Column, ArrayRef(Values, Count));
}

std::optional<TimeBase> findTimeBase(StringRef Text) {
  EventCursor Cursor(Text);
  Event E;
  for (;;) {
    switch (Cursor.next(E)) {
    case EventCursor::Step::Parsed:
      break;
    case EventCursor::Step::Broken:
      continue;
    default:
      return std::nullopt;
    }
    StringRef Phase = E.text(Field::Phase);
    if (Phase != "X" && Phase != "i" && Phase != "I" && Phase != "C")
      continue;
    // Microseconds by the format's definition. What would be later than the
    // year 5000 in them was written in nanoseconds.
    TimeBase Base;
    StringRef Ts = E.text(Field::Ts);
    if (std::optional<int64_t> Raw = scaledDecimal(Ts, 0);
        Raw && *Raw > 100000000000000000)
      Base.Scale = 0;
    if (std::optional<int64_t> First = scaledDecimal(Ts, Base.Scale)) {
      Base.BaseNs = *First;
      return Base;
    }
  }
}

RowMaker::RowMaker(StringPool &Pool, TimeBase Time)
    : Pool(Pool), Time(Time), KernelText(Pool.intern("kernel")),
      CopyText(Pool.intern("copy")), SetText(Pool.intern("set")),
      OperatorText(Pool.intern("operator")),
      PythonText(Pool.intern("python")),
      CompletedText(Pool.intern("completed")),
      ProfilerText(Pool.intern("profiler")) {}

ChunkRows RowMaker::parse(const Chunk &C) {
  Out = ChunkRows();
  EventCursor Cursor(C.text());
  Event E;
  for (;;) {
    EventCursor::Step Step = Cursor.next(E);
    EventAt = C.Offset + Cursor.start();
    if (Step == EventCursor::Step::Parsed) {
      event(E);
    } else if (Step == EventCursor::Step::Broken ||
               (Step == EventCursor::Step::Cut && !C.Open)) {
      skip("it is malformed");
    } else {
      if (Step == EventCursor::Step::Cut)
        Out.CutAt = EventAt;
      if (Step == EventCursor::Step::Closed) {
        Out.SawClose = true;
        Out.Tail = C.text().substr(Cursor.position()).str();
      }
      break;
    }
    ++Out.Events;
  }
  return std::move(Out);
}

void RowMaker::skip(const char *Reason) {
  if (Out.Skipped++ == 0) {
    Out.FirstSkipped = Out.Events;
    Out.FirstSkippedAt = EventAt;
    Out.FirstReason = Reason;
  }
}

void RowMaker::event(const Event &E) {
  StringRef Phase = E.text(Field::Phase);
  if (Phase == "X")
    return complete(E);
  // Flows (s, t, f) only draw arrows: correlation ids say the same.
  if (Phase == "i" || Phase == "I") {
    if (E.text(Field::Name) == "[memory]")
      memory(E);
  } else if (Phase == "C") {
    counter(E);
  } else if (Phase.empty()) {
    skip("it has no phase");
  }
}

void RowMaker::complete(const Event &E) {
  Category C = categoryOf(E.text(Field::Category));
  // Also the profiler's own span "PyTorch Profiler (0)" and the copies of
  // annotations on the device's time line, which are no work.
  if (C == Category::Ignored)
    return;
  if (!E.has(Field::Name))
    return skip("it has no name");
  std::optional<Span> S = span(E);
  if (!S)
    return;
  switch (C) {
  case Category::Ignored:
    break;
  case Category::Kernel:
    return kernel(E, *S);
  case Category::Copy:
    return copyOrSet(E, *S, /*IsCopy=*/true);
  case Category::Set:
    return copyOrSet(E, *S, /*IsCopy=*/false);
  case Category::Call:
    return call(E, *S);
  case Category::Sync:
    return sync(E, *S);
  case Category::Operator:
    return hostOp(E, *S, /*IsPython=*/false);
  case Category::Python:
    return hostOp(E, *S, /*IsPython=*/true);
  case Category::Annotation:
    return range(E, *S, hostName(E.text(Field::Name)), NullString);
  case Category::Overhead:
    return range(E, *S, hostName(E.text(Field::Name)), ProfilerText);
  }
}

std::optional<RowMaker::Span> RowMaker::span(const Event &E) {
  std::optional<int64_t> Ts = scaledDecimal(E.text(Field::Ts), Time.Scale);
  std::optional<int64_t> Dur = scaledDecimal(E.text(Field::Dur), Time.Scale);
  int64_t Start, Stop;
  if (!Ts) {
    skip(E.has(Field::Ts) ? "its time is no number" : "it has no time");
  } else if (!Dur) {
    skip(E.has(Field::Dur) ? "its duration is no number"
                           : "it has no duration");
  } else if (*Dur < 0) {
    skip("its duration is negative");
  } else if (__builtin_sub_overflow(*Ts, Time.BaseNs, &Start) ||
             __builtin_add_overflow(Start, *Dur, &Stop) ||
             Start < -TimeLimit || Stop > TimeLimit) {
    skip("its time is out of range");
  } else {
    return Span{Start, Stop};
  }
  return std::nullopt;
}

std::optional<int64_t> RowMaker::instant(const Event &E) const {
  std::optional<int64_t> Ts = scaledDecimal(E.text(Field::Ts), Time.Scale);
  int64_t At;
  if (!Ts || __builtin_sub_overflow(*Ts, Time.BaseNs, &At) ||
      At < -TimeLimit || At > TimeLimit)
    return std::nullopt;
  return At;
}

TableBuilder &RowMaker::row(TableId Id, unsigned PlaceColumn) {
  std::unique_ptr<TableBuilder> &T = Out.Tables[static_cast<unsigned>(Id)];
  if (!T)
    T = std::make_unique<TableBuilder>(Id, Pool);
  T->addRow();
  T->set(PlaceColumn, Out.Events);
  return *T;
}

TableBuilder &RowMaker::work(const Event &E, Span S, StringId Kind,
                             const NameInfo &N) {
  TableBuilder &Row = row(TableId::gpu_work, gpu_work::place);
  Row.setId(gpu_work::kind, Kind);
  Row.setId(gpu_work::name, N.Id);
  Row.set(gpu_work::start, S.Start);
  Row.set(gpu_work::stop, S.Stop);
  Row.set(gpu_work::dur, S.Stop - S.Start);
  std::optional<int64_t> Device = E.number(Field::Device);
  set(Row, gpu_work::device,
      Device ? Device : looseNumber(E.text(Field::Pid)));
  set(Row, gpu_work::context, E.number(Field::Context));
  std::optional<int64_t> Stream = E.number(Field::Stream);
  set(Row, gpu_work::stream,
      Stream ? Stream : looseNumber(E.text(Field::Tid)));
  set(Row, gpu_work::correlation, E.number(Field::Correlation));
  set(Row, gpu_work::external, E.number(Field::External));
  // 0 is "no graph" to CUPTI.
  std::optional<int64_t> Node = E.number(Field::GraphNode);
  if (Node && *Node != 0)
    Row.set(gpu_work::graph, *Node);
  return Row;
}

void RowMaker::kernel(const Event &E, Span S) {
  const NameInfo &Name = kernelName(E.text(Field::Name));
  TableBuilder &Row = work(E, S, KernelText, Name);
  setList(Row, gpu_work::grid, E.text(Field::Grid));
  setList(Row, gpu_work::block, E.text(Field::Block));
  set(Row, gpu_work::registers, E.number(Field::Registers));
  set(Row, gpu_work::shared_bytes, E.number(Field::SharedBytes));
  Row.setId(gpu_work::role, Name.Role);
  if (Name.Collective || E.has(Field::Collective))
    collective(E, S, Name);
}

void RowMaker::collective(const Event &E, Span S, const NameInfo &Name) {
  TableBuilder &Row = row(TableId::collectives, collectives::place);
  StringId Op = Name.Op;
  if (E.has(Field::Collective))
    if (StringRef Known = collectiveOp(E.text(Field::Collective));
        !Known.empty())
      Op = Pool.intern(Known);
  setId(Row, collectives::op, Op);
  if (E.has(Field::Dtype)) {
    StringRef Dtype = canonicalDtype(E.text(Field::Dtype));
    Row.setId(collectives::dtype, text(Dtype));
    // The larger side is the payload: a gather's output, a scatter's input.
    int64_t Elements = std::max(E.number(Field::InElements).value_or(-1),
                                E.number(Field::OutElements).value_or(-1));
    int64_t Bytes;
    if (Elements >= 0 && dtypeBytes(Dtype) &&
        !__builtin_mul_overflow(Elements, int64_t(dtypeBytes(Dtype)), &Bytes))
      Row.set(collectives::bytes, Bytes);
  }
  if (E.has(Field::Group))
    Row.setId(collectives::group, text(E.text(Field::Group)));
  set(Row, collectives::seq, E.number(Field::Sequence));
  std::optional<int64_t> Device = E.number(Field::Device);
  set(Row, collectives::device,
      Device ? Device : looseNumber(E.text(Field::Pid)));
  std::optional<int64_t> Stream = E.number(Field::Stream);
  set(Row, collectives::stream,
      Stream ? Stream : looseNumber(E.text(Field::Tid)));
  Row.set(collectives::start, S.Start);
  Row.set(collectives::stop, S.Stop);
  Row.set(collectives::dur, S.Stop - S.Start);
  Row.setId(collectives::state, CompletedText);
}

void RowMaker::copyOrSet(const Event &E, Span S, bool IsCopy) {
  const NameInfo &Name = copyName(E.text(Field::Name));
  TableBuilder &Row = work(E, S, IsCopy ? CopyText : SetText, Name);
  set(Row, gpu_work::bytes, E.number(Field::Bytes));
  Row.setId(gpu_work::role, IsCopy ? CopyText : SetText);
  setId(Row, gpu_work::dst_kind, Name.Target);
  if (!IsCopy)
    return;
  setId(Row, gpu_work::src_kind, Name.Source);
  // roctracer has the direction in an argument where the name lacks it.
  StringId Kind = Name.Kind;
  if (Kind == NullString && E.has(Field::Kind))
    Kind = copyName(E.text(Field::Kind)).Kind;
  setId(Row, gpu_work::copy_kind, Kind);
}

void RowMaker::call(const Event &E, Span S) {
  const NameInfo &Name = callName(E.text(Field::Name));
  TableBuilder &Row = row(TableId::host_calls, host_calls::place);
  Row.setId(host_calls::name, Name.Id);
  Row.setId(host_calls::role, Name.Role);
  Row.set(host_calls::start, S.Start);
  Row.set(host_calls::stop, S.Stop);
  Row.set(host_calls::dur, S.Stop - S.Start);
  set(Row, host_calls::pid, looseNumber(E.text(Field::Pid)));
  set(Row, host_calls::tid, looseNumber(E.text(Field::Tid)));
  set(Row, host_calls::correlation, E.number(Field::Correlation));
  set(Row, host_calls::external, E.number(Field::External));
}

void RowMaker::sync(const Event &E, Span S) {
  StringRef Kind = E.has(Field::SyncKind) ? E.text(Field::SyncKind)
                                          : E.text(Field::Name);
  TableBuilder &Row = row(TableId::syncs, syncs::place);
  StringRef Known = StringSwitch<StringRef>(Kind)
                        .StartsWith("Event", "event")
                        .StartsWith("Stream Wait", "stream-wait")
                        .StartsWith("Stream", "stream")
                        .StartsWith("Context", "context")
                        .Default({});
  Row.setId(syncs::kind, Known.empty() ? text(Kind) : Pool.intern(Known));
  Row.set(syncs::start, S.Start);
  Row.set(syncs::stop, S.Stop);
  Row.set(syncs::dur, S.Stop - S.Start);
  set(Row, syncs::device, E.number(Field::Device));
  // A wait for the whole context has no stream: -1, or 2^32 - 1.
  std::optional<int64_t> Stream = E.number(Field::Stream);
  if (Stream && *Stream >= 0 && *Stream < UINT32_MAX)
    Row.set(syncs::stream, *Stream);
  set(Row, syncs::correlation, E.number(Field::Correlation));
}

void RowMaker::hostOp(const Event &E, Span S, bool IsPython) {
  const NameInfo &Name = hostName(E.text(Field::Name));
  if (!IsPython && Name.Category != NullString)
    range(E, S, Name, NullString);
  if (!IsPython && Name.RangeOnly)
    return;
  TableBuilder &Row = row(TableId::host_ops, host_ops::place);
  Row.setId(host_ops::name, Name.Id);
  Row.setId(host_ops::category, IsPython ? PythonText : OperatorText);
  Row.set(host_ops::start, S.Start);
  Row.set(host_ops::stop, S.Stop);
  Row.set(host_ops::dur, S.Stop - S.Start);
  std::optional<int64_t> Pid = looseNumber(E.text(Field::Pid));
  std::optional<int64_t> Tid = looseNumber(E.text(Field::Tid));
  set(Row, host_ops::pid, Pid);
  set(Row, host_ops::tid, Tid);
  if (IsPython) {
    if (Name.Loader)
      Out.Frames.push_back({Name.Id, S.Start, S.Stop, Pid.value_or(NullInt),
                            Tid.value_or(NullInt), Out.Events});
    return;
  }
  set(Row, host_ops::external, E.number(Field::External));
  if (E.has(Field::Shapes))
    Row.setId(host_ops::shapes, text(E.text(Field::Shapes)));
  if (E.has(Field::Types))
    Row.setId(host_ops::dtypes, text(E.text(Field::Types)));
}

void RowMaker::range(const Event &E, Span S, const NameInfo &Name,
                     StringId Domain) {
  TableBuilder &Row = row(TableId::ranges, ranges::place);
  Row.setId(ranges::name, Name.Id);
  static constexpr StringLiteral Plain = "annotation";
  Row.setId(ranges::category,
            Name.Category != NullString ? Name.Category : Pool.intern(Plain));
  Row.set(ranges::start, S.Start);
  Row.set(ranges::stop, S.Stop);
  Row.set(ranges::dur, S.Stop - S.Start);
  set(Row, ranges::pid, looseNumber(E.text(Field::Pid)));
  set(Row, ranges::tid, looseNumber(E.text(Field::Tid)));
  setId(Row, ranges::domain, Domain);
  if (Name.Step != NullInt)
    Row.set(ranges::step, Name.Step);
}

void RowMaker::memory(const Event &E) {
  std::optional<int64_t> At = instant(E);
  std::optional<int64_t> Bytes = E.number(Field::MemoryBytes);
  if (!At)
    return skip("its time is no number");
  if (!Bytes)
    return skip("it has no number of bytes");
  TableBuilder &Row = row(TableId::memory_events, memory_events::place);
  Row.set(memory_events::at, *At);
  Row.set(memory_events::bytes, *Bytes);
  set(Row, memory_events::address, E.number(Field::Address));
  // Device type 0 is the host, whatever its id says.
  std::optional<int64_t> Device = E.number(Field::DeviceId);
  if (E.number(Field::DeviceType) == 0)
    Device = -1;
  set(Row, memory_events::device, Device);
  set(Row, memory_events::allocated, E.number(Field::Allocated));
  set(Row, memory_events::reserved, E.number(Field::Reserved));
}

void RowMaker::counter(const Event &E) {
  std::optional<int64_t> At = instant(E);
  if (!At)
    return skip("its time is no number");
  if (!E.has(Field::Name))
    return skip("it has no name");
  std::string Name = decodeString(E.text(Field::Name));
  forEachField(E.text(Field::Args), [&](StringRef Key, Slice Value) {
    double Number;
    if (Value.Text.getAsDouble(Number))
      return;
    TableBuilder &Row = row(TableId::counters, counters::place);
    // One counter may have several series; one series often has its name.
    std::string Series = decodeString(Key);
    bool Same = Series == Name || Series == "value";
    Row.set(counters::name,
            StringRef(Same ? Name : Name + "/" + Series));
    Row.set(counters::at, *At);
    Row.set(counters::value, Number);
    set(Row, counters::device, E.number(Field::Device));
  });
}

const RowMaker::NameInfo &RowMaker::kernelName(StringRef Raw) {
  NameInfo &Info = Kernels[Raw];
  if (!Info.Ready) {
    std::string Name = decodeString(Raw);
    StringRef Role = kernelRole(Name);
    Info.Id = Pool.intern(Name);
    Info.Role = Pool.intern(Role);
    Info.Collective = Role == "communication";
    if (Info.Collective)
      Info.Op = intern(collectiveOp(Name));
    Info.Ready = true;
  }
  return Info;
}

const RowMaker::NameInfo &RowMaker::copyName(StringRef Raw) {
  NameInfo &Info = Copies[Raw];
  if (!Info.Ready) {
    std::string Name = decodeString(Raw);
    CopyKinds Kinds = copyKinds(Name);
    Info.Id = Pool.intern(Name);
    Info.Kind = intern(Kinds.Kind);
    Info.Source = intern(Kinds.Source);
    Info.Target = intern(Kinds.Target);
    Info.Ready = true;
  }
  return Info;
}

const RowMaker::NameInfo &RowMaker::callName(StringRef Raw) {
  NameInfo &Info = Calls[Raw];
  if (!Info.Ready) {
    std::string Name = decodeString(Raw);
    Info.Id = Pool.intern(culprit::callName(Name));
    Info.Role = Pool.intern(callRole(culprit::callName(Name)));
    Info.Ready = true;
  }
  return Info;
}

const RowMaker::NameInfo &RowMaker::hostName(StringRef Raw) {
  NameInfo &Info = Hosts[Raw];
  if (!Info.Ready) {
    std::string Name = decodeString(Raw);
    StringRef Category = rangeCategory(Name);
    Info.Id = Pool.intern(Name);
    // An operator is a range only if its name makes it one; what is left of
    // these is an operator as well when it did the work itself.
    if (Category != "annotation")
      Info.Category = Pool.intern(Category);
    Info.RangeOnly =
        Info.Category != NullString && !StringRef(Name).starts_with("c10d::");
    if (Category == "step")
      Info.Step = stepNumber(Name).value_or(NullInt);
    Info.Loader = StringRef(Name).contains("utils/data/dataloader.py(") &&
                  StringRef(Name).ends_with(": __next__");
    Info.Ready = true;
  }
  return Info;
}

StringId RowMaker::text(StringRef Raw) {
  auto [It, New] = Texts.try_emplace(Raw, NullString);
  if (New)
    It->second = Pool.intern(decodeString(Raw));
  return It->second;
}

} // namespace culprit::kineto
