//===- CaptureSummary.cpp - What became of a capture ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "CaptureOptions.h"
#include "CaptureStatus.h"
#include "Commands.h"
#include "Support/Units.h"
#include "llvm/Support/FormatVariadic.h"

using namespace llvm;

namespace culprit {

using capture::EndReason;
using capture::RecordKind;

namespace {
struct KindName {
  RecordKind Kind;
  StringLiteral One, Many;
};
struct Loss {
  uint64_t capture::Drops::*Count;
  StringLiteral What, Remedy;
};
} // namespace

// As `culprit verify` names them, in the order of interest.
static constexpr KindName KindNames[] = {
    {RecordKind::Kernel, "kernel", "kernels"},
    {RecordKind::GraphLaunch, "graph launch", "graph launches"},
    {RecordKind::Copy, "copy", "copies"},
    {RecordKind::PeerCopy, "copy between devices", "copies between devices"},
    {RecordKind::Set, "set", "sets"},
    {RecordKind::Call, "call", "calls"},
    {RecordKind::Sync, "wait", "waits"},
    {RecordKind::Memory, "allocation or free", "allocations and frees"},
    {RecordKind::Overhead, "overhead", "overheads"},
    {RecordKind::Marker, "NVTX mark", "NVTX marks"},
    {RecordKind::Event, "event", "events"},
    {RecordKind::External, "external id", "external ids"},
    {RecordKind::Paging, "page migration", "page migrations"},
};

static constexpr Loss Losses[] = {
    {&capture::Drops::CuptiDropped, "CUPTI had no room for them",
     "record less: --kinds=kernels,copies,calls"},
    {&capture::Drops::PoolOverflow,
     "came faster than they could be written",
     "record less, as --kinds=kernels,copies,calls, or write to a faster disk"},
    {&capture::Drops::ZeroTime, "are kernels that CUPTI could not time", ""},
    {&capture::Drops::FileCap, "came after the file was full",
     "raise --max-size, or keep the newest with --ring"},
    {&capture::Drops::WriteError, "could not be written",
     "see whether the disk of the file is full"},
};

std::string recordWords(const capture::StatusMessage &S) {
  std::string Out;
  for (const KindName &K : KindNames) {
    uint64_t N = S.Seen[unsigned(K.Kind)];
    if (N)
      Out += (Out.empty() ? "" : ", ") + formatCount(int64_t(N)) + " " +
             (N == 1 ? K.One : K.Many).str();
  }
  return Out.empty() ? "nothing" : Out;
}

uint64_t lostRecords(const capture::Drops &D) {
  uint64_t Sum = 0;
  for (const Loss &L : Losses)
    Sum += D.*L.Count;
  return Sum;
}

static void warn(const Twine &Message, const Twine &Hint = "") {
  report(Diagnostic{Severity::Warning, Message.str(), Hint.str()});
}

/// Why a session that never began did not.
static void reportFailed(const CaptureSession &S) {
  if (!S.failed()) {
    report(failure(
        "nothing was recorded of " + S.who() + ": " +
            (!S.broken().empty() ? S.broken()
             : S.isStopping()    ? "it was stopped before it began"
                                 : "it ended before the recording began")));
    return;
  }
  const capture::FailedMessage &F = *S.failed();
  std::string Hint;
  switch (F.Code) {
  case capture::StateCode::CuptiMissing:
    Hint = StringRef(F.What).contains("libcuda")
               ? "attach while it uses CUDA, or start it by `culprit record`"
               : "install CUPTI (pip install nvidia-cuda-cupti-cu12) and name "
                 "it by --cupti; `culprit doctor` lists those that are here";
    break;
  case capture::StateCode::SubscriberBusy:
    Hint = "CUPTI serves one tool at a time: end that one, or start the "
           "program without it";
    break;
  case capture::StateCode::CuptiFailed:
    Hint = "`culprit doctor` says whether CUPTI fits the driver";
    break;
  case capture::StateCode::FileFailed:
    Hint = "name a file on another disk with -o";
    break;
  default:
    break;
  }
  report(failure("nothing was recorded of " + S.who() + ": " + F.What, Hint));
}

static void reportLosses(const CaptureSession &S) {
  const capture::Drops &D = S.last().Lost;
  for (const Loss &L : Losses)
    if (uint64_t N = D.*L.Count) {
      bool Ring = L.Count == &capture::Drops::FileCap &&
                  S.asked().Full == capture::FullPolicy::Ring;
      warn(formatCount(int64_t(N)) + " of " + formatCount(int64_t(D.Seen)) +
               " records " + (Ring ? "were overwritten by newer ones" : L.What),
           Ring ? "raise --max-size to keep more" : L.Remedy);
    }
  if (D.ParseStopBytes)
    warn(formatBytes(double(D.ParseStopBytes)) +
             " of what CUPTI handed over could not be read",
         "CUPTI may be of a version that this culprit does not know");
  if (D.StringsFull)
    warn(formatCount(int64_t(D.StringsFull)) +
         " records have a name that found no room: <strings-full>");
}

/// "for 10.0 s, until it ended".
static std::string howLong(const CaptureSession &S) {
  auto Time = std::chrono::duration_cast<std::chrono::nanoseconds>(S.elapsed());
  std::string Out = "for " + formatDuration(Time.count());
  if (!S.done())
    return Out + (S.isStopping() ? "" : ", until it ended without a word");
  switch (S.done()->Reason) {
  case EndReason::Exit:
    return Out + ", until it ended";
  case EndReason::FileFull:
    return Out + ", until the file was full";
  case EndReason::Failed:
    return Out + ", until the agent failed";
  default:
    return Out;
  }
}

static std::string detachWords(const capture::DoneMessage &D) {
  switch (D.Detach) {
  case capture::StateCode::FullDetach:
    return "detached: CUPTI is out of the process";
  case capture::StateCode::SoftDetach:
    return D.Reason == EndReason::Exit
               ? ""
               : "detached: CUPTI stays in the process, idle";
  default:
    return "";
  }
}

bool reportEnd(const CaptureSession &S, bool Quiet) {
  if (!S.started()) {
    reportFailed(S);
    return false;
  }
  if (!S.broken().empty())
    warn("the talk with the agent broke off: " + S.broken());
  if (uint64_t Refused = S.asked().Kinds & ~S.started()->Kinds)
    if (std::string Words = kindWords(Refused); !Words.empty())
      warn("CUPTI did not record " + Words,
           "the notes of `culprit inspect " + S.path() + "` say why");
  reportLosses(S);
  if (S.done() && S.done()->What[0])
    warn(S.done()->What);
  if (Quiet)
    return true;
  const capture::StatusMessage &Last = S.last();
  errs() << "recorded " << S.who() << ' ' << howLong(S) << '\n'
         << "  records: " << recordWords(Last) << '\n';
  if (uint64_t Lost = lostRecords(Last.Lost))
    errs() << "  lost: " << formatCount(int64_t(Lost)) << '\n';
  else
    errs() << "  lost: none\n";
  if (S.done()) {
    std::string Words = detachWords(*S.done());
    if (!Words.empty())
      errs() << "  " << Words << '\n';
  }
  double Seconds = std::chrono::duration<double>(S.elapsed()).count();
  errs() << "  agent: " << formatDuration(int64_t(Last.AgentCpu))
         << " of CPU time";
  if (Seconds > 0)
    errs() << formatv(", {0:f1} % of a core",
                      double(Last.AgentCpu) / 1e7 / Seconds);
  errs() << "\n  file: " << S.path() << ", " << formatBytes(double(S.size()))
         << '\n';
  return true;
}

} // namespace culprit
