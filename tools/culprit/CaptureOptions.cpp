//===- CaptureOptions.cpp ---------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "CaptureOptions.h"
#include "Attach/ProcFile.h"
#include "Support/Glob.h"
#include "Support/Units.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include <cerrno>
#include <ctime>
#include <fcntl.h>
#include <unistd.h>

using namespace llvm;

namespace culprit {

using capture::RecordKind;

CaptureFlags::CaptureFlags(cl::SubCommand &Command)
    : Output("o", cl::sub(Command), cl::value_desc("FILE"),
             cl::desc("The capture (culprit-PID-TIME.cprt)")),
      Kinds("kinds", cl::sub(Command), cl::value_desc("KINDS"),
            cl::desc("What to record: default, or of kernels, copies, sets, "
                     "calls, syncs, memory, overhead, graphs, nvtx, events, "
                     "external, paging")),
      MaxSize("max-size", cl::sub(Command), cl::value_desc("SIZE"),
              cl::init("2G"),
              cl::desc("Stop at this size: 500M, 2G (default), 0 for none")),
      Cupti("cupti", cl::sub(Command), cl::value_desc("PATH"),
            cl::desc("The libcupti to load where the process has none")),
      Duration("duration", cl::sub(Command), cl::init(0.0),
               cl::value_desc("SECONDS"), cl::desc("Stop after this time")),
      Ring("ring", cl::sub(Command),
           cl::desc("At --max-size overwrite the oldest, do not stop")),
      Finalize("finalize", cl::sub(Command),
               cl::desc("Take CUPTI out of the process at the end, where that "
                        "is safe (default)")),
      NoFinalize("no-finalize", cl::sub(Command),
                 cl::desc("Leave CUPTI in the process, idle")),
      Diagnose("diagnose", cl::sub(Command),
               cl::desc("Then say what is wrong, as `culprit diagnose` does")),
      DryRun("dry-run", cl::sub(Command),
             cl::desc("Say what would be done and what is in the way")),
      Verbose("verbose", cl::sub(Command),
              cl::desc("A line on the state every 5 s")),
      Quiet("quiet", cl::sub(Command),
            cl::desc("Neither state nor summary, only what went wrong")) {}

namespace {
struct KindWord {
  StringLiteral Word;
  uint64_t Bits;
};

constexpr uint64_t bitOf(RecordKind Kind) {
  return uint64_t(1) << unsigned(Kind);
}

constexpr KindWord KindWords[] = {
#define CAPTURE_KIND(Id, Word, One, Many) {Word, bitOf(RecordKind::Id)},
#include "Capture/Kinds.def"
};

/// What names the devices, contexts, streams and threads of all the others.
constexpr uint64_t AlwaysKinds =
    bitOf(RecordKind::Device) | bitOf(RecordKind::Context) |
    bitOf(RecordKind::Stream) | bitOf(RecordKind::Name);
} // namespace

std::string kindWords(uint64_t Kinds) {
  SmallVector<StringRef, 16> Words;
  for (const KindWord &K : KindWords)
    if ((Kinds & K.Bits) && !is_contained(Words, K.Word))
      Words.push_back(K.Word);
  return join(Words, ",");
}

static Expected<uint64_t> parseKinds(StringRef Text) {
  SmallVector<StringRef, 16> Words;
  Text.split(Words, ',', -1, /*KeepEmpty=*/false);
  uint64_t Kinds = AlwaysKinds;
  for (StringRef Word : Words) {
    Word = Word.trim();
    if (Word == "default") {
      Kinds |= capture::DefaultKinds;
      continue;
    }
    uint64_t Asked = 0;
    for (const KindWord &K : KindWords)
      Asked |= K.Word == Word ? K.Bits : 0;
    Kinds |= Asked;
    if (Asked)
      continue;
    std::vector<std::string> Known{"default"};
    for (const KindWord &K : KindWords)
      if (!is_contained(Known, K.Word))
        Known.push_back(K.Word.str());
    std::string Close = closestName(Word, Known);
    return failure("--kinds: there is no '" + Word + "'",
                   (Close.empty() ? "" : "did you mean '" + Close + "'? ") +
                       "one or more of " + join(Known, ", "));
  }
  if (Kinds == AlwaysKinds)
    return failure("--kinds: names nothing to record",
                   "for example --kinds=kernels,copies,calls");
  return Kinds;
}

/// "500M" as bytes. Powers of 1024, as `formatBytes` has them.
static Expected<uint64_t> parseSize(StringRef Text) {
  StringRef Rest = Text.trim();
  size_t Digits = Rest.find_first_not_of("0123456789.");
  StringRef Unit = Digits == StringRef::npos ? "" : Rest.substr(Digits).trim();
  double Number = 0;
  std::string Letters = Unit.lower();
  StringRef Short = Letters;
  if (!Short.consume_back("ib"))
    Short.consume_back("b");
  double Scale = Short.empty()  ? 1
                 : Short == "k" ? 1024.
                 : Short == "m" ? 1024. * 1024
                 : Short == "g" ? 1024. * 1024 * 1024
                 : Short == "t" ? 1024. * 1024 * 1024 * 1024
                                : 0;
  if (Rest.take_front(Digits).getAsDouble(Number) || Scale == 0 ||
      Number * Scale > 1e18)
    return failure("--max-size: '" + Text + "' is no size",
                   "for example --max-size=500M or --max-size=2G");
  auto Bytes = uint64_t(Number * Scale);
  if (Bytes != 0 && Bytes < 65536)
    return failure("--max-size: " + formatBytes(double(Bytes)) +
                       " hold no capture",
                   "64 KiB at least; 0 is no limit");
  return Bytes;
}

Expected<capture::StartMessage> CaptureFlags::start() const {
  capture::StartMessage S = {};
  S.Kinds = capture::DefaultKinds;
  if (Kinds.getNumOccurrences()) {
    Expected<uint64_t> Asked = parseKinds(Kinds);
    if (!Asked)
      return Asked.takeError();
    S.Kinds = *Asked;
  }
  Expected<uint64_t> Size = parseSize(MaxSize);
  if (!Size)
    return Size.takeError();
  if (Ring && *Size == 0)
    return failure("--ring wants a size to overwrite at",
                   "give --max-size, for example --max-size=500M");
  if (Ring && *Size < capture::LeastRingSize)
    return failure("--max-size=" + MaxSize + " is too small for a ring",
                   "give " + formatBytes(capture::LeastRingSize) +
                       " at least");
  if (Finalize && NoFinalize)
    return failure("--finalize and --no-finalize exclude each other");
  if (Verbose && Quiet)
    return failure("--verbose and --quiet exclude each other");
  S.MaxSize = *Size;
  S.Full = Ring ? capture::FullPolicy::Ring : capture::FullPolicy::Stop;
  S.PoolBytes = capture::DefaultPoolBytes;
  S.BufferBytes = capture::DefaultBufferBytes;
  S.Finalize = !NoFinalize;
  if (!Cupti.empty()) {
    SmallString<256> Path(Cupti);
    if (!sys::fs::exists(Path))
      return failure("--cupti: " + Path + ": no such file",
                     "name a libcupti.so.N of a CUDA toolkit, or of the wheel "
                     "nvidia-cuda-cupti");
    sys::fs::make_absolute(Path);
    if (Path.size() >= sizeof S.CuptiPath)
      return failure("--cupti: " + Path + ": the path is too long");
    memcpy(S.CuptiPath, Path.data(), Path.size());
  }
  return S;
}

/// A file that gets the number of stdout or stderr would also get what is
/// written there.
static void openStandardStreams() {
  for (int Fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    while (::fcntl(Fd, F_GETFD) < 0)
      if (::open("/dev/null", O_RDWR) < 0)
        return;
}

Expected<CapturePlan> CaptureFlags::plan() const {
  openStandardStreams();
  Expected<capture::StartMessage> Start = start();
  if (!Start)
    return Start.takeError();
  CaptureNames Names(Output);
  if (Error E = Names.check())
    return E;
  Expected<std::string> Agent = findAgent();
  if (!Agent)
    return Agent.takeError();
  return CapturePlan{*Start, std::move(Names), std::move(*Agent)};
}

std::string agentVersion() { return "culprit " CULPRIT_VERSION; }

Expected<std::string> findAgent() {
  if (auto Named = sys::Process::GetEnv("CULPRIT_AGENT")) {
    SmallString<256> Path(*Named);
    sys::fs::make_absolute(Path);
    if (sys::fs::exists(Path))
      return Path.str().str();
    return failure("CULPRIT_AGENT names " + *Named + ", which is not there",
                   "unset it to use the agent of the installation");
  }
  static int Anchor;
  SmallString<256> Program(sys::fs::getMainExecutable(nullptr, &Anchor));
  sys::path::remove_filename(Program);
  SmallString<256> Path;
  for (StringRef Folder : {"../lib/culprit", "../lib"}) {
    Path = Program;
    sys::path::append(Path, Folder, capture::AgentFile);
    sys::path::remove_dots(Path, /*remove_dot_dot=*/true);
    if (sys::fs::exists(Path))
      return Path.str().str();
  }
  return failure("the agent's library is not at " + Path,
                 "install culprit again, or set CULPRIT_AGENT to the path of " +
                     Twine(capture::AgentFile));
}

CaptureNames::CaptureNames(std::string Output) : Output(std::move(Output)) {
  std::time_t Now = std::time(nullptr);
  std::tm Parts = {};
  localtime_r(&Now, &Parts);
  char Text[32];
  Time.assign(Text, std::strftime(Text, sizeof Text, "%Y%m%d-%H%M%S", &Parts));
}

Error CaptureNames::check() const {
  if (Output == "--")
    return failure("-o: no file is named before --",
                   "culprit record -o run.cprt -- COMMAND");
  if (!Output.empty() && sys::fs::is_directory(Output))
    return failure(Output + ": is a folder",
                   "name a file in it: -o " + StringRef(Output).rtrim('/') +
                       "/run.cprt");
  if (!Output.empty() && sys::fs::exists(Output))
    return failure(Output + ": is there already",
                   "captures are never overwritten; name another file with -o");
  StringRef Folder = sys::path::parent_path(Output);
  if (!Folder.empty() && !sys::fs::is_directory(Folder))
    return failure(Output + ": there is no folder " + Folder,
                   "make it first: mkdir -p " + Folder);
  std::string Probe =
      Output.empty() ? withPid(Twine(int64_t(::getpid()))) : Output;
  attach::Descriptor File(
      ::open(Probe.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!File)
    return failure(attach::withErrno(Probe, errno),
                   "name a file that can be made with -o, for example -o "
                   "/tmp/run.cprt");
  ::unlink(Probe.c_str());
  return Error::success();
}

std::string CaptureNames::withPid(const Twine &Pid) const {
  if (Output.empty())
    return ("culprit-" + Pid + "-" + Time + ".cprt").str();
  StringRef Ending = sys::path::extension(Output);
  return (StringRef(Output).drop_back(Ending.size()) + "." + Pid + Ending)
      .str();
}

std::string CaptureNames::next(pid_t Pid) {
  if (!Output.empty() && !Given) {
    Given = true;
    return Output;
  }
  std::string Name = withPid(Twine(int64_t(Pid)));
  for (unsigned I = 2; sys::fs::exists(Name); ++I)
    Name = withPid(Twine(int64_t(Pid)) + "-" + Twine(I));
  return Name;
}

std::string CaptureNames::pattern() const {
  SmallString<256> Path(withPid("%p"));
  sys::fs::make_absolute(Path);
  return Path.str().str();
}

} // namespace culprit
