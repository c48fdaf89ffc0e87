//===- Export.cpp - culprit export ------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Export/Export.h"
#include "Commands.h"
#include "Evidence.h"
#include "Options.h"
#include "Readers/Capture.h"
#include "Readers/KinetoTrace.h"
#include "Readers/NsightSystems.h"
#include "Support/Units.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"

using namespace llvm;

namespace culprit {

namespace {
enum class TraceFormat { Chrome, Perfetto, Nsys };
} // namespace

static cl::SubCommand ExportCommand("export", "Write a profile for viewers: "
                                              "Perfetto, Chrome, Nsight "
                                              "Systems");
static cl::list<std::string> ExportPaths(cl::Positional, cl::sub(ExportCommand),
                                         cl::desc("FILE|FOLDER"));
static cl::opt<TraceFormat, false, ChoiceParser<TraceFormat>> ExportFormat(
    "format", cl::sub(ExportCommand), cl::init(TraceFormat::Chrome),
    cl::value_desc("chrome|perfetto|nsys"), cl::desc("Form of the file"),
    cl::values(clEnumValN(TraceFormat::Chrome, "chrome",
                          "JSON for chrome://tracing, Perfetto, TensorBoard"),
               clEnumValN(TraceFormat::Perfetto, "perfetto",
                          "The same: ui.perfetto.dev opens it"),
               clEnumValN(TraceFormat::Nsys, "nsys",
                          "SQLite as of nsys export --type sqlite")));
static cl::opt<std::string> ExportOutput("o", cl::sub(ExportCommand),
                                         cl::value_desc("OUT"),
                                         cl::desc("The file to write"));
static cl::opt<std::string> Rank("rank", cl::sub(ExportCommand),
                                 cl::value_desc("N"),
                                 cl::desc("Only this rank of several"));
static cl::opt<bool> ExportForce("force", cl::sub(ExportCommand),
                                 cl::desc("Replace OUT when it is there"));

/// Whether the file at \p Path is a profile, by what it begins with.
static bool isProfile(StringRef Path) {
  static const CaptureReader Capture;
  static const KinetoTraceReader Kineto;
  static const NsightSystemsReader Nsight;
  Expected<std::unique_ptr<InputFile>> File = InputFile::open(Path);
  if (!File) {
    consumeError(File.takeError());
    return false;
  }
  return Capture.matches(**File) != Match::No ||
         Kineto.matches(**File) >= Match::Likely ||
         Nsight.matches(**File) != Match::No;
}

/// What to read for \p Path: itself, or the profiles directly in that folder,
/// by name. What else a folder holds, and it may be all of a disk, no trace
/// has a place for.
static Expected<std::vector<std::string>> profilesAt(StringRef Path) {
  if (!sys::fs::is_directory(Path))
    return std::vector<std::string>{Path.str()};
  std::vector<std::string> Out;
  std::error_code EC;
  for (sys::fs::directory_iterator It(Path, EC), End; It != End && !EC;
       It.increment(EC))
    if (sys::fs::is_regular_file(It->path()) && isProfile(It->path()))
      Out.push_back(It->path());
  if (EC)
    return failure("export: " + Path + ": " + EC.message());
  if (Out.empty())
    return failure("export: no profile is directly in the folder " + Path,
                   "give a capture, a trace or an nsys export, or the folder "
                   "that holds those of the ranks");
  llvm::sort(Out);
  return Out;
}

/// Refuses what would lose a file.
static Error checkOutput(ArrayRef<std::string> Inputs) {
  if (!sys::fs::exists(ExportOutput))
    return Error::success();
  for (StringRef Input : Inputs) {
    bool Same = false;
    if (!sys::fs::equivalent(Input, ExportOutput, Same) && Same)
      return failure("export: " + ExportOutput + " is " +
                         (Inputs.size() == 1 ? "the file" : "a file") +
                         " to read",
                     "name another with -o OUT");
  }
  if (!sys::fs::is_regular_file(ExportOutput))
    return failure("export: " + ExportOutput + " is no regular file",
                   "name a file with -o OUT");
  if (!ExportForce)
    return failure("export: " + ExportOutput + " is there already",
                   "give --force to replace it");
  return Error::success();
}

static Error writeJson(const Case &C, int64_t OfRank,
                       const ExportOptions &Options) {
  std::error_code EC;
  raw_fd_ostream OS(ExportOutput, EC);
  if (EC)
    return failure("export: " + ExportOutput + ": " + EC.message());
  OS.SetBufferSize(1 << 20);
  writeChromeTrace(OS, C, OfRank, Options);
  OS.close();
  if (!OS.has_error())
    return Error::success();
  EC = OS.error();
  OS.clear_error();
  return failure("export: " + ExportOutput + ": " + EC.message(),
                 "is there room on the disk?");
}

static std::string ranksText(ArrayRef<int64_t> Ranks) {
  std::string Out;
  for (int64_t R : Ranks.take_front(16))
    Out += (Out.empty() ? "" : ", ") + std::to_string(R);
  return Out + (Ranks.size() > 16 ? ", ..." : "");
}

/// \p Begun says whether there may be a part of the file.
static Error writeExport(const Case &C, bool &Begun) {
  std::vector<int64_t> Ranks = profiledRanks(C);
  if (Ranks.empty())
    return failure("export: " + ExportPaths.front() + " holds no profile",
                   "give a capture, a trace or an nsys export");
  ExportOptions Options;
  Options.Version = versionString();
  if (Rank.getNumOccurrences()) {
    int64_t Wanted;
    if (StringRef(Rank).getAsInteger(10, Wanted) ||
        !is_contained(Ranks, Wanted))
      return failure("export: " + ExportPaths.front() + " has no rank '" +
                         Rank + "'",
                     "it has " + ranksText(Ranks));
    Options.Rank = Wanted;
  }
  bool OneTrace = ExportFormat != TraceFormat::Nsys;
  if (OneTrace && Ranks.size() > 1 && !Options.Rank)
    return failure("export: " + ExportPaths.front() + " holds " +
                       formatCount(int64_t(Ranks.size())) +
                       " ranks, and such a trace is of one",
                   "choose it with --rank: it has " + ranksText(Ranks));
  if (sys::fs::exists(ExportOutput))
    if (std::error_code EC = sys::fs::remove(ExportOutput))
      return failure("export: " + ExportOutput + ": " + EC.message());
  Begun = true;
  if (ExportFormat == TraceFormat::Nsys)
    return writeNsightExport(ExportOutput, C, Options);
  return writeJson(C, Options.Rank.value_or(Ranks.front()), Options);
}

int runExport() {
  if (ExportPaths.size() != 1)
    return report(failure(ExportPaths.empty() ? "export: nothing to read"
                                              : "export: one file at a time",
                          "culprit export FILE --format chrome -o OUT"));
  if (Error E = checkPaths("export", ExportPaths))
    return report(std::move(E));
  if (ExportOutput.empty())
    return report(
        failure("export: no file to write to", "name it with -o OUT"));
  Expected<std::vector<std::string>> Inputs = profilesAt(ExportPaths.front());
  if (!Inputs)
    return report(Inputs.takeError());
  if (Error E = checkOutput(*Inputs))
    return report(std::move(E));
  Expected<Case> C = readEvidence(*Inputs, 0);
  if (!C)
    return report(C.takeError());
  if (!reportUnread(*C))
    return ExitBadUse;
  bool Begun = false;
  if (Error E = writeExport(*C, Begun)) {
    // No half a file that looks like a whole one.
    if (Begun)
      sys::fs::remove(ExportOutput);
    return report(std::move(E));
  }
  return ExitDone;
}

} // namespace culprit
