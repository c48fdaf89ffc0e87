//===- CaptureSession.cpp ---------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "CaptureSession.h"
#include "Attach/ProcessInfo.h"
#include "Support/Error.h"
#include "llvm/Support/FileSystem.h"
#include <cerrno>
#include <fcntl.h>
#include <unistd.h>

using namespace llvm;

namespace culprit {

CaptureSession::CaptureSession(attach::Control Talk, std::string Path,
                               const capture::StartMessage &Start)
    : Talk(std::move(Talk)), Path(std::move(Path)), Asked(Start) {
  Pid = this->Talk.process() ? this->Talk.process()
                             : pid_t(this->Talk.hello().Pid);
  Who = attach::describe(Pid);
  if (Expected<attach::ProcessInfo> Info = attach::ProcessInfo::read(Pid))
    ProcessBegin = Info->StartTime;
  else
    consumeError(Info.takeError());
}

Expected<std::unique_ptr<CaptureSession>>
CaptureSession::begin(attach::Control Talk, std::string Path,
                      const capture::StartMessage &Start) {
  // Ours to open: the process may be of another user and see other files.
  attach::Descriptor File(::open(
      Path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!File)
    return failure(attach::withErrno(Path, errno),
                   errno == EEXIST ? "captures are never overwritten; name "
                                     "another file with -o"
                                   : "name a file that can be written with -o");
  std::unique_ptr<CaptureSession> S(
      new CaptureSession(std::move(Talk), std::move(Path), Start));
  if (Error E = S->Talk.start(Start, File.get()))
    return E;
  return S;
}

CaptureSession::~CaptureSession() {
  if (!Started)
    sys::fs::remove(Path);
}

void CaptureSession::end() {
  Over = true;
  // A command may have more children than we may have descriptors.
  Talk.close();
  if (!EndedAt)
    EndedAt = Clock::now();
}

/// The connection ends without a word when the process is killed and when it
/// runs another program. What is killed has lost its memory before its
/// descriptors.
void CaptureSession::seeSuccessor() {
  Expected<attach::ProcessInfo> Info = attach::ProcessInfo::read(Pid);
  if (!Info)
    return consumeError(Info.takeError());
  if (ProcessBegin && Info->StartTime == ProcessBegin &&
      Info->Status.HasMemory && Info->Status.State != 'Z')
    Successor = Info->Status.Name;
}

void CaptureSession::take(const attach::Control::Message &M) {
  if (auto *S = std::get_if<capture::StartedMessage>(&M)) {
    Started = *S;
    StartedAt = Clock::now();
  } else if (auto *F = std::get_if<capture::FailedMessage>(&M)) {
    Failed = *F;
    end();
  } else if (auto *State = std::get_if<capture::StatusMessage>(&M)) {
    Last = *State;
  } else if (auto *D = std::get_if<capture::DoneMessage>(&M)) {
    Done = *D;
    Last = D->Last;
    end();
  } else {
    if (!StoppedAt)
      seeSuccessor();
    end();
  }
}

void CaptureSession::receive(std::chrono::milliseconds Timeout) {
  while (!Over) {
    Expected<std::optional<attach::Control::Message>> M =
        Talk.receive(Timeout);
    if (!M) {
      Broken = toDiagnostics(M.takeError()).front().Message;
      return end();
    }
    if (!*M)
      return;
    take(**M);
    Timeout = std::chrono::milliseconds(0);
  }
}

void CaptureSession::stop() {
  if (Over || StoppedAt)
    return;
  StoppedAt = Clock::now();
  // A process that has just ended; its connection says so next.
  if (Error E = Talk.stop())
    consumeError(std::move(E));
}

CaptureSession::Clock::duration CaptureSession::stopping() const {
  return StoppedAt ? Clock::now() - *StoppedAt : Clock::duration(0);
}

CaptureSession::Clock::duration CaptureSession::elapsed() const {
  if (!StartedAt)
    return Clock::duration(0);
  Clock::time_point Until = StoppedAt ? *StoppedAt
                            : EndedAt ? *EndedAt
                                      : Clock::now();
  // It may have been asked to end before it began.
  return std::max(Until - *StartedAt, Clock::duration(0));
}

uint64_t CaptureSession::size() const {
  uint64_t Bytes = 0;
  if (sys::fs::file_size(Path, Bytes))
    return 0;
  return Bytes;
}

bool CaptureSession::hasFile() const { return sys::fs::exists(Path); }

bool CaptureSession::sawWork() const {
  using capture::RecordKind;
  constexpr RecordKind Work[] = {RecordKind::Kernel, RecordKind::GraphLaunch,
                                 RecordKind::Copy, RecordKind::PeerCopy,
                                 RecordKind::Set};
  bool Asked = false, Saw = false;
  for (RecordKind Kind : Work) {
    Asked |= this->Asked.Kinds >> unsigned(Kind) & 1;
    Saw |= Last.Seen[unsigned(Kind)] > 0;
  }
  // Without a last word what was told before is not all.
  return Saw || !Asked || !Done;
}

} // namespace culprit
