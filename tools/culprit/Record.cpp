//===- Record.cpp - culprit record ------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Attach/Launch.h"
#include "Attach/SessionFolder.h"
#include "CaptureFallback.h"
#include "CaptureOptions.h"
#include "CaptureStatus.h"
#include "Commands.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include <poll.h>
#include <thread>
#include <unistd.h>

using namespace llvm;

namespace culprit {

using std::chrono::milliseconds;
using Clock = CaptureSession::Clock;

static cl::SubCommand RecordCommand("record",
                                    "Run a command and record what it does on "
                                    "the GPU");
static cl::opt<std::string> Program(cl::Positional, cl::sub(RecordCommand),
                                    cl::desc("-- COMMAND..."));
/// Its words are its own, also without a `--` before it.
static cl::list<std::string> RecordWords(cl::ConsumeAfter,
                                         cl::sub(RecordCommand));
static std::vector<std::string> RecordedCommand;
static CaptureFlags RecordFlags(RecordCommand);

/// A folder for the control socket.
static Expected<attach::SessionFolder> makeFolder() {
  std::string Reasons;
  for (std::string Parent :
       {sys::Process::GetEnv("TMPDIR").value_or("/tmp"), std::string("/tmp"),
        std::string("/dev/shm")}) {
    SmallString<128> Path(Parent);
    sys::fs::make_absolute(Path);
    Expected<attach::SessionFolder> F =
        attach::SessionFolder::createHere(Path);
    if (F)
      return F;
    Reasons += (Reasons.empty() ? "" : "; ") + toString(F.takeError());
  }
  return failure("no folder for the control socket: " + Reasons,
                 "set TMPDIR to a folder that can be written");
}

namespace {
/// A command and the captures of its processes.
class Recorder {
public:
  Recorder(attach::Launch Running, int Listener, CaptureNames &Names,
           const capture::StartMessage &Start)
      : Running(std::move(Running)), Listener(Listener), Names(Names),
        Start(Start) {}

  /// Until the command has ended and its captures are done. Nothing when
  /// culprit is to leave at once.
  std::optional<attach::ExitStatus> run();

  ArrayRef<std::unique_ptr<CaptureSession>> sessions() const {
    return Sessions;
  }
  /// Processes that used CUDA and have no capture.
  unsigned missed() const { return Missed; }

private:
  void step(milliseconds Timeout);
  void acceptAll();
  bool isAnyOpen() const {
    return any_of(Sessions, [](const auto &S) { return !S->isOver(); });
  }
  void stopAll() {
    for (const auto &S : Sessions)
      S->stop();
  }

  attach::Launch Running;
  int Listener;
  CaptureNames &Names;
  capture::StartMessage Start;
  void tellOnce(Error E);

  std::vector<std::unique_ptr<CaptureSession>> Sessions;
  unsigned Missed = 0;
  std::string Told; ///< The reason that was told last.
};
} // namespace

/// What goes wrong for one child goes wrong for the next ones too.
void Recorder::tellOnce(Error E) {
  std::vector<Diagnostic> All = toDiagnostics(std::move(E));
  if (All.front().Message == Told)
    return;
  Told = All.front().Message;
  report(All);
}

void Recorder::acceptAll() {
  // Who connects says Hello at once, but not in the same instant.
  for (pollfd P = {Listener, POLLIN, 0}; ::poll(&P, 1, 0) > 0;) {
    Expected<std::optional<attach::Control>> Talk =
        attach::Control::accept(Listener, ::geteuid(), milliseconds(1000));
    if (!Talk) {
      // Without a descriptor it stays in the queue, and finds one when another
      // process has ended.
      tellOnce(Talk.takeError());
      std::this_thread::sleep_for(milliseconds(20));
      return;
    }
    if (!*Talk)
      return;
    pid_t Pid = (*Talk)->process() ? (*Talk)->process()
                                   : pid_t((*Talk)->hello().Pid);
    Expected<std::unique_ptr<CaptureSession>> S = CaptureSession::begin(
        std::move(**Talk), Names.next(Pid), Start);
    if (S)
      Sessions.push_back(std::move(*S));
    else {
      tellOnce(S.takeError());
      ++Missed;
    }
  }
}

void Recorder::step(milliseconds Timeout) {
  std::vector<pollfd> Watched = {{Listener, POLLIN, 0}};
  for (const auto &S : Sessions)
    if (!S->isOver())
      Watched.push_back({S->descriptor(), POLLIN, 0});
  ::poll(Watched.data(), Watched.size(), int(Timeout.count()));
  acceptAll();
  for (const auto &S : Sessions)
    S->receive(milliseconds(0));
}

std::optional<attach::ExitStatus> Recorder::run() {
  // The command writes to the terminal as it likes.
  CaptureStatus Status(
      CaptureStatus::choose(RecordFlags.Verbose, RecordFlags.Quiet,
                            sys::Process::StandardOutIsDisplayed()));
  auto Seconds = std::chrono::duration<double>(RecordFlags.Duration);
  std::optional<attach::ExitStatus> Ended;
  while (!(Ended = Running.wait(milliseconds(0)))) {
    step(milliseconds(20));
    // Ctrl-C reaches the command too; what it does then is not recorded.
    if (attach::Launch::interruptions() > 0)
      stopAll();
    if (attach::Launch::interruptions() > 1)
      return std::nullopt;
    for (const auto &S : Sessions)
      if (RecordFlags.Duration > 0 && S->elapsed() >= Seconds)
        S->stop();
    Status.show(Sessions);
  }
  // Processes that have ended have said so by now; others live on.
  step(milliseconds(0));
  stopAll();
  Clock::time_point Until = Clock::now() + std::chrono::seconds(10);
  while (isAnyOpen() && Clock::now() < Until) {
    step(milliseconds(20));
    if (attach::Launch::interruptions() > 1)
      break;
  }
  return Ended;
}

/// Tells what became of every capture; the files that can be read.
static std::vector<std::string> reportAll(const Recorder &R,
                                          ArrayRef<FileThere> Own) {
  ArrayRef<std::unique_ptr<CaptureSession>> Sessions = R.sessions();
  std::vector<std::string> Files, Others;
  std::vector<const CaptureSession *> Good;
  unsigned Missed = R.missed();
  for (const auto &S : Sessions) {
    if (reportEnd(*S, RecordFlags.Quiet)) {
      Files.push_back(S->path());
      Good.push_back(S.get());
    } else {
      ++Missed;
    }
  }
  for (const auto &[Path, Id] : Own) {
    if (any_of(Sessions, [&](const auto &S) {
          return sys::fs::equivalent(S->path(), Path);
        }))
      continue;
    if (!RecordFlags.Quiet)
      errs() << "recorded by a process that could not reach culprit\n"
             << "  file: " << Path << '\n';
    Files.push_back(Path);
    Others.push_back(Path);
  }
  if (Missed > 0 && Missed + Files.size() > 1)
    report(Diagnostic{Severity::Warning,
                      (Twine(Missed) + " of " +
                       Twine(Missed + unsigned(Files.size())) +
                       " processes that used CUDA could not be recorded")
                          .str(),
                      ""});
  if (!RecordFlags.Quiet && !RecordFlags.Diagnose && !Files.empty())
    reportNext(Good, Others);
  if (Missed == 0 && Files.empty())
    report(Diagnostic{Severity::Warning,
                      "nothing was recorded: no process of " +
                          RecordedCommand.front() + " used CUDA",
                      "a process counts once it initialises CUDA, and keeps "
                      "CUDA_INJECTION64_PATH in its environment (sudo and "
                      "docker do not pass it on, a `culprit record` within "
                      "sets its own); 'culprit doctor' looks at the driver"});
  return Files;
}

static bool wantsRanges(const capture::StartMessage &Start) {
  return Start.Kinds >> unsigned(capture::RecordKind::Marker) & 1;
}

static int dryRun(StringRef Agent, StringRef Pattern,
                  const capture::StartMessage &Start) {
  outs() << "command " << join(RecordedCommand, " ") << '\n'
         << "with    " << attach::CudaInjection << '=' << Agent << '\n';
  if (wantsRanges(Start))
    outs() << "        " << attach::NvtxInjection << '=' << Agent << '\n';
  outs() << "        " << capture::OptionsVariable << '='
         << fallbackOptions(Start, RecordFlags.Duration, 0) << '\n';
  if (Start.CuptiPath[0])
    outs() << "        " << capture::CuptiVariable << '=' << Start.CuptiPath
           << '\n';
  outs() << "to      "
         << (RecordFlags.Output.empty() ? Pattern
                                        : StringRef(RecordFlags.Output))
         << '\n';
  return ExitDone;
}

static void warnOfOuter() {
  if (auto Outer = sys::Process::GetEnv(capture::ControlVariable);
      Outer && sys::fs::exists(*Outer))
    report(Diagnostic{Severity::Warning,
                      "another `culprit record` runs this one and gets nothing "
                      "of its command, which is recorded here",
                      "leave one of the two out"});
}

/// Runs the command to its end; the files that can be read. Nothing when
/// culprit is to leave at once.
static Expected<std::optional<attach::ExitStatus>>
recordCommand(CapturePlan &Plan, std::vector<std::string> &Files) {
  capture::StartMessage Start = Plan.Start;
  const std::string Pattern = Plan.Names.pattern();
  Expected<attach::SessionFolder> Folder = makeFolder();
  if (!Folder)
    return Folder.takeError();
  Expected<attach::Descriptor> Listener = Folder->listen();
  if (!Listener)
    return Listener.takeError();
  Expected<LifeSign> Sign = LifeSign::make(Pattern);
  if (!Sign)
    return Sign.takeError();
  attach::LaunchOptions Options;
  Options.Command.assign(RecordedCommand.begin(), RecordedCommand.end());
  Options.Agent = Plan.Agent;
  Options.Control = Folder->path() + "/" + capture::ControlFile;
  Options.Fallback = Pattern;
  Options.Options =
      fallbackOptions(Start, RecordFlags.Duration, Sign->number());
  Options.Cupti = Start.CuptiPath;
  Options.Nvtx = wantsRanges(Start);
  // The agent is called at cuInit; until then there is nothing to record.
  Start.WaitForCuda = 5000;
  std::vector<FileThere> Before = fallbackCaptures(Pattern, {});
  Expected<attach::Launch> Running = attach::Launch::start(Options);
  if (!Running)
    return Running.takeError();
  if (!RecordFlags.Quiet && sys::Process::StandardErrIsDisplayed())
    errs() << "recording to "
           << (RecordFlags.Output.empty() ? "culprit-PID-TIME.cprt"
                                          : StringRef(RecordFlags.Output))
           << "; Ctrl-C goes to the command\n";
  Recorder R(std::move(*Running), Listener->get(), Plan.Names, Start);
  std::optional<attach::ExitStatus> Ended = R.run();
  if (Ended)
    Files = reportAll(R, fallbackCaptures(Pattern, Before));
  return Ended;
}

int runRecord() {
  if (Program.getNumOccurrences()) {
    RecordedCommand = {Program};
    llvm::append_range(RecordedCommand, RecordWords);
  }
  if (RecordedCommand.empty())
    return report(failure("record: no command",
                          "culprit record -- python train.py --epochs 1"));
  Expected<CapturePlan> Plan = RecordFlags.plan();
  if (!Plan)
    return report(Plan.takeError());
  if (RecordFlags.DryRun)
    return dryRun(Plan->Agent, Plan->Names.pattern(), Plan->Start);
  warnOfOuter();
  std::vector<std::string> Files;
  Expected<std::optional<attach::ExitStatus>> Ended =
      recordCommand(*Plan, Files);
  if (!Ended)
    return report(Ended.takeError());
  if (!*Ended) {
    report(Diagnostic{Severity::Warning,
                      "left at once; the command may still run", ""});
    return ExitInterrupted;
  }
  // From here on Ctrl-C ends culprit as ever.
  if (!Files.empty() && RecordFlags.Diagnose)
    (void)diagnoseFiles(Files);
  return (*Ended)->Code;
}

} // namespace culprit
