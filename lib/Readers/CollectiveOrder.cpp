//===- CollectiveOrder.cpp --------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/CollectiveOrder.h"
#include "Readers/KernelRoles.h"
#include "llvm/ADT/STLExtras.h"
#include <map>

using namespace llvm;

namespace culprit {

namespace {

/// A range that names a collective, on its thread.
struct Named {
  int64_t Start, Stop;
  StringId Op;
};

using Thread = std::pair<int64_t, int64_t>;

} // namespace

static std::map<Thread, std::vector<Named>> collectiveRanges(Source &Into) {
  std::map<Thread, std::vector<Named>> Out;
  TableBuilder *T = Into.existing(TableId::ranges);
  StringId Collective = Into.pool().intern("collective");
  if (!T)
    return Out;
  ArrayRef<StringId> Category = T->finished(ranges::category).strings(),
                     Name = T->finished(ranges::name).strings();
  ArrayRef<int64_t> Pid = T->finished(ranges::pid).ints(),
                    Tid = T->finished(ranges::tid).ints(),
                    Start = T->finished(ranges::start).ints(),
                    Stop = T->finished(ranges::stop).ints();
  for (size_t I = 0; I != T->rows(); ++I) {
    if (Category[I] != Collective)
      continue;
    StringRef Op = collectiveOp(Into.pool().text(Name[I]));
    if (!Op.empty())
      Out[{Pid[I], Tid[I]}].push_back(
          {Start[I], Stop[I], Into.pool().intern(Op)});
  }
  for (auto &[Id, Ranges] : Out)
    llvm::stable_sort(Ranges, [](const Named &A, const Named &B) {
      return A.Start < B.Start;
    });
  return Out;
}

/// The operation of the range on the calling thread around \p At.
static StringId opAround(ArrayRef<Named> Ranges, int64_t At) {
  auto After = llvm::upper_bound(
      Ranges, At, [](int64_t T, const Named &R) { return T < R.Start; });
  // An enclosing range is among the last few: collectives do not nest deep.
  for (int Tries = 0; After != Ranges.begin() && Tries != 4; ++Tries) {
    --After;
    if (After->Stop >= At)
      return After->Op;
  }
  return NullString;
}

/// Operations for the kernels of \p Rows, rows of `collectives`, by way of
/// kernel, launch call and the range around it.
static std::map<size_t, StringId> opsFromHost(ArrayRef<size_t> Rows,
                                              Source &Into) {
  std::map<size_t, StringId> Out;
  TableBuilder *Work = Into.existing(TableId::gpu_work);
  TableBuilder *Calls = Into.existing(TableId::host_calls);
  if (Rows.empty() || !Work || !Calls)
    return Out;
  TableBuilder &Collectives = Into.table(TableId::collectives);
  std::map<Thread, std::vector<Named>> Ranges = collectiveRanges(Into);

  // A collective and its kernel are one event, or one row of the table of
  // kernels; copies of an export are rows of another table.
  StringId Communication = Into.pool().intern("communication");
  ArrayRef<StringId> Role = Work->finished(gpu_work::role).strings();
  std::map<int64_t, size_t> RowOfPlace;
  for (size_t Row : Rows)
    RowOfPlace[Collectives.finished(collectives::place).ints()[Row]] = Row;
  std::map<std::pair<int64_t, int64_t>, size_t> RowOfCall; // rank, id
  ArrayRef<int64_t> Place = Work->finished(gpu_work::place).ints(),
                    WorkRank = Work->finished(gpu_work::rank).ints(),
                    WorkId = Work->finished(gpu_work::correlation).ints();
  for (size_t I = 0; I != Work->rows(); ++I)
    if (auto It = RowOfPlace.find(Place[I]);
        It != RowOfPlace.end() && WorkId[I] >= 0 && Role[I] == Communication)
      RowOfCall[{WorkRank[I], WorkId[I]}] = It->second;

  ArrayRef<int64_t> CallId = Calls->finished(host_calls::correlation).ints(),
                    CallRank = Calls->finished(host_calls::rank).ints(),
                    Start = Calls->finished(host_calls::start).ints(),
                    Pid = Calls->finished(host_calls::pid).ints(),
                    Tid = Calls->finished(host_calls::tid).ints();
  for (size_t I = 0; I != Calls->rows(); ++I) {
    auto It = RowOfCall.find({CallRank[I], CallId[I]});
    auto On = Ranges.find({Pid[I], Tid[I]});
    if (It != RowOfCall.end() && On != Ranges.end())
      if (StringId Op = opAround(On->second, Start[I]))
        Out[It->second] = Op;
  }
  return Out;
}

void numberCollectives(Source &Into) {
  TableBuilder *T = Into.existing(TableId::collectives);
  if (!T || T->rows() == 0)
    return;
  size_t Rows = T->rows();
  Column &OpColumn = T->finished(collectives::op);
  std::vector<StringId> Ops(OpColumn.strings().begin(),
                            OpColumn.strings().end());
  // NCCL has no all-to-all of its own: it is sends and receives in a group.
  StringId SendRecv = Into.pool().intern("send_recv");
  std::vector<size_t> Unnamed;
  for (size_t I = 0; I != Rows; ++I)
    if (Ops[I] == NullString || Ops[I] == SendRecv)
      Unnamed.push_back(I);
  for (auto [Row, Op] : opsFromHost(Unnamed, Into))
    Ops[Row] = Op;
  if (!Unnamed.empty()) {
    OpColumn = Column(ColumnType::String);
    for (StringId Op : Ops)
      OpColumn.addString(Op);
  }

  ArrayRef<int64_t> Start = T->finished(collectives::start).ints(),
                    Rank = T->finished(collectives::rank).ints(),
                    Device = T->finished(collectives::device).ints(),
                    Stream = T->finished(collectives::stream).ints();
  std::vector<int64_t> &Seq = T->finished(collectives::seq).mutableInts();
  std::vector<size_t> Order(Rows);
  for (size_t I = 0; I != Rows; ++I)
    Order[I] = I;
  llvm::stable_sort(Order,
                    [&](size_t A, size_t B) { return Start[A] < Start[B]; });
  std::map<std::tuple<int64_t, int64_t, int64_t, StringId>, int64_t> Next;
  for (size_t I : Order)
    if (Seq[I] == NullInt)
      Seq[I] = Next[{Rank[I], Device[I], Stream[I], Ops[I]}]++;
}

} // namespace culprit
