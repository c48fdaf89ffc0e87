//===- Attach.cpp - culprit attach ------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Attach/Injection.h"
#include "Attach/SessionFolder.h"
#include "CaptureOptions.h"
#include "CaptureStatus.h"
#include "Commands.h"
#include "Support/Units.h"
#include "llvm/Support/FormatVariadic.h"
#include <atomic>
#include <csignal>
#include <optional>
#include <poll.h>

using namespace llvm;

namespace culprit {

using std::chrono::milliseconds;

static cl::SubCommand AttachCommand("attach",
                                    "Record what a running program does on the "
                                    "GPU");
static cl::list<std::string> Pids(cl::Positional, cl::sub(AttachCommand),
                                  cl::desc("PID"));
static CaptureFlags AttachFlags(AttachCommand);

static std::atomic<unsigned> Interruptions;

namespace {
/// While it lives, signals that end culprit are counted and do not.
class Interrupts {
public:
  Interrupts() {
    struct sigaction Action = {};
    Action.sa_handler = [](int) { ++Interruptions; };
    for (size_t I = 0; I < std::size(Signals); ++I) {
      sigaction(Signals[I], nullptr, &Before[I]);
      if (Before[I].sa_handler != SIG_IGN) // nohup
        sigaction(Signals[I], &Action, nullptr);
    }
  }
  ~Interrupts() {
    for (size_t I = 0; I < std::size(Signals); ++I)
      sigaction(Signals[I], &Before[I], nullptr);
  }

private:
  static constexpr int Signals[] = {SIGINT, SIGTERM, SIGHUP};
  struct sigaction Before[std::size(Signals)];
};
} // namespace

/// "python is the name of 41 (has libcuda), 57: culprit attach 41"; empty when
/// it is nobody's.
static std::string namesakes(StringRef Name) {
  constexpr size_t Most = 5;
  std::vector<attach::Namesake> All = attach::processesNamed(Name);
  if (All.empty())
    return "";
  std::string Out = (Name + " is the name of ").str();
  for (size_t I = 0; I < std::min(All.size(), Most); ++I)
    Out += ((I ? ", " : "") + Twine(int64_t(All[I].Pid)) +
            (All[I].HasCuda ? " (has libcuda)" : ""))
               .str();
  if (All.size() > Most)
    Out += (" and " + Twine(All.size() - Most) + " more").str();
  return Out + (": culprit attach " + Twine(int64_t(All[0].Pid))).str();
}

static Expected<pid_t> wantedPid() {
  pid_t Pid = 0;
  int64_t Number;
  if (Pids.size() == 1 && !StringRef(Pids[0]).getAsInteger(10, Pid) && Pid > 0)
    return Pid;
  // A number is nobody's name, though some have it among their words.
  if (Pids.size() == 1 && StringRef(Pids[0]).getAsInteger(10, Number))
    if (std::string Known = namesakes(Pids[0]); !Known.empty())
      return failure("attach: '" + Pids[0] + "' is no number of a process",
                     Known);
  return failure(Pids.empty()      ? "attach: no process"
                 : Pids.size() > 1 ? "attach: one process at a time"
                                   : "attach: '" + Pids[0] +
                                         "' is no number of a process",
                 "give the number of one: culprit attach 4242; nvidia-smi "
                 "lists those that use a GPU");
}

/// Every check with what came of it.
static void printChecks(const attach::Preflight &P) {
  bool Reached = true;
  auto Print = [&](attach::Check Id) {
    bool Found = false;
    for (const attach::Finding &F : P.Findings) {
      if (F.Id != Id)
        continue;
      Found = true;
      Severity Level = attach::checkLevel(Id);
      StringRef Word = Level == Severity::Error     ? "refused"
                       : Level == Severity::Warning ? "warning"
                                                    : "note";
      outs() << formatv("{0,-9}{1,-15}{2}\n", Word, attach::checkName(Id),
                        F.Reason);
      if (!F.Remedy.empty())
        outs() << formatv("{0,-24}{1}\n", "", F.Remedy);
      Reached &= Level != Severity::Error;
    }
    if (!Found)
      outs() << formatv("{0,-9}{1}\n", Reached ? "passed" : "-",
                        attach::checkName(Id));
  };
#define ATTACH_CHECK(Id, Name, Level) Print(attach::Check::Id);
#include "Attach/Checks.def"
}

static int dryRun(const attach::Preflight &P, StringRef Agent) {
  printChecks(P);
  if (P.isRefused()) {
    outs() << "cannot attach\n";
    return ExitRefused;
  }
  outs() << "can attach: agent " << Agent << ", CUPTI "
         << (P.Process.Cupti.empty() ? "to be loaded"
                                     : "of the process, " + P.Process.Cupti)
         << '\n';
  return ExitDone;
}

static bool isInterrupted() { return Interruptions > 0; }

/// From the preflight to the agent's Hello. What is in the folder is needed
/// until then.
static Expected<attach::Control> inject(const attach::Preflight &P,
                                        StringRef Agent,
                                        const attach::SessionFolder &Folder,
                                        int Listener) {
  attach::InjectionOptions Options;
  Options.GivenUp = isInterrupted;
  Expected<attach::Injection> I =
      P.Process.Agent || Folder.mayHoldCode()
          ? attach::beginSession(P.Process, Folder.path(), Options)
          : attach::beginSessionFromMemory(P.Process, Folder.path(), Agent,
                                           Options);
  if (!I)
    return I.takeError();
  if (AttachFlags.Verbose)
    errs() << "the agent came in by thread " << I->Thread << " ("
           << attach::printable(I->ThreadName) << "), which was stopped for "
           << formatDuration(I->Stopped.count()) << '\n';
  // Ten seconds, in parts that Ctrl-C can end.
  pollfd Waiting = {Listener, POLLIN, 0};
  for (unsigned I = 0; I < 100 && !isInterrupted(); ++I)
    if (::poll(&Waiting, 1, 100) > 0)
      break;
  if (isInterrupted())
    return failure("stopped before the agent answered");
  Expected<std::optional<attach::Control>> Talk = attach::Control::accept(
      Listener, P.Process.Info.Status.EffectiveUid, milliseconds(1000));
  if (!Talk)
    return Talk.takeError();
  if (!*Talk)
    return failure("the agent was loaded and does not answer",
                   "its log is the state of the process: cat /proc/" +
                       Twine(int64_t(P.Process.Info.Pid)) +
                       "/task/*/{comm,syscall}; the process itself goes on");
  return std::move(**Talk);
}

/// Until the recording is over. False when culprit is to leave at once.
static bool watch(CaptureSession &S,
                  ArrayRef<std::unique_ptr<CaptureSession>> All) {
  CaptureStatus Status(CaptureStatus::choose(
      AttachFlags.Verbose, AttachFlags.Quiet, /*Shared=*/false));
  auto Seconds = std::chrono::duration<double>(AttachFlags.Duration);
  bool Told = AttachFlags.Quiet;
  while (!S.isOver()) {
    S.receive(milliseconds(100));
    if (S.started() && !std::exchange(Told, true)) {
      Status.wipe();
      errs() << "attached to " << S.who()
             << (AttachFlags.Duration > 0 ? "\n"
                                          : "; Ctrl-C ends the recording\n");
    }
    if (Interruptions > 1)
      return false;
    if (Interruptions > 0 ||
        (AttachFlags.Duration > 0 && S.elapsed() >= Seconds))
      S.stop();
    // It answers within 2 s, or is held up by CUPTI.
    if (S.stopping() > std::chrono::seconds(30))
      return false;
    Status.show(All);
  }
  return true;
}

static int record(const attach::Preflight &P, CapturePlan Plan) {
  Expected<attach::SessionFolder> Folder =
      attach::SessionFolder::create(P.Process.Info);
  if (!Folder)
    return report(Folder.takeError()), ExitRefused;
  if (!P.Process.Agent && Folder->mayHoldCode())
    if (Error E = Folder->addAgent(Plan.Agent))
      return report(std::move(E)), ExitRefused;
  Expected<attach::Descriptor> Listener = Folder->listen();
  if (!Listener)
    return report(Listener.takeError()), ExitRefused;

  std::optional<Interrupts> Held(std::in_place);
  Expected<attach::Control> Talk =
      inject(P, Plan.Agent, *Folder, Listener->get());
  if (!Talk) {
    report(Talk.takeError());
    return isInterrupted() ? ExitInterrupted : ExitRefused;
  }
  // Without CUDA yet, it waits for it.
  constexpr double ForEver = 4e9;
  double Wait =
      AttachFlags.Duration > 0 ? AttachFlags.Duration * 1000 : ForEver;
  Plan.Start.WaitForCuda = uint32_t(std::min(Wait, ForEver));
  Expected<std::unique_ptr<CaptureSession>> Begun = CaptureSession::begin(
      std::move(*Talk), Plan.Names.next(P.Process.Info.Pid), Plan.Start);
  if (!Begun)
    return report(Begun.takeError());
  std::unique_ptr<CaptureSession> All[] = {std::move(*Begun)};
  CaptureSession &S = *All[0];
  if (!watch(S, All)) {
    if (Interruptions > 1)
      report(Diagnostic{Severity::Warning,
                        "left at once; the agent ends by itself", ""});
    else
      report(Diagnostic{Severity::Warning,
                        "the agent does not end; left without it",
                        "the capture is good up to here: culprit verify " +
                            shellWord(S.path())});
    return ExitInterrupted;
  }
  if (!reportEnd(S, AttachFlags.Quiet))
    return ExitRefused;
  // From here on Ctrl-C ends culprit as ever.
  Folder->remove();
  Held.reset();
  if (AttachFlags.Diagnose)
    return diagnoseFiles({S.path()});
  if (!AttachFlags.Quiet)
    reportNext({&S});
  return ExitDone;
}

int runAttach() {
  Expected<pid_t> Pid = wantedPid();
  if (!Pid)
    return report(Pid.takeError());
  Expected<CapturePlan> Plan = AttachFlags.plan();
  if (!Plan)
    return report(Plan.takeError());
  attach::Preflight P = attach::examine(*Pid, agentVersion());
  if (AttachFlags.DryRun)
    return dryRun(P, Plan->Agent);
  if (Error E = P.refusal()) {
    report(std::move(E));
    return ExitRefused;
  }
  for (const attach::Finding &F : P.Findings)
    if (!AttachFlags.Quiet || attach::checkLevel(F.Id) != Severity::Note)
      report(Diagnostic{attach::checkLevel(F.Id), F.Reason, F.Remedy});
  return record(P, std::move(*Plan));
}

} // namespace culprit
