//===- CaptureStatus.cpp ----------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "CaptureStatus.h"
#include "Support/Units.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/raw_ostream.h"
#include <sys/ioctl.h>
#include <unistd.h>

using namespace llvm;

namespace culprit {

using capture::RecordKind;
using std::chrono::milliseconds;

CaptureStatus::Form CaptureStatus::choose(bool Verbose, bool Quiet,
                                          bool Shared) {
  if (Quiet)
    return Form::Nothing;
  // One that cannot go back would show each line's remains.
  bool GoesBack = sys::Process::GetEnv("TERM").value_or("dumb") != "dumb";
  if (sys::Process::StandardErrIsDisplayed() && GoesBack && !Shared)
    return Form::Line;
  return Verbose ? Form::Lines : Form::Nothing;
}

static unsigned columns() {
  winsize Size = {};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &Size) == 0 && Size.ws_col > 1)
    return Size.ws_col;
  return 80;
}

/// "1,204 kernels (120/s)".
static std::string counted(uint64_t Now, uint64_t Before, double Seconds,
                           StringRef What) {
  std::string Out = formatCount(int64_t(Now)) + " " + What.str();
  if (Now != Before && Seconds > 0)
    Out += " (" +
           formatCount(int64_t(double(Now - Before) / Seconds + 0.5)) + "/s)";
  return Out;
}

std::string CaptureStatus::text(const Sum &Now, double Seconds,
                                double Elapsed) const {
  std::string Out =
      formatv(Now.Ending ? "{0:f0} s, ending: " : "{0:f0} s: ", Elapsed).str();
  if (Now.Ending)
    Seconds = 0; // No rates of what does not come any more.
  // What is cut off by a narrow terminal comes last.
  Out += counted(Now.Kernels, Last.Kernels, Seconds, "kernels") + ", " +
         formatCount(int64_t(Now.Copies)) + " copies";
  if (Seconds > 0 && Now.Busy >= Last.Busy) {
    // Work that overlaps counts twice, so it can be more than the time.
    double Share = double(Now.Busy - Last.Busy) / 1e9 / Seconds;
    Out += Share > 1.005 ? ", device busy (several at once)"
                         : formatv(", device busy {0:f0} %", Share * 100).str();
  }
  Out += ", " + formatCount(int64_t(Now.Lost)) + " lost, " +
         formatBytes(double(Now.Bytes)) + ", " +
         counted(Now.Calls, Last.Calls, Seconds, "calls");
  std::string Others = recordWords(Now.Others.Seen);
  return Others == "nothing" ? Out : Out + ", " + Others;
}

void CaptureStatus::show(ArrayRef<std::unique_ptr<CaptureSession>> Sessions) {
  Clock::time_point At = Clock::now();
  if (How == Form::Nothing || At < Next)
    return;
  Next = At + (How == Form::Line ? milliseconds(500) : milliseconds(5000));
  Sum Now;
  unsigned Active = 0;
  for (const auto &S : Sessions) {
    const capture::StatusMessage &M = S->last();
    bool IsActive = S->started() && !S->isOver();
    Active += IsActive;
    Now.Ending &= !IsActive || S->isStopping();
    Now.Kernels += M.Seen[unsigned(RecordKind::Kernel)];
    Now.Copies += M.Seen[unsigned(RecordKind::Copy)] +
                  M.Seen[unsigned(RecordKind::PeerCopy)];
    Now.Calls += M.Seen[unsigned(RecordKind::Call)];
    for (RecordKind Kind :
         {RecordKind::GraphLaunch, RecordKind::Set, RecordKind::Sync,
          RecordKind::Memory, RecordKind::Marker, RecordKind::Paging})
      Now.Others.Seen[unsigned(Kind)] += M.Seen[unsigned(Kind)];
    Now.Lost += lostRecords(M.Lost);
    Now.Busy += M.BusyTime;
    Now.Bytes += S->size();
  }
  // Not the first line: there is nothing yet.
  if (How == Form::Lines && !Shown) {
    Shown = true;
    return;
  }
  double Elapsed = std::chrono::duration<double>(At - Begin).count();
  double Seconds = std::chrono::duration<double>(At - Before).count();
  std::string Line =
      Active == 0 ? formatv("{0:f0} s: waits for CUDA", Elapsed).str()
                  : text(Now, Seconds, Elapsed);
  if (Active > 1)
    Line = (Twine(Active) + " processes, " + Line).str();
  // CUPTI hands records over in bursts: a rate is of a second at least.
  if (Seconds >= 1) {
    Last = Now;
    Before = At;
  }
  if (How == Form::Lines) {
    errs() << Line << '\n';
  } else {
    Shown = true;
    errs() << '\r' << StringRef(Line).take_front(columns() - 1) << "\x1b[K";
  }
  errs().flush();
}

void CaptureStatus::wipe() {
  if (How != Form::Line || !Shown)
    return;
  Shown = false;
  errs() << "\r\x1b[K";
  errs().flush();
}

} // namespace culprit
