//===- KinetoTraceCollectives.cpp -------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/KinetoTraceCollectives.h"
#include "Readers/KernelRoles.h"
#include "Readers/KinetoTraceRows.h"
#include "Readers/KinetoTraceValues.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <map>

using namespace llvm;

namespace culprit::kineto {

CollectiveFacts RowMaker::collectiveFacts(const Event &E) {
  CollectiveFacts Facts;
  StringRef Name = E.text(Field::Collective);
  if (StringRef Op = collectiveOp(Name); !Op.empty())
    Facts.Op = Pool.intern(Op);
  if (E.has(Field::Dtype)) {
    StringRef Dtype = canonicalDtype(E.text(Field::Dtype));
    Facts.Dtype = Names.text(Dtype);
    Facts.ElementBytes = dtypeBytes(Dtype);
  }
  Facts.In = E.number(Field::InElements).value_or(NullInt);
  Facts.Out = E.number(Field::OutElements).value_or(NullInt);
  if (E.has(Field::Group))
    Facts.Group = Names.text(E.text(Field::Group));
  if (!E.text(Field::GroupName).empty())
    Facts.GroupName = Names.text(E.text(Field::GroupName));
  Facts.GroupSize = E.number(Field::GroupSize).value_or(NullInt);
  Facts.Sequence = E.number(Field::Sequence).value_or(NullInt);
  std::optional<int64_t> Source = E.number(Field::SourceRank),
                         Target = E.number(Field::TargetRank);
  // c10d writes the one that is not this rank.
  Facts.Peer = (Target ? Target : Source).value_or(NullInt);
  // Above 30 ranks the list is shortened, and useless: "[0, 1, ..., 63]".
  if (std::optional<SmallVector<int64_t, 0>> Members =
          numberList(E.text(Field::GroupRanks)))
    Facts.Members = std::move(*Members);
  if (E.has(Field::Shapes))
    Facts.Shapes = Names.list(E.text(Field::Shapes));
  return Facts;
}

namespace {

using Thread = std::pair<int64_t, int64_t>;

/// Finds the host record of a kernel.
class CallFinder {
public:
  CallFinder(std::vector<CollectiveCall> &Calls, ArrayRef<CollectiveRun> Runs,
             Source &Into);

  const CollectiveCall *find(const CollectiveRun &Run) const;
  /// When the host called for it: the record's begin, or the launch call's.
  int64_t enqueued(const CollectiveRun &Run, const CollectiveCall *Call) const;

private:
  struct Launch {
    Thread On;
    int64_t At;
  };
  const CollectiveCall *around(Thread On, int64_t At) const;

  std::map<Thread, std::vector<const CollectiveCall *>> ByThread;
  DenseMap<int64_t, const CollectiveCall *> ByExternal;
  DenseMap<int64_t, Launch> Launches; ///< By correlation.
};

} // namespace

CallFinder::CallFinder(std::vector<CollectiveCall> &Calls,
                       ArrayRef<CollectiveRun> Runs, Source &Into) {
  llvm::stable_sort(Calls, [](const CollectiveCall &A,
                              const CollectiveCall &B) {
    return A.Start < B.Start;
  });
  for (const CollectiveCall &C : Calls) {
    ByThread[{C.Pid, C.Tid}].push_back(&C);
    if (C.External >= 0)
      ByExternal[C.External] = &C;
  }
  for (const CollectiveRun &R : Runs)
    if (R.Correlation >= 0)
      Launches[R.Correlation] = {{NullInt, NullInt}, NullInt};
  TableBuilder *T = Into.existing(TableId::host_calls);
  if (!T || Launches.empty())
    return;
  ArrayRef<int64_t> Ids = T->finished(host_calls::correlation).ints(),
                    Starts = T->finished(host_calls::start).ints(),
                    Pids = T->finished(host_calls::pid).ints(),
                    Tids = T->finished(host_calls::tid).ints();
  for (size_t I = 0; I != T->rows(); ++I)
    if (Ids[I] >= 0)
      if (auto It = Launches.find(Ids[I]); It != Launches.end())
        It->second = {{Pids[I], Tids[I]}, Starts[I]};
}

const CollectiveCall *CallFinder::around(Thread On, int64_t At) const {
  auto Found = ByThread.find(On);
  if (Found == ByThread.end())
    return nullptr;
  ArrayRef<const CollectiveCall *> Calls = Found->second;
  auto After = llvm::upper_bound(Calls, At,
                                 [](int64_t T, const CollectiveCall *C) {
                                   return T < C->Start;
                                 });
  // The innermost that is still open; records do not nest deep.
  for (int Tries = 0; After != Calls.begin() && Tries != 8; ++Tries)
    if ((*--After)->Stop >= At)
      return *After;
  return nullptr;
}

const CollectiveCall *CallFinder::find(const CollectiveRun &Run) const {
  if (Run.Tid != NullInt)
    return around({Run.Pid, Run.Tid}, Run.Start);
  // Times are surer than ids, which some tools renumber.
  if (auto It = Launches.find(Run.Correlation);
      Run.Correlation >= 0 && It != Launches.end() && It->second.At != NullInt)
    if (const CollectiveCall *Call = around(It->second.On, It->second.At))
      return Call;
  auto It = ByExternal.find(Run.External);
  // What is called after the kernel began did not call for it.
  return Run.External >= 0 && It != ByExternal.end() &&
                 It->second->Start <= Run.Start
             ? It->second
             : nullptr;
}

int64_t CallFinder::enqueued(const CollectiveRun &Run,
                             const CollectiveCall *Call) const {
  if (Call)
    return Call->Start;
  if (Run.Correlation < 0)
    return NullInt;
  auto It = Launches.find(Run.Correlation);
  return It == Launches.end() ? NullInt : It->second.At;
}

/// What \p Facts lacks from \p More.
static void complete(CollectiveFacts &Facts, const CollectiveFacts &More) {
  auto Fill = [](auto &To, auto From, auto Null) {
    if (To == Null)
      To = From;
  };
  // Elements and their type only make sense together.
  if (Facts.In == NullInt && Facts.Out == NullInt) {
    Facts.In = More.In;
    Facts.Out = More.Out;
    Facts.Dtype = More.Dtype;
    Facts.ElementBytes = More.ElementBytes;
  }
  Fill(Facts.Op, More.Op, NullString);
  Fill(Facts.Shapes, More.Shapes, NullString);
  Fill(Facts.Group, More.Group, NullString);
  Fill(Facts.GroupName, More.GroupName, NullString);
  Fill(Facts.GroupSize, More.GroupSize, NullInt);
  Fill(Facts.Sequence, More.Sequence, NullInt);
  Fill(Facts.Peer, More.Peer, NullInt);
  if (Facts.Members.empty())
    Facts.Members = More.Members;
}

/// Bytes as nccl-tests counts them; see collectives.bytes.
static std::optional<int64_t> payload(const CollectiveFacts &Facts,
                                      StringRef Op) {
  int64_t Elements = std::max(Facts.In, Facts.Out);
  // Only the root of these has both sides on record.
  int64_t Part = NullInt;
  if (Op == "gather")
    Part = Facts.In;
  else if (Op == "scatter")
    Part = Facts.Out;
  int64_t Whole;
  if (Part > 0 && Facts.GroupSize > 0 &&
      !__builtin_mul_overflow(Part, Facts.GroupSize, &Whole))
    Elements = std::max(Elements, Whole);
  int64_t Bytes;
  if (Elements < 0 || Facts.ElementBytes == 0 ||
      __builtin_mul_overflow(Elements, int64_t(Facts.ElementBytes), &Bytes))
    return std::nullopt;
  return Bytes;
}

static void setKnown(TableBuilder &Row, unsigned Column, int64_t Value) {
  if (Value != NullInt)
    Row.set(Column, Value);
}

static void addRow(const CollectiveRun &Run, const CollectiveFacts &Facts,
                   int64_t Enqueued, Source &Into) {
  TableBuilder &Row = Into.table(TableId::collectives);
  Row.addRow();
  StringId Op = Facts.Op != NullString ? Facts.Op : Run.NameOp;
  setId(Row, collectives::op, Op);
  set(Row, collectives::bytes, payload(Facts, Into.pool().text(Op)));
  setId(Row, collectives::dtype, Facts.Dtype);
  setId(Row, collectives::group, Facts.Group);
  setId(Row, collectives::group_name, Facts.GroupName);
  setKnown(Row, collectives::group_size, Facts.GroupSize);
  if (!Facts.Members.empty())
    Row.setList(collectives::members, Facts.Members);
  setKnown(Row, collectives::seq, Facts.Sequence);
  setKnown(Row, collectives::peer, Facts.Peer);
  setId(Row, collectives::input_shapes, Facts.Shapes);
  setKnown(Row, collectives::device, Run.Device);
  setKnown(Row, collectives::stream, Run.Stream);
  Row.set(collectives::start, Run.Start);
  Row.set(collectives::stop, Run.Stop);
  Row.set(collectives::dur, Run.Stop - Run.Start);
  Row.set(collectives::state, StringRef("completed"));
  setKnown(Row, collectives::enqueued, Enqueued);
  Row.set(collectives::place, Run.Place);
}

static void addGroup(const ProcessGroup &Group, int64_t Rank, int64_t Place,
                     Source &Into) {
  TableBuilder &Row = Into.table(TableId::process_groups);
  Row.addRow();
  Row.set(process_groups::rank, Rank);
  Row.set(process_groups::group, StringRef(Group.Id));
  if (!Group.Name.empty())
    Row.set(process_groups::name, StringRef(Group.Name));
  setKnown(Row, process_groups::size, Group.Size);
  if (!Group.Members.empty())
    Row.setList(process_groups::members, Group.Members);
  Row.set(process_groups::place, Place);
}

void addCollectives(std::vector<CollectiveRun> Runs,
                    std::vector<CollectiveCall> Calls,
                    ArrayRef<ProcessGroup> Groups, int64_t Rank,
                    Source &Into) {
  std::map<StringId, CollectiveFacts> Known;
  for (const auto &[I, Group] : enumerate(Groups)) {
    addGroup(Group, Rank, static_cast<int64_t>(I), Into);
    CollectiveFacts &Facts = Known[Into.pool().intern(Group.Id)];
    if (!Group.Name.empty())
      Facts.GroupName = Into.pool().intern(Group.Name);
    Facts.GroupSize = Group.Size;
    Facts.Members.assign(Group.Members.begin(), Group.Members.end());
  }
  CallFinder Finder(Calls, Runs, Into);
  for (CollectiveRun &Run : Runs) {
    const CollectiveCall *Call = Finder.find(Run);
    CollectiveFacts Facts = Run.Facts;
    if (Call)
      complete(Facts, Call->Facts);
    if (Facts.Group != NullString) {
      auto [It, New] = Known.try_emplace(Facts.Group, Facts);
      if (New)
        addGroup({Into.pool().text(Facts.Group).str(),
                  Into.pool().text(Facts.GroupName).str(), Facts.GroupSize,
                  {Facts.Members.begin(), Facts.Members.end()}},
                 Rank, Run.Place, Into);
      const CollectiveFacts &Group = It->second;
      if (Facts.GroupName == NullString)
        Facts.GroupName = Group.GroupName;
      if (Facts.GroupSize == NullInt)
        Facts.GroupSize = Group.GroupSize;
      if (Facts.Members.empty())
        Facts.Members = Group.Members;
    }
    addRow(Run, Facts, Finder.enqueued(Run, Call), Into);
  }
}

} // namespace culprit::kineto
