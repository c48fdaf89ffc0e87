//===- Diagnose.cpp - culprit diagnose --------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The road: files -> readers -> case -> detectors -> symptoms -> knowledge
// base -> ranking -> report.
//
//===----------------------------------------------------------------------===//

#include "Case/RunShape.h"
#include "Commands.h"
#include "Detect/Runner.h"
#include "Detect/Timing.h"
#include "Detectors.h"
#include "Evidence.h"
#include "GoodRuns.h"
#include "Knowledge.h"
#include "Options.h"
#include "Progress.h"
#include "Rank/FromOutcomes.h"
#include "Rank/OwnEntries.h"
#include "RankingWeights.h"
#include "Report/Changes.h"
#include "Report/Report.h"
#include "Settings.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/WithColor.h"
#include <thread>

using namespace llvm;

namespace culprit {

static cl::SubCommand DiagnoseCommand("diagnose",
                                      "Say why a run broke, from the files it "
                                      "left");
static cl::list<std::string> DiagnosePaths(cl::Positional,
                                           cl::sub(DiagnoseCommand),
                                           cl::desc("PATH..."));
static cl::opt<OutputFormat, false, ChoiceParser<OutputFormat>> DiagnoseFormat(
    "format", cl::sub(DiagnoseCommand), cl::init(OutputFormat::Text),
    cl::value_desc("text|json|markdown|html|sarif"),
    cl::desc("Form of the report"),
    cl::values(clEnumValN(OutputFormat::Text, "text", "For a terminal"),
               clEnumValN(OutputFormat::Json, "json", "For programs"),
               clEnumValN(OutputFormat::Markdown, "markdown", "For an issue"),
               clEnumValN(OutputFormat::Html, "html", "One page, no links"),
               clEnumValN(OutputFormat::Sarif, "sarif", "For viewers")));
static cl::opt<std::string>
    DiagnoseOnly("only", cl::sub(DiagnoseCommand), cl::value_desc("GLOBS"),
                 cl::desc("Run these detectors: 'gpu/*,-gpu/idle'"));
static cl::list<std::string>
    DiagnosePlugins("plugins", cl::sub(DiagnoseCommand), cl::value_desc("DIR"),
                    cl::desc("Also run the detectors of DIR (repeatable)"));
static cl::list<std::string>
    DiagnoseKbPaths("kb", cl::sub(DiagnoseCommand), cl::value_desc("PATH"),
                    cl::desc("Also use the issues log PATH (repeatable)"));
static cl::list<std::string>
    DiagnoseOptions("option", cl::sub(DiagnoseCommand),
                    cl::value_desc("ID.NAME=VALUE"),
                    cl::desc("Set an option of a detector (repeatable)"));
static cl::list<std::string>
    GoodPaths("good", cl::sub(DiagnoseCommand), cl::value_desc("PATH"),
              cl::desc("Compare with the run PATH, which worked (repeatable)"));
static cl::opt<std::string>
    SincePath("since", cl::sub(DiagnoseCommand), cl::value_desc("REPORT.json"),
              cl::desc("Say what changed since an earlier report of the run"));
static ConfigOption DiagnoseConfig(DiagnoseCommand);
static cl::opt<unsigned, false, CountParser> DiagnoseTop(
    "top", cl::sub(DiagnoseCommand), cl::init(3), cl::value_desc("N"),
    cl::desc("Hypotheses shown in full (3), besides those from 50 %"));
static cl::opt<unsigned, false, CountParser>
    DiagnoseJobs("jobs", cl::sub(DiagnoseCommand), cl::init(0),
                 cl::value_desc("N"), cl::desc("Threads (one a core)"));
static cl::opt<double, false, ProbabilityParser>
    DiagnoseFailOn("fail-on", cl::sub(DiagnoseCommand), cl::init(2.0),
                   cl::value_desc("P"),
                   cl::desc("Exit 1 if a hypothesis reaches this probability"));
static cl::opt<bool>
    TimeDetectors("time-detectors", cl::sub(DiagnoseCommand),
                  cl::desc("Print the time and memory of each detector, and "
                           "of the verbs and lines of the slowest, to stderr"));

/// Tells what could not be read. True if that is everything.
static bool reportInputs(const Case &C) {
  bool AnyRead = false;
  for (const InputSummary &I : C.inputs()) {
    report(I.Remarks);
    AnyRead |= !I.Failed && !I.Format.empty();
    if (I.Format.empty() && !I.Failed && C.inputs().size() == 1)
      report(failure(I.Path + ": no reader knows this format",
                     "'culprit list formats' names those it knows"));
  }
  return !AnyRead;
}

static void print(const RunReport &R) {
  switch (DiagnoseFormat) {
  case OutputFormat::Json:
    outs() << formatv("{0:2}", toJson(R)) << '\n';
    return;
  case OutputFormat::Sarif:
    outs() << formatv("{0:2}", toSarif(R)) << '\n';
    return;
  case OutputFormat::Markdown:
    printMarkdown(outs(), R, DiagnoseTop);
    return;
  case OutputFormat::Html:
    printHtml(outs(), R, DiagnoseTop);
    return;
  case OutputFormat::Text:
    break;
  }
  TextStyle Style;
  Style.Width = outputWidth();
  Style.Top = DiagnoseTop;
  Style.Color = WithColor(outs()).colorsEnabled();
  printText(outs(), R, Style);
}

/// Whether "nothing found" says something: some detector looked and found
/// nothing, and no input was cut off, damaged or unread.
bool coversInputs(const Case &C, ArrayRef<Outcome> Outcomes) {
  for (const InputSummary &I : C.inputs())
    if (I.Failed || llvm::any_of(I.Remarks, [](const Diagnostic &D) {
          return D.Level != Severity::Note;
        }))
      return false;
  return llvm::any_of(Outcomes, [](const Outcome &O) {
    return O.Kind == OutcomeKind::Clear;
  });
}

/// How many of the entries, the first ones, are not of the shipped knowledge
/// base, which is the last source: its files are cited as kb/NAME, or below
/// the home folder where there is no store, and sorted by name.
static size_t countOwn(ArrayRef<Entry> Entries) {
  std::string Home = cantFail(homeFolder());
  auto isShipped = [&](StringRef File) {
    return File.starts_with(Home + "/kb/") ||
           (sys::path::parent_path(File) == "kb" &&
            sys::fs::exists(Home + "/" + File));
  };
  size_t Own = Entries.size();
  StringRef Last;
  for (; Own; --Own) {
    StringRef File = Entries[Own - 1].Source.File;
    if (File != Last && (!isShipped(File) || (!Last.empty() && File > Last)))
      break;
    Last = File;
  }
  return Own;
}

int runDiagnose() {
  if (DiagnosePaths.empty())
    return report(failure("diagnose: nothing to read",
                          "give files or folders that a run left behind: "
                          "culprit diagnose runs/42"));
  if (Error E = checkPaths("diagnose", DiagnosePaths))
    return report(std::move(E));
  std::vector<std::string> Given(DiagnosePaths.begin(), DiagnosePaths.end());

  // A mistake in the settings is told before minutes of reading.
  Expected<const Project *> P = project();
  if (!P)
    return report(P.takeError());
  std::vector<std::string> Logs(DiagnoseKbPaths.begin(), DiagnoseKbPaths.end());
  std::optional<SavedReport> Before;
  if (!SincePath.empty()) {
    Expected<std::vector<SavedReport>> Saved = SavedReport::load(SincePath);
    if (!Saved)
      return report(Saved.takeError());
    if (Saved->size() == 1)
      Before = std::move(Saved->front());
    else
      return report(failure(SincePath + ": holds " + Twine(Saved->size()) +
                                " reports",
                            "give one that 'culprit diagnose --format json' "
                            "wrote"));
  }

  // The knowledge base opens while the files are read: it takes some 50 ms,
  // and reading leaves a core half idle.
  std::optional<Expected<KnowledgeBase>> Opened;
  std::thread Opening([&] { Opened.emplace(openKnowledge(Logs)); });
  Expected<Case> C = readEvidence(Given, DiagnoseJobs);
  Opening.join();
  Expected<KnowledgeBase> KB = std::move(*Opened);
  if (!C) {
    consumeError(KB.takeError());
    return report(C.takeError());
  }
  bool NothingRead = reportInputs(*C);
  if (!KB)
    return report(KB.takeError());
  report(KB->remarks());
  // Recorded runs were looked at by all detectors: what a selection did not
  // look for would count as not there.
  const ShapeFigures Shape =
      DiagnoseOnly.empty() ? runShape(*C) : ShapeFigures();
  // They need not be read where neither this run nor a good one has curves.
  Expected<Weights> W = rankingWeights(
      "", "", Shape.empty() && GoodPaths.empty() ? "none" : "");
  if (!W)
    return report(W.takeError());
  Expected<DetectorSet> Detectors =
      openDetectors(DiagnosePlugins, KB->vocabulary());
  if (!Detectors)
    return report(Detectors.takeError());

  // The text names those it selected itself.
  reportBroken(*Detectors, [](StringRef Id) {
    return DiagnoseFormat != OutputFormat::Text ||
           (!DiagnoseOnly.empty() && !GlobList(DiagnoseOnly).contains(Id));
  });

  RunSettings Settings;
  Settings.Only = DiagnoseOnly;
  if (auto Chosen = optionSettings(*Detectors, DiagnoseOptions))
    Settings.Options = asTexts(*Chosen);
  else
    return report(Chosen.takeError());
  Settings.Threads = threadCount(DiagnoseJobs);
  Settings.Bounds.Timed = TimeDetectors;
  std::optional<Progress> Waiting(std::in_place, "diagnosing");
  Expected<std::vector<Outcome>> Outcomes =
      runDetectors(*Detectors, *C, Settings);
  Waiting.reset();
  if (!Outcomes)
    return report(Outcomes.takeError());

  std::vector<SymptomEvidence> Symptoms = collectSymptoms(*Outcomes);
  std::vector<LogEvidence> Quoted = quotedEntries(*C, KB->entries());
  std::optional<GoodRuns> Good;
  if (!GoodPaths.empty()) {
    Good.emplace(std::vector<std::string>(GoodPaths), Given, DiagnoseJobs);
    Good->weigh(*Detectors, Settings, *KB, *C, *Outcomes, Symptoms, Quoted, *W);
  }
  OwnDiagnosis Own;
  Own.Result = Good ? Good->diagnose(Symptoms, Quoted, *KB, *W, Shape)
                    : diagnose(Symptoms, Quoted, KB->entries(),
                               KB->vocabulary(), *W, Shape);
  if (size_t Count = countOwn(KB->entries())) {
    Expected<OwnDiagnosis> More = recallOwnEntries(
        std::move(Own.Result), *C, *KB, Count, Symptoms, Quoted, *W, Shape);
    if (!More)
      return report(More.takeError());
    Own = std::move(*More);
  }
  Diagnosis &D = Own.Result;
  if (Good)
    Good->tell(D, Symptoms);

  // That a log without metrics names no error says little of a run.
  if (D.Result == Verdict::Healthy &&
      (!coversInputs(*C, *Outcomes) || linesAlone(*C)))
    D.Result = Verdict::Insufficient;

  RunReport R{versionString(), Given, *C, *Outcomes, Symptoms, D, Quoted};
  R.Good = Good ? &Good->report() : nullptr;
  std::optional<Changes> Since;
  if (Before)
    Since = changesSince(*Before, R);
  R.Since = Since ? &*Since : nullptr;
  R.SincePath = SincePath;
  R.Shape = Shape;
  print(R);
  if (TimeDetectors)
    errs() << timingTable(*Outcomes);
  int Exit = NothingRead ? ExitBadUse : ExitDone;
  if (!NothingRead && llvm::any_of(D.Hypotheses, [](const Hypothesis &H) {
        return H.Probability >= DiagnoseFailOn;
      }))
    Exit = ExitRefused;
  if (llvm::any_of(*Outcomes, [](const Outcome &O) { return O.Abandoned; }) ||
      (Good && Good->isAbandoned()))
    exitAtOnce(Exit);
  return Exit;
}

int diagnoseFiles(ArrayRef<std::string> Files) {
  for (const std::string &File : Files)
    DiagnosePaths.push_back(File);
  return runDiagnose();
}

} // namespace culprit
