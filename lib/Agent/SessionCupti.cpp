//===- SessionCupti.cpp - Begins and ends with CUPTI ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Agent/Session.h"
#include "Agent/Describe.h"
#include "Agent/Text.h"
#include <poll.h>

using namespace culprit::capture;

namespace culprit::agent {

namespace {
/// An activity that is enabled for a kind of record.
struct Source {
  RecordKind Kind;
  uint32_t Activity;
  bool Dump; ///< What exists already is told too.
  const char *Word; ///< As --kinds has it, where it does.
};
} // namespace

static constexpr Source Sources[] = {
    {RecordKind::Device, activity::Device, true, "devices"},
    {RecordKind::Context, activity::Context, true, "contexts"},
    {RecordKind::Stream, activity::Stream, true, "streams"},
    {RecordKind::Name, activity::Name, false, "names"},
    {RecordKind::Kernel, activity::ConcurrentKernel, false, "kernels"},
    {RecordKind::Copy, activity::Memcpy, false, "copies"},
    {RecordKind::PeerCopy, activity::MemcpyPeer, false, "copies of peers"},
    {RecordKind::Set, activity::Memset, false, "sets"},
    {RecordKind::Sync, activity::Synchronization, false, "syncs"},
    {RecordKind::Memory, activity::Memory, false, "memory"},
    {RecordKind::Pool, activity::MemoryPool, false, "memory pools"},
    {RecordKind::Overhead, activity::Overhead, false, "overhead"},
    {RecordKind::GraphLaunch, activity::GraphTrace, false, "graphs"},
    {RecordKind::Marker, activity::Marker, false, "nvtx"},
    {RecordKind::External, activity::ExternalCorrelation, false, "external"},
    {RecordKind::Event, activity::CudaEvent, false, "events"},
    {RecordKind::Paging, activity::UnifiedMemory, false, "paging"},
    // Last: from here on every call of the application is recorded.
    {RecordKind::Call, activity::Runtime, false, "calls"}};

/// Teardown by cuptiFinalize crashes in older versions, with graphs before 12.4
/// and else before 12.2; 12.6 is the first that PyTorch's profiler trusts.
static constexpr uint32_t FinalizeVersion = 24;

/// With buffers for each thread, which is how CUPTI does it from 13.0 on, each
/// holds one of the pool's: more threads than this are given common ones.
static constexpr unsigned ManyThreads = 64;

void Session::onRequest(uint8_t **Buffer, size_t *Size, size_t *MaxRecords) {
  TheSession.Records.request(Buffer, Size, MaxRecords);
}

void Session::onComplete(cupti::Context *, uint32_t, uint8_t *Buffer, size_t,
                         size_t Valid) {
  // The file is the parent's, and who holds a lock may not be here.
  if (TheSession.isChild())
    return;
  TheSession.Records.complete(Buffer, Valid);
}

/// Subscribes before anything else: callbacks for buffers are of the whole
/// process, and would be taken from another tool.
bool Session::subscribe(const Origin &From) {
  cupti::Result R = A.Subscribe(&Subscriber, onCall, nullptr);
  if (R == cupti::Success) {
    setAttributes(From);
    R = A.ActivityRegisterCallbacks(onRequest, onComplete);
  } else {
    Subscriber = nullptr;
  }
  if (R == cupti::Success)
    return true;

  char What[496];
  Text T(What, sizeof(What));
  if (R == cupti::MultipleSubscribers) {
    T << "another tool uses CUPTI in this process";
    // The newer call fails too, but tells the name.
    char Other[64] = {};
    cupti::SubscriberParams P = {sizeof(P), "culprit", Other, sizeof(Other)};
    cupti::Subscriber *S = nullptr;
    if (A.Subscribe_v2 &&
        A.Subscribe_v2(&S, onCall, nullptr, &P) == cupti::Success)
      A.Unsubscribe(S);
    if (Other[0])
      T << ": " << Other;
    fail(StateCode::SubscriberBusy, static_cast<uint32_t>(R), What);
  } else {
    T << (Subscriber ? "cuptiActivityRegisterCallbacks" : "cuptiSubscribe")
      << " failed with " << R << ", " << A.text(R);
    if (!A.Driver)
      T << ": there is no CUDA driver";
    else if (R == cupti::NotInitialized)
      T << ": " << A.Path << " may be newer than the driver, " << A.Driver;
    fail(StateCode::CuptiFailed, static_cast<uint32_t>(R), What);
  }
  if (Subscriber)
    A.Unsubscribe(Subscriber);
  Subscriber = nullptr;
  return false;
}

static void setAttribute(const cupti::Api &A, int Attribute, uint8_t Value) {
  size_t Size = sizeof(Value);
  if (A.ActivitySetAttribute)
    A.ActivitySetAttribute(Attribute, &Size, &Value);
}

/// What must be said before the callbacks for buffers are.
void Session::setAttributes(const Origin &From) {
  HasThreadIds = A.GetThreadIdType && A.GetThreadIdType(&ThreadIds) == 0;
  if (A.SetThreadIdType)
    A.SetThreadIdType(cupti::ThreadIdSystem);
  // Fresh pages are zero; zeroing would be done on the application's threads.
  setAttribute(A, cupti::AttributeZeroedOut, 1);
  // A launched program has not made its threads yet.
  if (From.How == Entry::Launched || processStat(20) > ManyThreads)
    setAttribute(A, cupti::AttributePerThread, 0);
}

/// Leaves CUPTI as it was found: in a process where it stays attached, another
/// tool may use it later and does not give it zeroed buffers.
void Session::restore() {
  // There kernels go on, into our buffers.
  if (A.Version == cupti::BadVersion)
    return;
  setAttribute(A, cupti::AttributeZeroedOut, 0);
  if (HasThreadIds && A.SetThreadIdType)
    A.SetThreadIdType(ThreadIds);
  if (A.ActivityEnableAllSyncRecords)
    A.ActivityEnableAllSyncRecords(1);
}

/// Without this the kind of paging has no records.
static cupti::Result choosePaging(const cupti::Api &A) {
  cupti::PagingConfig Config[] = {
      {cupti::PagingOfAllDevices, cupti::PagingToDevice, 0, 1},
      {cupti::PagingOfAllDevices, cupti::PagingToHost, 0, 1},
      {cupti::PagingOfAllDevices, cupti::PagingDeviceFaults, 0, 1}};
  return A.ActivityConfigureUnifiedMemoryCounter
             ? A.ActivityConfigureUnifiedMemoryCounter(Config, 3)
             : cupti::NotSupported;
}

uint64_t Session::enable() {
  uint64_t Done = 0;
  for (const Source &S : Sources) {
    if (!(Asked.Kinds >> unsigned(S.Kind) & 1))
      continue;
    auto Enable = S.Dump && A.ActivityEnableAndDump ? A.ActivityEnableAndDump
                                                    : A.ActivityEnable;
    cupti::Result R = S.Kind == RecordKind::Paging ? choosePaging(A)
                                                   : cupti::Success;
    if (R == cupti::Success)
      R = Enable(static_cast<int>(S.Activity));
    if (R == cupti::Success) {
      Done |= uint64_t(1) << unsigned(S.Kind);
      continue;
    }
    // Without pools the allocations are told none the less.
    if (S.Kind == RecordKind::Pool && R == cupti::InvalidKind)
      continue;
    char What[200];
    Text(What, sizeof(What)) << S.Word << ": not recorded, as CUPTI refuses: "
                             << A.text(R) << " (" << R << ", activity kind "
                             << S.Activity << ")";
    Records.addState(StateCode::KindRefused, static_cast<uint32_t>(R), What);
  }
  if (Done >> unsigned(RecordKind::Call) & 1) {
    enableCalls();
    CallsFrom = ticks();
  }
  if ((Done >> unsigned(RecordKind::Sync) & 1) &&
      A.ActivityEnableAllSyncRecords)
    A.ActivityEnableAllSyncRecords(0);
  return Done;
}

static void chooseDriverCalls(const cupti::Api &A, uint8_t Enable) {
#define DRIVER_CALL(First, Last, What)                                         \
  for (uint32_t Id = First; Id <= Last; ++Id)                                  \
    A.ActivityEnableDriverApi(Id, Enable);
#include "Agent/DriverCalls.def"
}

void Session::enableCalls() {
  if (A.ActivityEnableRuntimeApi)
    for (uint32_t Id : ChattyCalls)
      A.ActivityEnableRuntimeApi(Id, 0);
  // Of a version that has not the choice the sink leaves out the others.
  static constexpr uint32_t CuLaunchKernel = 307;
  WholeDriver =
      Asked.AllDriverCalls || !A.ActivityEnableDriverApi ||
      A.ActivityEnableDriverApi(CuLaunchKernel, 1) != cupti::Success;
  if (WholeDriver)
    A.ActivityEnable(static_cast<int>(activity::Driver));
  else
    chooseDriverCalls(A, 1);
}

void Session::disable() {
  for (const Source &S : Sources)
    if ((Enabled >> unsigned(S.Kind) & 1) &&
        (A.Version != cupti::BadVersion || S.Kind != RecordKind::Kernel))
      A.ActivityDisable(static_cast<int>(S.Activity));
  if (!(Enabled >> unsigned(RecordKind::Call) & 1))
    return;
  if (WholeDriver)
    A.ActivityDisable(static_cast<int>(activity::Driver));
  else
    chooseDriverCalls(A, 0);
}

/// Before the first kind is enabled.
void Session::watchCaptures(bool FromStart) {
  Captures.follow(A, Subscriber);
  // One that was let go meanwhile may have begun some.
  if (FromStart && !__atomic_load_n(&LetGo, __ATOMIC_ACQUIRE))
    Captures.followFromStart();
}

/// Whether cuptiFinalize may be called at the end of this call.
bool Session::mayFinalize(int Domain, uint32_t Id,
                          const cupti::CallbackData &Data) {
  uint32_t Asked = __atomic_load_n(&Finalizing, __ATOMIC_ACQUIRE);
  if (Data.Site != cupti::ApiExit ||
      (Asked != FinalizeInAny && (Asked != FinalizeInWait ||
                                  !StreamCaptures::isWait(Domain, Id))))
    return false;
  return Captures.areOver() && !isChild() &&
         __atomic_compare_exchange_n(&Finalizing, &Asked, FinalizeRuns, false,
                                     __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

/// cuptiFinalize is safe at the end of a CUDA call, on the thread that makes
/// it; so it waits for one.
void Session::onCall(void *, int Domain, uint32_t Id,
                     const cupti::CallbackData *Data) {
  Session &S = TheSession;
  if (!Data || (Domain != cupti::RuntimeApi && Domain != cupti::DriverApi))
    return;
  S.Captures.hear(Domain, Id, *Data);
  if (!S.mayFinalize(Domain, Id, *Data))
    return;
  S.A.Finalize();
  __atomic_store_n(&S.Finalizing, FinalizeDone, __ATOMIC_RELEASE);
}

StateCode Session::detach() {
  auto IsExit = [&] { return __atomic_load_n(&ExitAsked, __ATOMIC_ACQUIRE); };
  auto IsDone = [&] {
    return __atomic_load_n(&Finalizing, __ATOMIC_ACQUIRE) == FinalizeDone;
  };
  if (Asked.Finalize && A.Finalize && A.Version >= FinalizeVersion &&
      A.Version != cupti::BadVersion && !IsExit()) {
    __atomic_store_n(&Finalizing, FinalizeInWait, __ATOMIC_RELEASE);
    A.EnableDomain(1, Subscriber, cupti::RuntimeApi);
    A.EnableDomain(1, Subscriber, cupti::DriverApi);
    for (unsigned Waited = 0; Waited < 2000 && !IsDone() && !IsExit();
         ++Waited) {
      // A program that does not wait now: any call has to do.
      uint32_t Before = FinalizeInWait;
      if (Waited == 1000)
        __atomic_compare_exchange_n(&Finalizing, &Before, FinalizeInAny, false,
                                    __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
      poll(nullptr, 0, 1);
    }
    // No CUDA call came. If one is in cuptiFinalize just now, it has the word.
    const uint32_t Waiting[] = {FinalizeInWait, FinalizeInAny};
    for (uint32_t Still : Waiting)
      __atomic_compare_exchange_n(&Finalizing, &Still, FinalizeNot, false,
                                  __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    while (__atomic_load_n(&Finalizing, __ATOMIC_ACQUIRE) == FinalizeRuns)
      poll(nullptr, 0, 1);
    if (IsDone()) {
      Subscriber = nullptr;
      return StateCode::FullDetach;
    }
    A.EnableDomain(0, Subscriber, cupti::RuntimeApi);
    A.EnableDomain(0, Subscriber, cupti::DriverApi);
  }
  if (!IsExit())
    A.Unsubscribe(Subscriber);
  Subscriber = nullptr;
  return StateCode::SoftDetach;
}

} // namespace culprit::agent
