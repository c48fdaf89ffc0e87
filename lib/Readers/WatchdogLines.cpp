//===- WatchdogLines.cpp ----------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/WatchdogLines.h"
#include "Readers/ProcessGroups.h"
#include "Readers/ScalarRows.h"
#include "Support/FindText.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace culprit {

/// Rows kept of one log: a watchdog that loops must not fill the memory.
static constexpr size_t MaxRowsOfWatchdog = 100000;

/// The whole number behind \p Word; -1 may be printed as 2^64 - 1.
static std::optional<int64_t> numberAfter(StringRef Text, StringRef Word) {
  size_t At = Text.find_insensitive(Word);
  if (At == StringRef::npos)
    return std::nullopt;
  StringRef Rest = Text.drop_front(At + Word.size());
  bool Negative = Rest.consume_front("-");
  uint64_t Value = 0;
  if (Rest.take_while(isDigit).getAsInteger(10, Value))
    return std::nullopt;
  if (Value == UINT64_MAX)
    return -1;
  if (Value > uint64_t(INT64_MAX))
    return std::nullopt;
  return Negative ? -int64_t(Value) : int64_t(Value);
}

/// The rank of the job. "[rank3]:" in front is that; "[Rank 3]" and "[PG ...
/// Rank 3]" are the rank in the group, which is the same in the default group.
static std::optional<int64_t> rankOf(const LogLine &L) {
  if (std::optional<int64_t> Job = numberAfter(L.Text.take_front(64), "[rank");
      Job && L.Text.take_front(64).contains("[rank"))
    return Job;
  return L.Rank;
}

/// Name and purpose of the group in "[PG ID 2 PG GUID 3(tp) Rank 1]" or, of
/// earlier versions, "[PG 3 Rank 1]" and "[PG 3 (tp) Rank 1]".
static std::pair<StringRef, StringRef> groupOf(StringRef Text) {
  size_t At = Text.find("[PG ");
  if (At == StringRef::npos)
    return {};
  StringRef Inner = Text.drop_front(At + 1).take_until(
      [](char C) { return C == ']'; });
  size_t Guid = Inner.find("GUID ");
  StringRef Rest = Guid == StringRef::npos ? Inner.drop_front(3)
                                           : Inner.drop_front(Guid + 5);
  Rest = Rest.ltrim();
  StringRef Name =
      Rest.take_until([](char C) { return C == '(' || C == ' '; });
  Rest = Rest.drop_front(Name.size()).ltrim();
  StringRef Purpose;
  if (Rest.consume_front("("))
    Purpose = Rest.take_until([](char C) { return C == ')'; });
  return {Name, Purpose == "undefined" ? "" : Purpose};
}

void WatchdogLines::timeout(const LogLine &L, StringRef Text) {
  std::optional<int64_t> Seq = numberAfter(Text, "SeqNum=");
  size_t Op = Text.find("OpType=");
  if (!Seq || Op == StringRef::npos || Timeouts.size() == MaxRowsOfWatchdog)
    return;
  Timeout T;
  T.Line = L.Number;
  T.Seq = *Seq;
  T.Rank = rankOf(L);
  T.Op = collectiveName(Text.drop_front(Op + 7).take_while(
      [](char C) { return isAlnum(C) || C == '_'; }));
  T.In = numberAfter(Text, "NumelIn=");
  T.Out = numberAfter(Text, "NumelOut=");
  T.LimitMs = numberAfter(Text, "Timeout(ms)=");
  auto [Group, Purpose] = groupOf(L.Text);
  T.Group = Group.str();
  T.Purpose = Purpose.str();
  // The same text is printed again by the thread that ends, and as what() of
  // the exception.
  llvm::SmallVector<unsigned, 2> &Same =
      Alike[(Twine(T.Rank.value_or(-1)) + "/" + Twine(T.Seq) + "/" + T.Op)
                .str()];
  for (unsigned I : Same)
    if (Timeout &Known = Timeouts[I];
        Known.Rank == T.Rank && Known.In == T.In && Known.Out == T.Out &&
        (Known.Group == T.Group || Known.Group.empty() || T.Group.empty())) {
      if (Known.Group.empty()) {
        Known.Group = T.Group;
        Known.Purpose = T.Purpose;
      }
      return;
    }
  Same.push_back(Timeouts.size());
  Timeouts.push_back(std::move(T));
}

void WatchdogLines::progress(const LogLine &L, StringRef Text) {
  Progress P;
  P.Line = L.Number;
  P.Rank = rankOf(L);
  // Torch dropped the word NCCL from these in 2.6.
  P.Enqueued = numberAfter(Text, "last enqueued NCCL work: ");
  if (!P.Enqueued)
    P.Enqueued = numberAfter(Text, "last enqueued work: ");
  P.Completed = numberAfter(Text, "last completed NCCL work: ");
  if (!P.Completed)
    P.Completed = numberAfter(Text, "last completed work: ");
  if (!P.Enqueued && !P.Completed)
    return;
  // Torch 2.3 prints a wild number before the first work is completed.
  if (P.Enqueued && P.Completed && *P.Completed > *P.Enqueued)
    P.Completed = std::nullopt;
  P.Work = numberAfter(Text, "detected by watchdog at work: ");
  if (!P.Work)
    P.Work = numberAfter(Text, "Timeout at NCCL work: ");
  if (!P.Work)
    P.Work = numberAfter(Text, "detected by watchdog at work sequence id: ");
  auto [Group, Purpose] = groupOf(L.Text);
  P.Group = Group.str();
  P.Purpose = Purpose.str();
  // The latest word of a rank on a group counts.
  for (Progress &Known : Reports)
    if (Known.Rank == P.Rank && Known.Group == P.Group) {
      P.Work = P.Work ? P.Work : Known.Work;
      Known = std::move(P);
      return;
    }
  if (Reports.size() != MaxRowsOfWatchdog)
    Reports.push_back(std::move(P));
}

void WatchdogLines::line(const LogLine &L) {
  if (!containsText(L.Text, "NCCL"))
    return;
  StringRef Text = L.Text;
  if (size_t At = Text.find("Watchdog caught collective operation timeout: ");
      At != StringRef::npos)
    timeout(L, Text.drop_front(At));
  if (Text.contains(" completed NCCL work: ") ||
      Text.contains(" completed work: "))
    progress(L, Text);
}

void WatchdogLines::finish() {
  if (Timeouts.empty() && Reports.empty())
    return;
  std::optional<int64_t> FileRank = rankOfPath(S.path());
  bool Ranked = true;
  for (Timeout &T : Timeouts) {
    if (T.Group.empty())
      for (const Progress &P : Reports)
        if (P.Rank == T.Rank && P.Work == T.Seq && !P.Group.empty()) {
          T.Group = P.Group;
          T.Purpose = P.Purpose;
          break;
        }
    TableBuilder &Row = S.table(TableId::collectives);
    Row.addRow();
    auto text = [&](unsigned Column, StringRef Value) {
      if (!Value.empty())
        Row.set(Column, Value);
    };
    text(collectives::op, T.Op);
    text(collectives::group, groupIdentity(T.Group, {}));
    Row.set(collectives::seq, T.Seq);
    if (!T.Rank)
      T.Rank = FileRank;
    if (T.Rank)
      Row.set(collectives::rank, *T.Rank);
    Ranked &= T.Rank.has_value();
    Row.set(collectives::state, "timed-out");
    Row.set(collectives::place, T.Line);
    text(collectives::group_name, T.Purpose);
    if (T.In)
      text(collectives::input_shapes, "[" + std::to_string(*T.In) + "]");
    if (T.Out)
      text(collectives::output_shapes, "[" + std::to_string(*T.Out) + "]");
    if (T.LimitMs && *T.LimitMs > 0 && *T.LimitMs < int64_t(1) << 40)
      Row.set(collectives::timeout, *T.LimitMs * 1000000);
  }
  for (Progress &P : Reports) {
    TableBuilder &Row = S.table(TableId::process_groups);
    Row.addRow();
    if (!P.Rank)
      P.Rank = FileRank;
    if (P.Rank)
      Row.set(process_groups::rank, *P.Rank);
    if (!P.Group.empty())
      Row.set(process_groups::group, StringRef(P.Group));
    if (!P.Purpose.empty())
      Row.set(process_groups::name, StringRef(P.Purpose));
    if (P.Enqueued)
      Row.set(process_groups::last_enqueued, *P.Enqueued);
    if (P.Completed)
      Row.set(process_groups::last_completed, *P.Completed);
    Row.set(process_groups::place, P.Line);
  }
  S.KeepRanks = Ranked;
}

} // namespace culprit
