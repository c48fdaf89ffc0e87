//===- SimCallbacks.cpp - The callback half of CUPTI ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "SimCupti.h"
#include <cstdio>

using namespace simcupti;
using namespace culprit::cupti;

SIM cuptiGetVersion(uint32_t *Version) {
  if (!Version)
    return told(InvalidParameter);
  *Version = settings().Version;
  return Success;
}
SIM cuptiGetTimestamp(uint64_t *Now) {
  if (!Now)
    return told(InvalidParameter);
  *Now = now();
  return Success;
}
SIM cuptiGetLastError() { return takeLastError(); }

SIM cuptiSupportedDomains(size_t *Count, int **Domains) {
  if (!attach())
    return Unknown;
  if (!Count || !Domains)
    return told(InvalidParameter);
  static int All[] = {DriverApi, RuntimeApi};
  *Count = 2;
  *Domains = All;
  return Success;
}

static char TheSubscriber;
/// Which subscribe the process uses, 1 or 2: it may not mix them, even one
/// after the other. 0 before the first and after cuptiFinalize.
static std::atomic<int> Way;

static Result subscribe(Subscriber **S, Callback C, void *User, int By) {
  if (!attach())
    return Unknown;
  if (!S)
    return told(InvalidParameter);
  Subscriber *None = nullptr;
  if (settings().Busy || (Way && Way != By) ||
      !Switched.Current.compare_exchange_strong(
          None, reinterpret_cast<Subscriber *>(&TheSubscriber)))
    return told(MultipleSubscribers);
  Way = By;
  Switched.OnCallUser = User;
  Switched.OnCall = C;
  *S = Switched.Current;
  return Success;
}

SIM cuptiSubscribe(Subscriber **S, Callback C, void *User) {
  return subscribe(S, C, User, 1);
}

SIM_SINCE(130000, cuptiSubscribe_v2, Subscriber **S, Callback C, void *User,
          SubscriberParams *P) {
  if (P && P->StructSize != sizeof(*P))
    return told(InvalidParameter);
  Result R = subscribe(S, C, User, 2);
  if (R == MultipleSubscribers && P && P->OldName && P->OldSize)
    std::snprintf(P->OldName, P->OldSize, "CUPTI for %s",
                  settings().Busy ? settings().Busy : "unknown");
  return R;
}

static bool isCurrent(const Subscriber *S) {
  return S && S == Switched.Current;
}

static void setDomain(int Domain, bool On) {
  for (std::atomic<bool> &C : Switched.Callbacks[Domain])
    C = On;
}

SIM cuptiUnsubscribe(Subscriber *S) {
  if (!isCurrent(S))
    return told(InvalidParameter);
  for (int Domain = 1; Domain < int(MaxDomain); ++Domain)
    setDomain(Domain, false);
  Switched.OnCall = nullptr;
  Switched.Current = nullptr;
  return Success;
}

SIM cuptiEnableDomain(uint32_t Enable, Subscriber *S, int Domain) {
  if (!isCurrent(S) || Domain < 1 || Domain >= int(MaxDomain))
    return told(InvalidParameter);
  setDomain(Domain, Enable);
  return Success;
}

SIM cuptiEnableAllDomains(uint32_t Enable, Subscriber *S) {
  if (!isCurrent(S))
    return told(InvalidParameter);
  for (int Domain = 1; Domain < int(MaxDomain); ++Domain)
    setDomain(Domain, Enable);
  return Success;
}

static bool isCallback(int Domain, uint32_t Id) {
  return Domain >= 1 && Domain < int(MaxDomain) && Id < MaxCallback;
}

SIM cuptiEnableCallback(uint32_t Enable, Subscriber *S, int Domain,
                        uint32_t Id) {
  if (!isCurrent(S) || !isCallback(Domain, Id))
    return told(InvalidParameter);
  Switched.Callbacks[Domain][Id] = Enable != 0;
  return Success;
}

SIM cuptiGetCallbackState(uint32_t *Enable, Subscriber *S, int Domain,
                          uint32_t Id) {
  if (!Enable || !isCurrent(S) || !isCallback(Domain, Id))
    return told(InvalidParameter);
  *Enable = Switched.Callbacks[Domain][Id];
  return Success;
}

SIM cuptiFinalize() {
  // At the end of a call it waits for the others; elsewhere the client has to
  // see to it that there are none.
  forbid(simThreadsInside() > 0 && !insideExit(),
         "cuptiFinalize while a thread is in a CUDA call, and not at its end");
  forbid(simCaptures() > 0,
         "cuptiFinalize waits for the contexts, which breaks the capture of a "
         "graph");
  switchOff();
  detach();
  flush(true);
  stopDelivery();
  Way = 0;
  return Success;
}
