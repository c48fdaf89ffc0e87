//===- NsightSystemsNccl.cpp - Sizes of collectives -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A kernel does not say how much it moves or for whom; the call of NCCL that
// launched it does. The way is kernel, launch call (correlation), and the NVTX
// range of NCCL around that call on its thread. Within a group nothing is
// launched before ncclGroupEnd: its kernels belong to the calls since
// ncclGroupStart. One kernel then carries them all; as many kernels as calls
// are taken in order if their operations agree; otherwise only the
// communicator is known, and that only if the calls share it.
//
//===----------------------------------------------------------------------===//

#include "Readers/NsightSystemsIds.h"
#include "Readers/NsightSystemsParts.h"

using namespace llvm;

namespace culprit::nsys {

namespace {

using ThreadKey = std::pair<int64_t, int64_t>; // pid, tid

struct Launch {
  ThreadKey Thread;
  int64_t Start;
};

/// What was found out of one row of collectives.
struct Answer {
  uint64_t Communicator = 0;
  int64_t Bytes = NullInt, Peer = NullInt, Enqueued = NullInt;
  StringId Op = NullString;
};

class Joiner {
public:
  Joiner(Source &Into, Findings &Found)
      : Found(Found), T(Into.table(TableId::collectives)), Into(Into),
        Send(Into.pool().intern("send")), Recv(Into.pool().intern("recv")),
        SendRecv(Into.pool().intern("send_recv")),
        AllGather(Into.pool().intern("all_gather")),
        ReduceScatter(Into.pool().intern("reduce_scatter")) {}

  void run();

private:
  std::map<size_t, Launch> launches() const;
  std::optional<size_t> around(ArrayRef<NcclCall> Calls, int64_t At) const;
  std::vector<const NcclCall *> groupBefore(ArrayRef<NcclCall> Calls,
                                            size_t End) const;
  int64_t bytesOf(const NcclCall &Call) const;
  Answer answerOf(ArrayRef<const NcclCall *> Calls) const;
  void answerGroup(ArrayRef<const NcclCall *> Calls, ArrayRef<size_t> Rows);
  bool isPeerGlobal(uint64_t Communicator) const;
  void write();

  Findings &Found;
  TableBuilder &T;
  Source &Into;
  StringId Send, Recv, SendRecv, AllGather, ReduceScatter;
  std::vector<Answer> Answers;
};

} // namespace

/// The call that launched the kernel of each row.
std::map<size_t, Launch> Joiner::launches() const {
  std::map<size_t, Launch> Out;
  TableBuilder *Work = Into.existing(TableId::gpu_work);
  TableBuilder *Calls = Into.existing(TableId::host_calls);
  if (!Work || !Calls)
    return Out;
  // Ranks are pids until the export is finished.
  ArrayRef<int64_t> WorkPid = Work->finished(gpu_work::rank).ints(),
                    WorkId = Work->finished(gpu_work::correlation).ints();
  std::map<std::pair<int64_t, int64_t>, size_t> RowOf; // pid, correlation
  for (size_t I = 0; I != Found.KernelOfCollective.size(); ++I) {
    size_t Kernel = Found.KernelOfCollective[I];
    if (WorkId[Kernel] != NullInt)
      RowOf[{WorkPid[Kernel], WorkId[Kernel]}] = I;
  }
  ArrayRef<int64_t> Pid = Calls->finished(host_calls::pid).ints(),
                    Tid = Calls->finished(host_calls::tid).ints(),
                    Id = Calls->finished(host_calls::correlation).ints(),
                    Start = Calls->finished(host_calls::start).ints();
  for (size_t I = 0; I != Id.size(); ++I)
    if (auto It = RowOf.find({Pid[I], Id[I]}); It != RowOf.end())
      Out.try_emplace(It->second, Launch{{Pid[I], Tid[I]}, Start[I]});
  return Out;
}

/// The innermost of \p Calls, sorted by start, around \p At.
std::optional<size_t> Joiner::around(ArrayRef<NcclCall> Calls,
                                     int64_t At) const {
  auto After = llvm::upper_bound(
      Calls, At, [](int64_t Time, const NcclCall &C) { return Time < C.Start; });
  // Calls of NCCL nest two deep: a group around calls.
  for (int Tries = 0; After != Calls.begin() && Tries != 4; ++Tries) {
    --After;
    if (After->Stop >= At && !After->GroupStart)
      return After - Calls.begin();
  }
  return std::nullopt;
}

/// The calls of the group that \p End, a row of \p Calls, closes. Groups nest;
/// the outermost launches.
std::vector<const NcclCall *> Joiner::groupBefore(ArrayRef<NcclCall> Calls,
                                                  size_t End) const {
  std::vector<const NcclCall *> Out;
  int Depth = 1;
  for (size_t I = End; I != 0 && Depth > 0;) {
    const NcclCall &C = Calls[--I];
    if (C.GroupEnd)
      ++Depth;
    else if (C.GroupStart)
      --Depth;
    else
      Out.push_back(&C);
  }
  if (Depth != 0) // the record begins inside of the group
    return {};
  std::reverse(Out.begin(), Out.end());
  return Out;
}

/// The payload as nccl-tests counts it: NCCL notes what one rank gives to an
/// all-gather and what it gets of a reduce-scatter.
int64_t Joiner::bytesOf(const NcclCall &Call) const {
  if (Call.Op != AllGather && Call.Op != ReduceScatter)
    return Call.Message;
  auto It = Found.Communicators.find(Call.Communicator);
  int64_t Bytes;
  if (It == Found.Communicators.end() || It->second.Ranks == NullInt ||
      __builtin_mul_overflow(Call.Message, It->second.Ranks, &Bytes))
    return NullInt;
  return Bytes;
}

/// A peer is a rank of the communicator. It is one of the job if the
/// communicator is the largest there is.
bool Joiner::isPeerGlobal(uint64_t Communicator) const {
  auto It = Found.Communicators.find(Communicator);
  if (It == Found.Communicators.end())
    return false;
  return all_of(Found.Communicators, [&](const auto &Other) {
    return Other.second.Ranks <= It->second.Ranks;
  });
}

/// What one kernel does that carries all of \p Calls.
Answer Joiner::answerOf(ArrayRef<const NcclCall *> Calls) const {
  Answer Out;
  Out.Communicator = Calls[0]->Communicator;
  Out.Enqueued = Calls[0]->Start;
  Out.Op = Calls[0]->Op;
  Out.Peer = Calls[0]->Peer;
  int64_t Sent = 0, Received = 0, Both = 0;
  for (const NcclCall *C : Calls) {
    if (C->Communicator != Out.Communicator)
      Out.Communicator = 0;
    if (C->Op != Out.Op)
      Out.Op = NullString;
    if (C->Peer != Out.Peer)
      Out.Peer = NullInt;
    int64_t Bytes = bytesOf(*C);
    if (Bytes == NullInt)
      Both = NullInt;
    else if (C->Op == Send)
      Sent = sum(Sent, Bytes);
    else if (C->Op == Recv)
      Received = sum(Received, Bytes);
    else if (Both != NullInt)
      Both = sum(Both, Bytes);
  }
  Out.Bytes = Both == NullInt ? NullInt : sum(Both, std::max(Sent, Received));
  if (Out.Peer != NullInt && !isPeerGlobal(Calls[0]->Communicator))
    Out.Peer = NullInt;
  return Out;
}

void Joiner::answerGroup(ArrayRef<const NcclCall *> Calls,
                         ArrayRef<size_t> Rows) {
  if (Calls.empty())
    return;
  Answer All = answerOf(Calls);
  if (Rows.size() == 1) {
    Answers[Rows[0]] = All;
    return;
  }
  ArrayRef<StringId> Op = T.finished(collectives::op).strings();
  bool InOrder = Rows.size() == Calls.size();
  for (size_t I = 0; InOrder && I != Rows.size(); ++I)
    InOrder = Op[Rows[I]] == Calls[I]->Op;
  for (size_t I = 0; I != Rows.size(); ++I)
    if (InOrder)
      Answers[Rows[I]] = answerOf(Calls[I]);
    else
      Answers[Rows[I]].Communicator = All.Communicator;
}

void Joiner::write() {
  ArrayRef<StringId> OldOp = T.finished(collectives::op).strings();
  ArrayRef<int64_t> Pid = T.finished(collectives::rank).ints(),
                    Device = T.finished(collectives::device).ints(),
                    Start = T.finished(collectives::start).ints();
  std::vector<int64_t> &Bytes = T.finished(collectives::bytes).mutableInts(),
                       &Size =
                           T.finished(collectives::group_size).mutableInts(),
                       &Peer = T.finished(collectives::peer).mutableInts(),
                       &Enqueued =
                           T.finished(collectives::enqueued).mutableInts(),
                       &Seq = T.finished(collectives::seq).mutableInts();
  Column Group(ColumnType::String), Op(ColumnType::String);
  std::vector<size_t> Order;
  for (size_t I = 0; I != Answers.size(); ++I) {
    const Answer &A = Answers[I];
    Bytes[I] = A.Bytes;
    Peer[I] = A.Peer;
    Enqueued[I] = A.Enqueued;
    bool Vague = OldOp[I] == NullString || OldOp[I] == SendRecv;
    Op.addString(Vague && A.Op ? A.Op : OldOp[I]);
    if (!A.Communicator) {
      Group.addString(NullString);
      continue;
    }
    Group.addString(
        Into.pool().intern("0x" + utohexstr(A.Communicator, true, 16)));
    if (auto It = Found.Communicators.find(A.Communicator);
        It != Found.Communicators.end())
      Size[I] = It->second.Ranks;
    Order.push_back(I);
  }
  T.finished(collectives::group) = std::move(Group);
  T.finished(collectives::op) = std::move(Op);
  // All ranks of a communicator issue its collectives in one order.
  llvm::stable_sort(Order,
                    [&](size_t A, size_t B) { return Start[A] < Start[B]; });
  std::map<std::tuple<int64_t, int64_t, uint64_t>, int64_t> Next;
  for (size_t I : Order)
    Seq[I] = Next[{Pid[I], Device[I], Answers[I].Communicator}]++;
}

void Joiner::run() {
  std::map<ThreadKey, std::vector<NcclCall>> Threads;
  for (const NcclCall &C : Found.NcclCalls)
    Threads[{C.Pid, C.Tid}].push_back(C);
  for (auto &[Key, Calls] : Threads)
    llvm::stable_sort(Calls, [](const NcclCall &A, const NcclCall &B) {
      return A.Start < B.Start;
    });
  Answers.resize(T.rows());
  std::map<std::pair<ThreadKey, size_t>, std::vector<size_t>> Groups;
  bool Any = false;
  for (const auto &[Row, L] : launches()) {
    auto Thread = Threads.find(L.Thread);
    if (Thread == Threads.end())
      continue;
    std::optional<size_t> At = around(Thread->second, L.Start);
    if (!At)
      continue;
    Any = true;
    const NcclCall &Call = Thread->second[*At];
    if (Call.GroupEnd)
      Groups[{L.Thread, *At}].push_back(Row);
    else
      Answers[Row] = answerOf(&Call);
  }
  for (const auto &[Key, Rows] : Groups)
    answerGroup(groupBefore(Threads[Key.first], Key.second), Rows);
  if (Any)
    write();
}

void joinNcclCalls(Source &Into, Findings &Found) {
  if (!Found.NcclCalls.empty() && !Found.KernelOfCollective.empty())
    Joiner(Into, Found).run();
}

} // namespace culprit::nsys
