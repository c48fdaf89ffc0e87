//===- NsightSystemsNvtx.cpp - OS calls and NVTX ranges ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/KernelRoles.h"
#include "Readers/NsightSystemsIds.h"
#include "Readers/NsightSystemsParts.h"
#include "Readers/NsightSystemsPayload.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/JSON.h"

using namespace llvm;

namespace culprit::nsys {

namespace {

/// The columns of host_ops.
class HostOpOut {
public:
  HostOpOut(Part &P, size_t N, StringRef Category)
      : P(P), T(P.Into.table(TableId::host_ops)), N(N),
        Category(P.Into.pool().intern(Category)) {}

  void add(StringId Name, Span S, std::optional<int64_t> GlobalTid,
           int64_t External, StringId Shape, int64_t Place) {
    int64_t Pid = pidOf(GlobalTid);
    Names.putText(Name);
    Categories.putText(Category);
    Starts.put(S.Start);
    Stops.put(S.Stop);
    Durations.put(S.Stop - S.Start);
    Ranks.put(Pid);
    Pids.put(Pid);
    Tids.put(tidOf(GlobalTid));
    Externals.put(External);
    Shapes.putText(Shape);
    Places.put(Place);
    T.addRow();
  }

private:
  Part &P;
  TableBuilder &T;
  size_t N;
  StringId Category;
  ColumnOut Names{T, host_ops::name, N}, Categories{T, host_ops::category, N},
      Starts{T, host_ops::start, N}, Stops{T, host_ops::stop, N},
      Durations{T, host_ops::dur, N}, Ranks{T, host_ops::rank, N},
      Pids{T, host_ops::pid, N}, Tids{T, host_ops::tid, N},
      Externals{T, host_ops::external, N}, Shapes{T, host_ops::shapes, N},
      Places{T, host_ops::place, N};
};

enum NvtxColumn : unsigned {
  NvtxThread = 2,
  NvtxKind,
  NvtxText,
  NvtxTextId,
  NvtxDomain,
  NvtxBlob
};

enum class RecordKind { Other, Range, Open, Mark, Domain };

/// What a type of NVTX record is, by the file's own enumeration, or by the
/// numbers that were the same in all versions seen.
class RecordKinds {
public:
  explicit RecordKinds(Database &DB) : DB(DB) {}

  RecordKind operator()(int64_t Type) {
    auto [It, New] = Known.try_emplace(Type, RecordKind::Other);
    if (New)
      It->second = find(Type);
    return It->second;
  }

private:
  RecordKind find(int64_t Type) {
    StringRef Label = DB.label("ENUM_NSYS_EVENT_TYPE", Type);
    if (!Label.empty())
      return StringSwitch<RecordKind>(Label)
          .Cases("NvtxPushPopRange", "NvtxStartEndRange", "NvtxtPushPopRange",
                 "NvtxtStartEndRange", RecordKind::Range)
          .Cases("NvtxPushRange", "NvtxStartRange", "NvtxtPushRange",
                 "NvtxtStartRange", RecordKind::Open)
          .Cases("NvtxMark", "NvtxtMark", RecordKind::Mark)
          .Case("NvtxDomainCreate", RecordKind::Domain)
          .Default(RecordKind::Other);
    switch (Type) {
    case 59:
    case 60:
    case 70:
    case 71:
      return RecordKind::Range;
    case 35:
    case 37:
    case 66:
    case 68:
      return RecordKind::Open;
    case 34:
    case 65:
      return RecordKind::Mark;
    case 75:
      return RecordKind::Domain;
    default:
      return RecordKind::Other;
    }
  }

  Database &DB;
  std::map<int64_t, RecordKind> Known;
};

/// "train step " of "train step 12": what all steps of one kind share.
StringRef stemOf(StringRef Text) { return Text.rtrim("0123456789"); }

class NvtxReader {
public:
  explicit NvtxReader(Part &P)
      : P(P), Schemas(P.DB), Kinds(P.DB), N(P.DB.rowsAtMost("NVTX_EVENTS")) {}

  void read();

private:
  void row(const Row &R);
  StringRef textOf(const Row &R);
  bool operatorRange(const Row &R, Span S, StringRef Text);
  void range(const Row &R, Span S, StringRef Text, bool Mark);
  void ncclCall(const Row &R, Span S, StringRef Text);
  void finish();

  struct NameInfo {
    StringId Id = NullString, Category = NullString;
    std::optional<int64_t> Step;
    unsigned Stem = 0;
  };
  const NameInfo &nameOf(StringRef Text);

  Part &P;
  PayloadSchemas Schemas;
  RecordKinds Kinds;
  size_t N;
  std::optional<HostOpOut> Ops;
  Interner Names{P.Into.pool()};
  std::unordered_map<StringId, NameInfo> Infos;
  using DomainKey = std::pair<int64_t, int64_t>; // pid, id
  std::map<DomainKey, StringId> Domains;
  // Of every row of ranges: what is only known when all have been seen.
  std::vector<StringId> Categories;
  std::vector<std::pair<int64_t, unsigned>> Steps; ///< Number, stem from 1.
  std::vector<DomainKey> DomainOf;
  std::map<std::string, unsigned> Stems;
  std::vector<int64_t> StemTime{0};
  std::string Repaired;
};

} // namespace

/// Whether \p Text is ASCII, which most names are; a loop without branches.
static bool isPlain(StringRef Text) {
  unsigned char Any = 0;
  for (char C : Text)
    Any |= static_cast<unsigned char>(C);
  return Any < 0x80;
}

StringRef NvtxReader::textOf(const Row &R) {
  StringRef Text = R.text(NvtxText);
  if (Text.empty())
    return P.DB.string(R.integer(NvtxTextId));
  if (LLVM_LIKELY(isPlain(Text)) || json::isUTF8(Text))
    return Text;
  Repaired = json::fixUTF8(Text);
  return Repaired;
}

const NvtxReader::NameInfo &NvtxReader::nameOf(StringRef Text) {
  StringId Id = Names(Text);
  auto [It, New] = Infos.try_emplace(Id);
  NameInfo &Info = It->second;
  if (!New)
    return Info;
  Info.Id = Id;
  Info.Category = P.Into.pool().intern(rangeCategory(Text));
  Info.Step = stepNumber(Text);
  if (Info.Step) {
    auto [Stem, First] =
        Stems.try_emplace(stemOf(Text).str(), unsigned(StemTime.size()));
    if (First)
      StemTime.push_back(0);
    Info.Stem = Stem->second;
  }
  return Info;
}

/// torch.autograd.profiler.emit_nvtx writes each operator as a range named
/// "aten::add, op_id = 314359" or "AddBackward0, seq = 7": those are operators
/// and not annotations, and 16,000 different names would help nobody.
bool NvtxReader::operatorRange(const Row &R, Span S, StringRef Text) {
  size_t Comma = Text.find(',');
  if (Comma == StringRef::npos)
    return false;
  StringRef Rest = Text.drop_front(Comma + 1);
  if (!Rest.starts_with(" op_id = ") && !Rest.starts_with(" seq = "))
    return false;
  int64_t External = NullInt;
  StringId Shape = NullString;
  if (size_t At = Rest.find("op_id = "); At != StringRef::npos) {
    StringRef Id = Rest.drop_front(At + 8);
    if (int64_t Number; !Id.consumeInteger(10, Number))
      External = Number;
  }
  if (size_t At = Rest.find("sizes = "); At != StringRef::npos)
    Shape = Names(Rest.drop_front(At + 8).split(", input_op_ids").first);
  if (!Ops)
    Ops.emplace(P, N, "operator");
  Ops->add(Names(Text.take_front(Comma)), S, R.integer(NvtxThread), External,
           Shape, R.place());
  return true;
}

void NvtxReader::range(const Row &R, Span S, StringRef Text, bool Mark) {
  TableBuilder &Row = P.Into.table(TableId::ranges);
  const NameInfo &Name = nameOf(Text);
  std::optional<int64_t> GlobalTid = R.integer(NvtxThread);
  int64_t Pid = pidOf(GlobalTid);
  Row.addRow();
  Row.setId(ranges::name, Name.Id);
  Row.set(ranges::start, S.Start);
  if (S.Stop != NullInt) {
    Row.set(ranges::stop, S.Stop);
    Row.set(ranges::dur, S.Stop - S.Start);
  }
  set(Row, ranges::rank, Pid);
  set(Row, ranges::pid, Pid);
  set(Row, ranges::tid, tidOf(GlobalTid));
  Row.set(ranges::place, R.place());
  Categories.push_back(Mark ? NullString : Name.Category);
  Steps.push_back({Name.Step.value_or(NullInt), Mark ? 0 : Name.Stem});
  DomainOf.push_back({Pid, R.integer(NvtxDomain, 0)});
  if (!Mark && Name.Stem && S.Stop != NullInt)
    StemTime[Name.Stem] = sum(StemTime[Name.Stem], S.Stop - S.Start);
}

/// Notes a range of NCCL's own: a call with a payload, or the begin or end of
/// a group, in which NCCL launches all that was called for since its begin.
void NvtxReader::ncclCall(const Row &R, Span S, StringRef Text) {
  if (!Text.starts_with("nccl") || S.Stop == NullInt)
    return;
  std::optional<NcclPayload> Payload =
      Schemas.decode(R.bytes(NvtxBlob), R.isText(NvtxBlob));
  std::optional<int64_t> GlobalTid = R.integer(NvtxThread);
  NcclCall Call;
  Call.Pid = pidOf(GlobalTid);
  Call.Tid = tidOf(GlobalTid);
  Call.Start = S.Start;
  Call.Stop = S.Stop;
  Call.GroupStart = Text == "ncclGroupStart";
  Call.GroupEnd = Text.starts_with("ncclGroupEnd");
  if (!Payload && !Call.GroupStart && !Call.GroupEnd)
    return;
  if (Payload && Payload->Ranks != NullInt && Payload->Communicator) {
    Communicator &C = P.Found.Communicators[Payload->Communicator];
    C.Ranks = Payload->Ranks;
    if (Payload->Rank != NullInt)
      C.RankOfPid.try_emplace(Call.Pid, Payload->Rank);
    return;
  }
  if (Payload) {
    if (Payload->Message == NullInt)
      return;
    Call.Communicator = Payload->Communicator;
    Call.Message = Payload->Message;
    Call.Peer = Payload->Peer;
    if (StringRef Op = collectiveOp(Text); !Op.empty())
      Call.Op = P.Into.pool().intern(Op);
  }
  P.Found.NcclCalls.push_back(Call);
}

void NvtxReader::row(const Row &R) {
  RecordKind Kind = Kinds(R.integer(NvtxKind, 59));
  if (Kind == RecordKind::Other)
    return;
  if (Kind == RecordKind::Domain) {
    StringRef Name = textOf(R);
    Domains[{pidOf(R.integer(NvtxThread)), R.integer(NvtxDomain, 0)}] =
        P.Into.pool().intern(Name);
    return;
  }
  std::optional<Span> S;
  std::optional<int64_t> Start = R.integer(0);
  int64_t Stop = R.integer(1, -1);
  // A range that nobody closed has no end, or one that old exports filled in.
  bool NoEnd = Stop == -1 || (Stop == 0 && Start.value_or(0) > 0);
  if (Start && inRange(*Start) && Kind == RecordKind::Mark)
    S = Span{*Start, *Start};
  else if (Start && inRange(*Start) && (NoEnd || Kind == RecordKind::Open))
    S = Span{*Start, NullInt};
  else
    S = spanOf(R);
  if (!S) {
    ++P.Skipped;
    return;
  }
  StringRef Text = textOf(R);
  if (Kind == RecordKind::Range && S->Stop != NullInt &&
      operatorRange(R, *S, Text))
    return;
  range(R, *S, Text, Kind == RecordKind::Mark);
  if (!Schemas.empty())
    ncclCall(R, *S, Text);
}

/// Of the ways in which ranges of the user are numbered, the outermost counts
/// the steps: the name without its number of those that take longest in sum.
void NvtxReader::finish() {
  if (Categories.empty())
    return;
  unsigned Best = 0;
  int64_t Longest = -1;
  for (const auto &[Stem, Id] : Stems) // in the order of names
    if (StemTime[Id] > Longest) {
      Longest = StemTime[Id];
      Best = Id;
    }
  StringId StepText = P.Into.pool().intern("step"),
           Annotation = P.Into.pool().intern("annotation");
  TableBuilder &T = P.Into.table(TableId::ranges);
  Column Category(ColumnType::String), Step(ColumnType::Int),
      Domain(ColumnType::String);
  bool AnyStep = false, AnyDomain = false;
  for (size_t I = 0; I != Categories.size(); ++I) {
    bool IsStep = Best && Steps[I].second == Best;
    Category.addString(IsStep          ? StepText
                       : Categories[I] ? Categories[I]
                                       : Annotation);
    Step.addInt(IsStep ? Steps[I].first : NullInt);
    auto It = Domains.find(DomainOf[I]);
    Domain.addString(It == Domains.end() ? NullString : It->second);
    AnyStep |= IsStep;
    AnyDomain |= It != Domains.end();
  }
  T.finished(ranges::category) = std::move(Category);
  if (AnyStep)
    T.finished(ranges::step) = std::move(Step);
  if (AnyDomain)
    T.finished(ranges::domain) = std::move(Domain);
}

void NvtxReader::read() {
  std::vector<StringRef> Columns = {"start", "end",    "globalTid", "eventType",
                                    "text",  "textId", "domainId"};
  if (!Schemas.empty())
    Columns.push_back("binaryData");
  P.DB.forEach("NVTX_EVENTS", Columns, [&](const Row &R) { row(R); }, 1);
  finish();
}

void readNvtx(Part &P) { NvtxReader(P).read(); }

void readHostRanges(Part &P) {
  enum : unsigned { Thread = 2, Name };
  if (size_t N = P.DB.rowsAtMost("OSRT_API")) {
    HostOpOut Ops(P, N, "runtime");
    std::unordered_map<int64_t, StringId> Names;
    P.DB.forEach(
        "OSRT_API", {"start", "end", "globalTid", "nameId"},
        [&](const Row &R) {
          std::optional<Span> S = spanOf(R);
          if (!S) {
            ++P.Skipped;
            return;
          }
          int64_t NameId = R.integer(Name, -1);
          auto [It, New] = Names.try_emplace(NameId, NullString);
          if (New)
            It->second = P.Into.pool().intern(P.DB.string(NameId));
          Ops.add(It->second, *S, R.integer(Thread), NullInt, NullString,
                  R.place());
        },
        2);
  }
  readNvtx(P);
}

} // namespace culprit::nsys
