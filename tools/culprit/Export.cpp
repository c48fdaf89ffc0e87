//===- Export.cpp - culprit export ------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Export/Export.h"
#include "Commands.h"
#include "Evidence.h"
#include "Options.h"
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
static cl::list<std::string> Paths(cl::Positional, cl::sub(ExportCommand),
                                   cl::desc("FILE"));
static cl::opt<TraceFormat, false, ChoiceParser<TraceFormat>> Format(
    "format", cl::sub(ExportCommand), cl::init(TraceFormat::Chrome),
    cl::value_desc("chrome|perfetto|nsys"), cl::desc("Form of the file"),
    cl::values(clEnumValN(TraceFormat::Chrome, "chrome",
                          "JSON for chrome://tracing, Perfetto, TensorBoard"),
               clEnumValN(TraceFormat::Perfetto, "perfetto",
                          "The same: ui.perfetto.dev opens it"),
               clEnumValN(TraceFormat::Nsys, "nsys",
                          "SQLite as of nsys export --type sqlite")));
static cl::opt<std::string> Output("o", cl::sub(ExportCommand),
                                   cl::value_desc("OUT"),
                                   cl::desc("The file to write"));
static cl::opt<std::string> Rank("rank", cl::sub(ExportCommand),
                                 cl::value_desc("N"),
                                 cl::desc("Only this rank of several"));
static cl::opt<bool> Force("force", cl::sub(ExportCommand),
                           cl::desc("Replace OUT when it is there"));

/// Refuses what would lose a file.
static Error checkOutput(StringRef Input) {
  if (Output.empty())
    return failure("export: no file to write to", "name it with -o OUT");
  if (!sys::fs::exists(Output))
    return Error::success();
  bool Same = false;
  if (!sys::fs::equivalent(Input, Output, Same) && Same)
    return failure("export: " + Output + " is the file to read",
                   "name another with -o OUT");
  if (!sys::fs::is_regular_file(Output))
    return failure("export: " + Output + " is no regular file",
                   "name a file with -o OUT");
  if (!Force)
    return failure("export: " + Output + " is there already",
                   "give --force to replace it");
  return Error::success();
}

static Error writeJson(const Case &C, int64_t OfRank,
                       const ExportOptions &Options) {
  std::error_code EC;
  raw_fd_ostream OS(Output, EC);
  if (EC)
    return failure("export: " + Output + ": " + EC.message());
  OS.SetBufferSize(1 << 20);
  writeChromeTrace(OS, C, OfRank, Options);
  OS.close();
  if (!OS.has_error())
    return Error::success();
  EC = OS.error();
  OS.clear_error();
  return failure("export: " + Output + ": " + EC.message(),
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
    return failure("export: " + Paths.front() + " holds no profile",
                   "give a capture, a trace or an nsys export");
  ExportOptions Options;
  Options.Version = versionString();
  if (Rank.getNumOccurrences()) {
    int64_t Wanted;
    if (StringRef(Rank).getAsInteger(10, Wanted) ||
        !is_contained(Ranks, Wanted))
      return failure("export: " + Paths.front() + " has no rank '" + Rank + "'",
                     "it has " + ranksText(Ranks));
    Options.Rank = Wanted;
  }
  bool OneTrace = Format != TraceFormat::Nsys;
  if (OneTrace && Ranks.size() > 1 && !Options.Rank)
    return failure("export: " + Paths.front() + " holds " +
                       formatCount(int64_t(Ranks.size())) +
                       " ranks, and such a trace is of one",
                   "choose it with --rank: it has " + ranksText(Ranks));
  if (sys::fs::exists(Output))
    if (std::error_code EC = sys::fs::remove(Output))
      return failure("export: " + Output + ": " + EC.message());
  Begun = true;
  if (Format == TraceFormat::Nsys)
    return writeNsightExport(Output, C, Options);
  return writeJson(C, Options.Rank.value_or(Ranks.front()), Options);
}

int runExport() {
  if (Paths.size() != 1)
    return report(failure(Paths.empty() ? "export: nothing to read"
                                        : "export: one file at a time",
                          "culprit export FILE --format chrome -o OUT"));
  if (Error E = checkPaths("export", Paths))
    return report(std::move(E));
  if (Error E = checkOutput(Paths.front()))
    return report(std::move(E));
  Expected<Case> C = readEvidence({Paths.front()}, 0);
  if (!C)
    return report(C.takeError());
  if (!reportUnread(*C))
    return ExitBadUse;
  bool Begun = false;
  if (Error E = writeExport(*C, Begun)) {
    // No half a file that looks like a whole one.
    if (Begun)
      sys::fs::remove(Output);
    return report(std::move(E));
  }
  return ExitDone;
}

} // namespace culprit
