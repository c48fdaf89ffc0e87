//===- CaptureSummary.cpp - What became of a capture ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Attach/ProcFile.h"
#include "CaptureOptions.h"
#include "CaptureStatus.h"
#include "Commands.h"
#include "Readers/CaptureLosses.h"
#include "Support/Units.h"
#include "llvm/Support/FormatVariadic.h"
#include <cerrno>

using namespace llvm;

namespace culprit {

using capture::EndReason;
using capture::RecordKind;

namespace {
struct KindName {
  RecordKind Kind;
  StringLiteral One, Many;
};
} // namespace

static constexpr KindName KindNames[] = {
#define CAPTURE_KIND(Id, Word, One, Many) {RecordKind::Id, One, Many},
#include "Capture/Kinds.def"
};

std::string recordWords(ArrayRef<uint64_t> Counts) {
  std::string Out;
  for (const KindName &K : KindNames) {
    uint64_t N = Counts[unsigned(K.Kind)];
    if (N)
      Out += (Out.empty() ? "" : ", ") + formatCount(int64_t(N)) + " " +
             (N == 1 ? K.One : K.Many).str();
  }
  return Out.empty() ? "nothing" : Out;
}

uint64_t lostRecords(const capture::Drops &D) {
  uint64_t Sum = 0;
  for (const cprt::Loss &L : cprt::losses())
    Sum += D.*L.Count;
  return Sum;
}

/// A hint that begins with what \p Code of errno asks for.
static std::string writeHint(int Code) {
  if (Code == ENOSPC || Code == EDQUOT)
    return "make room, name a file on another disk with -o, or bound it: "
           "--max-size=500M";
  if (Code == EFBIG)
    return "the process has a limit for files (ulimit -f): --max-size below it";
  return "name a file on another disk with -o";
}

/// What the agent said, which has no words for an errno: "write failed, errno
/// 28". \p Hint is set when there is one.
static std::string inWords(StringRef What, std::string &Hint) {
  auto [Text, Number] = What.rsplit(", errno ");
  int Code = 0;
  if (Number.empty() || Number.getAsInteger(10, Code))
    return What.str();
  Hint = writeHint(Code);
  return attach::withErrno(Text, Code);
}

std::string shellWord(StringRef Text) {
  constexpr StringLiteral Plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
      "_-./:=@%+,";
  if (!Text.empty() && Text.find_first_not_of(Plain) == StringRef::npos)
    return Text.str();
  std::string Out = "'";
  for (char C : Text)
    Out += C == '\'' ? std::string("'\\''") : std::string(1, C);
  return Out + "'";
}

void reportNext(ArrayRef<const CaptureSession *> Sessions,
                ArrayRef<std::string> More) {
  std::string Words;
  for (const CaptureSession *S : Sessions)
    if (S->sawWork())
      Words += " " + shellWord(S->path());
  for (const std::string &Path : More)
    Words += " " + shellWord(Path);
  if (!Words.empty())
    errs() << "next: culprit diagnose" << Words << '\n';
  else if (!Sessions.empty())
    errs() << "no GPU work in this time\n";
}

static void warn(const Twine &Message, const Twine &Hint = "") {
  report(Diagnostic{Severity::Warning, Message.str(), Hint.str()});
}

/// Why a session that never began did not.
static void reportFailed(const CaptureSession &S) {
  if (!S.failed()) {
    std::string Why = S.broken(), Hint;
    if (!S.successor().empty())
      Why = "it became another program (exec): " + S.successor(),
      Hint = "attach again to record that";
    else if (Why.empty() && S.isStopping())
      Why = "the time was over before CUDA was in use",
      Hint = "give it longer with --duration, or start it by `culprit record`";
    else if (Why.empty())
      Why = "it ended before the recording began",
      Hint = S.isFromStart() ? "" : "to record it from its start: `culprit "
                                    "record`";
    report(failure("nothing was recorded of " + S.who() + ": " + Why, Hint));
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
  std::string Words = inWords(attach::printable(F.What), Hint);
  report(failure("nothing was recorded of " + S.who() + ": " + Words, Hint));
}

static void reportLosses(const CaptureSession &S) {
  const capture::Drops &D = S.last().Lost;
  for (const cprt::Loss &L : cprt::losses())
    if (uint64_t N = D.*L.Count) {
      bool Ring = L.Count == &capture::Drops::FileCap &&
                  S.asked().Full == capture::FullPolicy::Ring;
      warn(formatCount(int64_t(N)) + " of " + formatCount(int64_t(D.Seen)) +
               " records " + (Ring ? "were overwritten by newer ones" : L.Which),
           Ring ? "raise --max-size to keep more" : L.Next);
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
  if (!S.successor().empty())
    return Out + ", until it became another program (exec): " + S.successor();
  if (!S.done())
    return Out + (S.isOver() ? ", until it ended without a word" : "");
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
           "the notes of `culprit inspect " + shellWord(S.path()) +
               "` say why");
  reportLosses(S);
  if (S.done() && S.done()->What[0]) {
    std::string Hint, Words = inWords(attach::printable(S.done()->What), Hint);
    warn("the end of the recording: " + Words, Hint);
  }
  bool Kept = S.hasFile();
  if (!Kept)
    warn(S.path() + " was removed while it was written: nothing is left of it");
  if (Quiet)
    return Kept;
  const capture::StatusMessage &Last = S.last();
  errs() << "recorded " << S.who() << ' ' << howLong(S) << '\n'
         << "  records: " << recordWords(Last.Kept) << '\n';
  if (uint64_t Lost = lostRecords(Last.Lost))
    errs() << "  lost: " << formatCount(int64_t(Lost)) << '\n';
  else if (!S.done())
    errs() << "  lost: what CUPTI still held at the end, which is not known\n";
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
  errs() << '\n';
  if (Kept)
    errs() << "  file: " << S.path() << ", " << formatBytes(double(S.size()))
           << '\n';
  return Kept;
}

} // namespace culprit
