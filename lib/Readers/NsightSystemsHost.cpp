//===- NsightSystemsHost.cpp - The host's side of an export -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/KernelRoles.h"
#include "Readers/NsightSystemsIds.h"
#include "Readers/NsightSystemsRows.h"

using namespace llvm;

namespace culprit::nsys {

const RowMaker::NameInfo &RowMaker::callInfo(int64_t Id) {
  auto [It, New] = Calls.try_emplace(Id);
  if (New) {
    StringRef Name = callName(DB.string(Id));
    It->second.Id = Into.pool().intern(Name);
    It->second.Role = Into.pool().intern(callRole(Name));
  }
  return It->second;
}

void RowMaker::setThread(TableBuilder &Row, unsigned Rank, unsigned Pid,
                         unsigned Tid, std::optional<int64_t> GlobalTid) const {
  set(Row, Rank, rankOf(GlobalTid));
  if (!GlobalTid)
    return;
  Row.set(Pid, pidOf(*GlobalTid));
  Row.set(Tid, tidOf(*GlobalTid));
}

void RowMaker::calls() {
  enum : unsigned { Thread = 2, Correlation, Name, Result };
  DB.forEach(
      "CUPTI_ACTIVITY_KIND_RUNTIME",
      {"start", "end", "globalTid", "correlationId", "nameId", "returnValue"},
      [&](const Row &R) {
        std::optional<Span> S = span(R);
        if (!S)
          return;
        const NameInfo &Info = callInfo(R.integer(Name, -1));
        TableBuilder &Row = Into.table(TableId::host_calls);
        Row.addRow();
        Row.setId(host_calls::name, Info.Id);
        Row.setId(host_calls::role, Info.Role);
        Row.set(host_calls::start, S->Start);
        Row.set(host_calls::stop, S->Stop);
        Row.set(host_calls::dur, S->Stop - S->Start);
        setThread(Row, host_calls::rank, host_calls::pid, host_calls::tid,
                  R.integer(Thread));
        set(Row, host_calls::correlation, R.integer(Correlation));
        set(Row, host_calls::result, R.integer(Result));
        Row.set(host_calls::place, R.place());
      });
}

void RowMaker::osCalls() {
  enum : unsigned { Thread = 2, Name };
  DB.forEach("OSRT_API", {"start", "end", "globalTid", "nameId"},
             [&](const Row &R) {
               std::optional<Span> S = span(R);
               if (!S)
                 return;
               TableBuilder &Row = Into.table(TableId::host_ops);
               Row.addRow();
               Row.set(host_ops::name, DB.string(R.integer(Name)));
               Row.set(host_ops::category, "runtime");
               Row.set(host_ops::start, S->Start);
               Row.set(host_ops::stop, S->Stop);
               Row.set(host_ops::dur, S->Stop - S->Start);
               setThread(Row, host_ops::rank, host_ops::pid, host_ops::tid,
                         R.integer(Thread));
               Row.set(host_ops::place, R.place());
             });
}

namespace {

// Kinds of NVTX records, the same number in all versions seen.
enum NvtxType : int64_t {
  PushPopRange = 59,
  StartEndRange = 60,
  TextPushPopRange = 70,
  TextStartEndRange = 71,
  DomainCreate = 75
};

enum NvtxColumn : unsigned {
  NvtxStart,
  NvtxEnd,
  NvtxThread,
  NvtxKind,
  NvtxText,
  NvtxTextId,
  NvtxDomain
};

constexpr StringRef NvtxColumns[] = {
    "start", "end", "globalTid", "eventType", "text", "textId", "domainId"};

} // namespace

static bool isRange(const Row &R) {
  switch (R.integer(NvtxKind, PushPopRange)) {
  case PushPopRange:
  case StartEndRange:
  case TextPushPopRange:
  case TextStartEndRange:
    return true;
  default:
    return false;
  }
}

static StringRef textOf(Database &DB, const Row &R) {
  StringRef Text = R.text(NvtxText);
  return Text.empty() ? DB.string(R.integer(NvtxTextId)) : Text;
}

/// "train step " of "train step 12": what all steps of one kind share.
static StringRef stemOf(StringRef Text) { return Text.rtrim("0123456789"); }

std::string RowMaker::stepStem() {
  std::map<std::string, int64_t> Sums;
  DB.forEach("NVTX_EVENTS", NvtxColumns, [&](const Row &R) {
    StringRef Text = textOf(DB, R);
    std::optional<int64_t> Start = R.integer(NvtxStart),
                           End = R.integer(NvtxEnd);
    int64_t Length;
    if (!isRange(R) || !stepNumber(Text) || !Start || !End ||
        __builtin_sub_overflow(*End, *Start, &Length) || Length < 0)
      return;
    int64_t &Sum = Sums[stemOf(Text).str()];
    Sum = sum(Sum, Length);
  });
  std::string Best;
  int64_t Longest = -1;
  for (const auto &[Stem, Sum] : Sums)
    if (Sum > Longest) {
      Longest = Sum;
      Best = Stem;
    }
  return Best;
}

/// torch.autograd.profiler.emit_nvtx writes each operator as a range named
/// "aten::add, op_id = 314359" or "AddBackward0, seq = 7": those are operators
/// and not annotations, and 16,000 different names would help nobody.
bool RowMaker::operatorRange(const Row &R, Span S, StringRef Text,
                             std::optional<int64_t> GlobalTid) {
  auto [Name, Rest] = Text.split(", ");
  if (!Rest.starts_with("op_id = ") && !Rest.starts_with("seq = "))
    return false;
  TableBuilder &Row = Into.table(TableId::host_ops);
  Row.addRow();
  Row.set(host_ops::name, Name);
  Row.set(host_ops::category, "operator");
  Row.set(host_ops::start, S.Start);
  Row.set(host_ops::stop, S.Stop);
  Row.set(host_ops::dur, S.Stop - S.Start);
  setThread(Row, host_ops::rank, host_ops::pid, host_ops::tid, GlobalTid);
  StringRef Id = Rest.split("op_id = ").second.split(',').first;
  int64_t Number;
  if (!Id.getAsInteger(10, Number))
    Row.set(host_ops::external, Number);
  if (StringRef Sizes = Rest.split("sizes = ").second; !Sizes.empty())
    Row.set(host_ops::shapes, Sizes.split(", input_op_ids").first);
  Row.set(host_ops::place, R.place());
  return true;
}

TableBuilder &RowMaker::range(const Row &R, Span S, StringRef Name,
                              std::optional<int64_t> GlobalTid) {
  TableBuilder &Row = Into.table(TableId::ranges);
  Row.addRow();
  Row.set(ranges::name, Name);
  Row.set(ranges::start, S.Start);
  if (S.Stop != NullInt) {
    Row.set(ranges::stop, S.Stop);
    Row.set(ranges::dur, S.Stop - S.Start);
  }
  setThread(Row, ranges::rank, ranges::pid, ranges::tid, GlobalTid);
  Row.set(ranges::place, R.place());
  return Row;
}

void RowMaker::nvtx() {
  std::map<std::pair<int64_t, int64_t>, std::string> Domains; // pid, id
  auto DomainOf = [](const Row &R) {
    return std::pair(pidOf(R.integer(NvtxThread, 0)), R.integer(NvtxDomain, 0));
  };
  DB.forEach("NVTX_EVENTS", NvtxColumns, [&](const Row &R) {
    if (R.integer(NvtxKind) == DomainCreate)
      Domains[DomainOf(R)] = textOf(DB, R).str();
  });
  std::string Stem = stepStem();
  DB.forEach("NVTX_EVENTS", NvtxColumns, [&](const Row &R) {
    if (!isRange(R))
      return;
    // A range that nobody closed has no end and is kept without one.
    std::optional<Span> S;
    std::optional<int64_t> Start = R.integer(NvtxStart);
    if (!R.integer(NvtxEnd) && Start && inRange(*Start))
      S = Span{*Start, NullInt};
    else
      S = span(R);
    if (!S)
      return;
    StringRef Text = textOf(DB, R);
    std::optional<int64_t> Thread = R.integer(NvtxThread);
    if (S->Stop != NullInt && operatorRange(R, *S, Text, Thread))
      return;
    TableBuilder &Row = range(R, *S, Text, Thread);
    std::optional<int64_t> Step;
    if (!Stem.empty() && stemOf(Text) == Stem)
      Step = stepNumber(Text);
    Row.set(ranges::category, Step ? "step" : rangeCategory(Text));
    set(Row, ranges::step, Step);
    if (auto It = Domains.find(DomainOf(R)); It != Domains.end())
      Row.set(ranges::domain, StringRef(It->second));
  });
}

/// Time that the profiler or the driver took for itself, as ranges of domains
/// of their own: lazy loading and compiling are causes, buffer flushes tell how
/// far to trust the rest.
void RowMaker::overhead(StringRef Table) {
  enum : unsigned { Thread = 2, Name, Type };
  DB.forEach(Table, {"start", "end", "globalTid", "nameId", "overheadType"},
             [&](const Row &R) {
               std::optional<Span> S = span(R);
               if (!S)
                 return;
               StringRef Label =
                   DB.label("ENUM_CUPTI_OVERHEAD_TYPE", R.integer(Type, 0));
               StringRef Text = DB.string(R.integer(Name));
               if (Text.empty())
                 Text = Label.empty() ? "overhead" : Label;
               TableBuilder &Row = range(R, *S, Text, R.integer(Thread));
               Row.set(ranges::category, "annotation");
               Row.set(ranges::domain,
                       Label.contains("(CUDA)") ? "driver" : "profiler");
             });
}

} // namespace culprit::nsys
