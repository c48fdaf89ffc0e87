//===- BisectOracle.cpp - Is this commit good? ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Runs the command as often as the plan wants and exits as `git bisect run`
// understands: 0 good, 1 bad, 125 cannot tell, 128 and more stop.
//
//===----------------------------------------------------------------------===//

#include "Bisect.h"
#include "Bisect/Command.h"
#include "Commands.h"
#include "Compare/Runs.h"
#include "Evidence.h"
#include "Readers/Reader.h"
#include "Readers/ScalarNames.h"
#include "Support/Units.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Regex.h"
#include <cmath>
#include <cstdlib>
#include <map>

using namespace llvm;

namespace culprit {

namespace {

/// One run of the command: whether it failed, why, or that it cannot be told.
struct Asked {
  Answer Of = Answer::Skip;
  std::string Why;
  bool Stop = false; ///< Nothing later will tell either.
};

/// When a file was written, and how long it is.
using Stamp = std::pair<int64_t, uint64_t>;

} // namespace

static std::map<std::string, Stamp> filesUnder(StringRef Folder) {
  std::map<std::string, Stamp> Out;
  std::error_code EC;
  for (sys::fs::recursive_directory_iterator It(Folder, EC), End;
       It != End && !EC; It.increment(EC)) {
    sys::fs::file_status Status;
    if (!sys::fs::status(It->path(), Status) &&
        sys::fs::is_regular_file(Status))
      Out[It->path()] = {Status.getLastModificationTime()
                             .time_since_epoch()
                             .count(),
                         Status.getSize()};
  }
  return Out;
}

/// Files of \p Folder that are new or written since \p Before: those of an
/// earlier commit say nothing of this one.
static std::vector<std::string>
written(StringRef Folder, const std::map<std::string, Stamp> &Before) {
  std::vector<std::string> Out;
  for (const auto &[Path, At] : filesUnder(Folder))
    if (auto It = Before.find(Path); It == Before.end() || It->second != At)
      Out.push_back(Path);
  return Out;
}

Expected<json::Value> diagnoseOutside(const std::vector<std::string> &Paths,
                                      const std::string &Detector) {
  static int Anchor;
  SmallString<128> File;
  if (std::error_code EC =
          sys::fs::createTemporaryFile("culprit-bisect", "json", File))
    return failure("no temporary file could be made: " + EC.message());
  FileRemover Remove(File);
  std::vector<std::string> Command = {
      sys::fs::getMainExecutable(nullptr, &Anchor), "diagnose",
      "--format=json"};
  if (!Detector.empty())
    Command.push_back("--only=" + Detector);
  Command.insert(Command.end(), Paths.begin(), Paths.end());
  CommandOptions Options;
  Options.Stdout = File.str().str();
  Expected<CommandResult> Result = runCommand(Command, Options);
  if (!Result)
    return Result.takeError();
  ErrorOr<std::unique_ptr<MemoryBuffer>> Text = MemoryBuffer::getFile(File);
  if (Result->Kind != CommandResult::End::Exited || Result->Status > 2 || !Text)
    return failure("culprit diagnose did not finish: " + Result->Reason);
  Expected<json::Value> Parsed = json::parse((*Text)->getBuffer());
  if (!Parsed) {
    consumeError(Parsed.takeError());
    return failure("bisect: culprit diagnose gave no report",
                   "it says why above");
  }
  return Parsed;
}

/// By a symptom or a class in what the command wrote.
static Expected<Asked> askDiagnosis(const std::vector<std::string> &Files,
                                    const OracleSettings &S) {
  Expected<json::Value> Report = diagnoseOutside(Files, "");
  if (!Report)
    return Report.takeError();
  const json::Object *Root = Report->getAsObject();
  if (!Root)
    return Asked{Answer::Skip, "the diagnosis is no object"};
  if (!S.Symptom.empty())
    if (const json::Array *Outcomes = Root->getArray("outcomes"))
      for (const json::Value &O : *Outcomes)
        if (const json::Object *Outcome = O.getAsObject())
          if (const json::Array *Reports = Outcome->getArray("reports"))
            for (const json::Value &R : *Reports)
              if (R.getAsObject() && R.getAsObject()->getString("symptom") ==
                                         StringRef(S.Symptom))
                return Asked{
                    Answer::Bad,
                    (R.getAsObject()->getString("message").value_or(S.Symptom))
                        .str()};
  if (!S.Class.empty())
    if (const json::Array *Hypotheses = Root->getArray("hypotheses"))
      for (const json::Value &H : *Hypotheses)
        if (const json::Object *Of = H.getAsObject())
          if (Of->getString("class") == StringRef(S.Class) &&
              Of->getNumber("probability").value_or(0) >= S.Probability)
            return Asked{Answer::Bad,
                         formatv("{0}, probability {1}", S.Class,
                                 formatNumber(
                                     *Of->getNumber("probability"), 2))};
  // A run of which too little is known is not a good one.
  if (Root->getString("verdict") == StringRef("insufficient"))
    return Asked{Answer::Skip, "the run left too little to tell"};
  return Asked{Answer::Good, "not diagnosed"};
}

/// By where a metric ends.
static Expected<Asked> askMetric(const std::vector<std::string> &Files,
                                 const OracleSettings &S) {
  Expected<Case> C = readCase(Files, threadCount(0), TensorDetail::Values);
  if (!C)
    return C.takeError();
  std::vector<RunRecord> Runs = runRecords(*C, "");
  // Loggers' names are read as canonical ones: eval_loss is val_loss.
  const std::string Canonical = scalarName(S.Metric).Name;
  for (const RunRecord &R : Runs) {
    const std::string &Name = R.series(S.Metric) ? S.Metric : Canonical;
    if (!R.series(Name))
      continue;
    const double Level = finalLevels({&R}, Name)[0];
    const bool Bad = !std::isfinite(Level) ||
                     (S.Below && !(Level < *S.Below)) ||
                     (S.Above && !(Level > *S.Above));
    return Asked{Bad ? Answer::Bad : Answer::Good,
                 S.Metric + " ends at " + formatNumber(Level, 5)};
  }
  return Asked{Answer::Skip, "no metric '" + S.Metric + "' was logged"};
}

/// By a line of the output.
static Asked askOutput(StringRef File, const OracleSettings &S) {
  ErrorOr<std::unique_ptr<MemoryBuffer>> Text = MemoryBuffer::getFile(File);
  if (!Text)
    return {Answer::Skip, "the output could not be read"};
  Regex Pattern(S.Expect, Regex::Newline);
  return Pattern.match((*Text)->getBuffer())
             ? Asked{Answer::Good, "the output has '" + S.Expect + "'"}
             : Asked{Answer::Bad, "the output lacks '" + S.Expect + "'"};
}

/// What an end that is no answer means; none for an ordinary exit.
static std::optional<Asked> unusualEnd(const CommandResult &R,
                                       const OracleSettings &S) {
  switch (R.Kind) {
  case CommandResult::End::Interrupted:
    return Asked{Answer::Skip, "interrupted: " + R.Reason, true};
  case CommandResult::End::TimedOut:
    return Asked{Answer::Skip,
                 formatv("it ran longer than {0} s", S.TimeoutSeconds).str()};
  case CommandResult::End::NotFound:
    // An old commit may lack the script; a program that is nowhere stops all.
    return Asked{Answer::Skip, R.Reason,
                 !StringRef(S.Command[0]).contains('/')};
  case CommandResult::End::Crashed:
    if (S.readsFolder())
      return std::nullopt; // what it wrote tells
    return Asked{Answer::Bad, "it crashed: " + R.Reason};
  case CommandResult::End::Exited:
    break;
  }
  if (R.Status == OracleSkip)
    return Asked{Answer::Skip, "it says that it cannot tell (125)"};
  if (R.Status == 126 || R.Status == 127)
    return Asked{Answer::Skip,
                 formatv("the command could not be run (status {0})", R.Status)
                     .str()};
  if (R.Status >= 128)
    return Asked{Answer::Skip, formatv("status {0}", R.Status).str(), true};
  return std::nullopt;
}

/// Asks once. \p Folder is what the command writes.
static Expected<Asked> askOnce(const OracleSettings &S, StringRef Folder) {
  std::map<std::string, Stamp> Before;
  if (S.readsFolder())
    Before = filesUnder(Folder);
  CommandOptions Options;
  Options.TimeoutSeconds = S.TimeoutSeconds;
  SmallString<128> Output;
  std::optional<FileRemover> Remove;
  if (!S.Expect.empty()) {
    if (std::error_code EC =
            sys::fs::createTemporaryFile("culprit-bisect", "txt", Output))
      return failure("no temporary file could be made: " + EC.message());
    Remove.emplace(Output);
    Options.Stdout = Options.Stderr = Output.str().str();
  }
  outs().flush();
  Expected<CommandResult> Result = runCommand(S.Command, Options);
  if (!Result)
    return Result.takeError();
  if (std::optional<Asked> A = unusualEnd(*Result, S))
    return *A;
  if (!S.Expect.empty())
    return askOutput(Output, S);
  if (!S.readsFolder())
    return Asked{Result->Status == 0 ? Answer::Good : Answer::Bad,
                 formatv("status {0}", Result->Status).str()};
  std::vector<std::string> Files = written(Folder, Before);
  if (Files.empty())
    return Asked{Answer::Skip,
                 "the command wrote nothing into " + Folder.str()};
  // A folder says more than its files: what belongs together.
  if (Before.empty())
    Files = {Folder.str()};
  return S.Metric.empty() ? askDiagnosis(Files, S) : askMetric(Files, S);
}

int runOracle(const OracleSettings &S) {
  std::string Folder = S.Folder;
  SmallString<128> Made;
  if (S.readsFolder() && Folder.empty()) {
    if (std::error_code EC =
            sys::fs::createUniqueDirectory("culprit-run", Made)) {
      report(failure("no temporary folder could be made: " + EC.message()));
      return OracleAbort;
    }
    Folder = Made.str().str();
    setenv("CULPRIT_RUN_DIR", Folder.c_str(), 1);
  }
  RepeatedTest Test(S.Plan);
  std::string Why;
  std::optional<int> Early;
  while (!Test.isDone()) {
    Expected<Asked> A = askOnce(S, Folder);
    if (!A) {
      report(A.takeError());
      Early = OracleAbort;
      break;
    }
    Why = A->Why;
    if (A->Of == Answer::Skip) {
      Early = A->Stop ? OracleAbort : OracleSkip;
      break;
    }
    Test.add(A->Of == Answer::Bad);
  }
  if (!Made.empty())
    sys::fs::remove_directories(Made);
  if (Early) {
    outs() << "culprit bisect: " << (*Early == OracleSkip ? "skip" : "stop")
           << ": " << Why << '\n';
    return *Early;
  }
  const Answer Of = Test.answer();
  outs() << "culprit bisect: " << toString(Of) << ": " << Why << "; "
         << Test.text() << '\n';
  return Of == Answer::Good  ? OracleGood
         : Of == Answer::Bad ? OracleBad
                             : OracleSkip;
}

} // namespace culprit
