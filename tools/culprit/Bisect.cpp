//===- Bisect.cpp - culprit bisect ------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Bisect.h"
#include "Bisect/Dumps.h"
#include "Commands.h"
#include "Evidence.h"
#include "Options.h"
#include "Progress.h"
#include "Support/Text.h"
#include "Support/Units.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Regex.h"
#include <cmath>
#include <functional>

using namespace llvm;

namespace culprit {

static cl::SubCommand
    BisectCommand("bisect", "Find the first bad step of dumps, or the first "
                            "bad commit");
static cl::list<std::string>
    BisectWords(cl::Positional, cl::sub(BisectCommand),
                cl::desc("REF OURS | RUN | run -- CMD... | oracle -- CMD..."));
static cl::opt<OutputFormat, false, ChoiceParser<OutputFormat>> BisectFormat(
    "format", cl::sub(BisectCommand), cl::init(OutputFormat::Text),
    cl::value_desc("text|json"), cl::desc("Form of the answer on steps"),
    cl::values(clEnumValN(OutputFormat::Text, "text", "For a terminal"),
               clEnumValN(OutputFormat::Json, "json", "For programs")));
static cl::opt<std::string>
    Where("where", cl::sub(BisectCommand), cl::value_desc("EXPR"),
          cl::desc("One run: a step is bad where some tensor fulfils EXPR "
                   "('nonfinite > 0')"));
static cl::opt<std::string> BisectDetector(
    "detector", cl::sub(BisectCommand), cl::value_desc("ID"),
    cl::desc("One run: a step is bad where this detector matches"));
static cl::opt<bool>
    Every("every", cl::sub(BisectCommand),
          cl::desc("Ask every step: where a bad one may be followed by a good "
                   "one"));
static cl::opt<unsigned, false, CountParser>
    BisectTop("top", cl::sub(BisectCommand), cl::init(5), cl::value_desc("N"),
              cl::desc("Tensors shown (5)"));
static cl::opt<unsigned, false, CountParser>
    BisectJobs("jobs", cl::sub(BisectCommand), cl::init(0), cl::value_desc("N"),
               cl::desc("Threads (one a core)"));

static cl::list<std::string> Good("good", cl::sub(BisectCommand),
                                  cl::value_desc("REV"),
                                  cl::desc("run: a good commit (repeatable)"));
static cl::opt<std::string> Bad("bad", cl::sub(BisectCommand),
                                cl::value_desc("REV"),
                                cl::desc("run: a bad commit (HEAD)"));
static cl::opt<std::string>
    Expect("expect", cl::sub(BisectCommand), cl::value_desc("REGEX"),
           cl::desc("Good where the command's output has this"));
static cl::opt<std::string>
    Metric("metric", cl::sub(BisectCommand), cl::value_desc("NAME"),
           cl::desc("Judge by where a metric ends; wants --below or --above"));
static cl::opt<std::string> Below("below", cl::sub(BisectCommand),
                                  cl::value_desc("X"),
                                  cl::desc("Good where the metric ends below"));
static cl::opt<std::string> Above("above", cl::sub(BisectCommand),
                                  cl::value_desc("X"),
                                  cl::desc("Good where the metric ends above"));
static cl::opt<std::string>
    BisectSymptom("symptom", cl::sub(BisectCommand), cl::value_desc("ID"),
                  cl::desc("Bad where 'diagnose' reports this symptom"));
static cl::opt<std::string>
    BisectClass("class", cl::sub(BisectCommand), cl::value_desc("NAME"),
                cl::desc("Bad where 'diagnose' names this class of cause"));
static cl::opt<double, false, ProbabilityParser>
    Probability("probability", cl::sub(BisectCommand), cl::init(0.5),
                cl::value_desc("P"),
                cl::desc("--class: with this probability or more (0.5)"));
static cl::opt<std::string>
    BisectFolder("in", cl::sub(BisectCommand), cl::value_desc("DIR"),
                 cl::desc("Folder that the command writes its run to "
                          "($CULPRIT_RUN_DIR, made for each commit)"));
static cl::opt<unsigned, false, CountParser>
    Repeat("repeat", cl::sub(BisectCommand), cl::init(1), cl::value_desc("K"),
           cl::desc("Run the command up to K times; the majority counts"));
static cl::opt<std::string>
    GoodFails("good-fails", cl::sub(BisectCommand), cl::value_desc("P"),
              cl::desc("How often a good commit fails (0)"));
static cl::opt<double, false, ProbabilityParser>
    BadFails("bad-fails", cl::sub(BisectCommand), cl::init(0),
             cl::value_desc("Q"),
             cl::desc("How often a bad commit fails: repeat until it is "
                      "settled, by a sequential test"));
static cl::opt<double, false, ProbabilityParser>
    ErrorRate("error", cl::sub(BisectCommand), cl::init(0.05),
              cl::value_desc("E"),
              cl::desc("Error rate of the sequential test (0.05)"));
static cl::opt<double, false, SecondsParser>
    BisectTimeout("timeout", cl::sub(BisectCommand), cl::init(0),
                  cl::value_desc("SECONDS"),
                  cl::desc("A run that takes longer is skipped (never)"));

/// Runs of the sequential test at most, where --repeat says nothing.
static constexpr unsigned MostRuns = 100;

static Error numberOption(StringRef Name, const std::string &Text,
                          std::optional<double> &Into) {
  double Value = 0;
  if (Text.empty())
    return Error::success();
  if (StringRef(Text).getAsDouble(Value))
    return failure("--" + Name + ": '" + Text + "' is no number",
                   "for example --" + Name + "=2.3");
  Into = Value;
  return Error::success();
}

/// The oracle's settings.
static Error takeSettings(OracleSettings &Out) {
  Out.Command.assign(BisectWords.begin() + 1, BisectWords.end());
  if (Out.Command.empty() || Out.Command[0].empty())
    return failure("bisect: no command is given",
                   "write it after '--': culprit bisect run --good v1 --bad "
                   "HEAD -- python train.py");
  if (Error E = numberOption("below", Below, Out.Below))
    return E;
  if (Error E = numberOption("above", Above, Out.Above))
    return E;
  if (Error E = numberOption("good-fails", GoodFails, Out.Plan.GoodFails))
    return E;
  Out.Expect = Expect;
  Out.Metric = Metric;
  Out.Symptom = BisectSymptom;
  Out.Class = BisectClass;
  Out.Probability = Probability;
  Out.Folder = BisectFolder;
  Out.TimeoutSeconds = unsigned(std::ceil(std::min(+BisectTimeout, 1e9)));
  Out.Plan.Most = Repeat;
  Out.Plan.ErrorRate = ErrorRate;
  const int Ways = !Expect.empty() + !Metric.empty() + !BisectSymptom.empty() +
                   !BisectClass.empty();
  if (Ways > 1)
    return failure("bisect: a commit is judged in one way, not in several",
                   "give one of --expect, --metric, --symptom and --class");
  if (Metric.empty() != (!Out.Below && !Out.Above))
    return failure("bisect: --metric goes with --below or --above",
                   "for example --metric val_loss --below 2.3");
  std::string Complaint;
  if (!Expect.empty() && !Regex(Expect).isValid(Complaint))
    return failure("--expect: '" + Expect + "' is no regular expression: " +
                   Complaint);
  if (BadFails.getNumOccurrences()) {
    const double P = Out.Plan.GoodFails.value_or(0);
    if (!(P >= 0 && P < BadFails))
      return failure("bisect: a bad commit must fail more often than a good "
                     "one: --good-fails is not below --bad-fails");
    if (ErrorRate >= 0.5)
      return failure("--error: an error rate is below 0.5");
    Out.Plan.BadFails = BadFails;
    if (!Repeat.getNumOccurrences())
      Out.Plan.Most = MostRuns;
  } else if (Out.Plan.GoodFails) {
    return failure("bisect: --good-fails goes with --bad-fails");
  }
  return Error::success();
}

/// The options that say the same to the oracle in another process.
static std::vector<std::string> forwardedOptions() {
  std::vector<std::string> Forwarded;
  const auto Add = [&](StringRef Name, const std::string &Value) {
    if (!Value.empty())
      Forwarded.push_back(("--" + Name + "=" + Value).str());
  };
  const auto Number = [](double V) { return formatv("{0:e12}", V).str(); };
  Add("expect", Expect);
  Add("metric", Metric);
  Add("below", Below);
  Add("above", Above);
  Add("symptom", BisectSymptom);
  Add("class", BisectClass);
  Add("in", BisectFolder);
  Add("good-fails", GoodFails);
  if (Probability.getNumOccurrences())
    Add("probability", Number(Probability));
  if (Repeat.getNumOccurrences())
    Add("repeat", std::to_string(Repeat));
  if (BadFails.getNumOccurrences())
    Add("bad-fails", Number(BadFails));
  if (ErrorRate.getNumOccurrences())
    Add("error", Number(ErrorRate));
  if (BisectTimeout.getNumOccurrences())
    Add("timeout", Number(BisectTimeout));
  return Forwarded;
}

static std::string searchText(const DumpBisection &B) {
  std::string Out = formatv("{0} of {1} steps asked, {2} of {3} files read",
                            formatCount(int64_t(B.Search.Tests)),
                            formatCount(int64_t(B.Steps.size())),
                            formatCount(int64_t(B.FilesRead)),
                            formatCount(int64_t(B.Files)));
  if (B.Search.GoodAfter)
    Out += formatv("\nnote: step {0} is good again, so bisecting may have "
                   "missed an earlier one; --every asks them all",
                   B.step(*B.Search.GoodAfter));
  return Out;
}

/// "step 4 is the first bad one of 0 to 9; step 3 is good".
static std::string stepText(const DumpBisection &B, StringRef What) {
  if (!B.Search.First && B.Steps.size() == 1)
    return formatv("no step {0}: there is step {1} alone", What,
                   B.Steps.front());
  if (!B.Search.First)
    return formatv("no step of {0} to {1} {2}{3}", B.Steps.front(),
                   B.Steps.back(), What,
                   B.Search.Tests < B.Steps.size()
                       ? ", of those that were asked"
                       : "");
  std::string Out = formatv("step {0} is the first that {1}",
                            B.step(*B.Search.First), What);
  if (std::optional<int64_t> Last = B.lastGood())
    Out += formatv("; step {0} does not", *Last);
  else
    Out += ", and the first there is";
  return Out;
}

static json::Object searchJson(const DumpBisection &B, StringRef Kind) {
  const auto StepOr = [&](std::optional<size_t> I) {
    return I ? json::Value(B.step(*I)) : json::Value(nullptr);
  };
  return json::Object{{"schema", 1},
                      {"kind", Kind},
                      {"first", StepOr(B.Search.First)},
                      {"last_good", B.lastGood() ? json::Value(*B.lastGood())
                                                 : json::Value(nullptr)},
                      {"good_again", StepOr(B.Search.GoodAfter)},
                      {"steps", int64_t(B.Steps.size())},
                      {"asked", int64_t(B.Search.Tests)},
                      {"files", int64_t(B.Files)},
                      {"files_read", int64_t(B.FilesRead)}};
}

static int bisectTwo(const std::string &Ref, const std::string &Ours) {
  DumpOptions Options;
  Options.Threads = threadCount(BisectJobs);
  Options.Every = Every;
  std::optional<Progress> Waiting(std::in_place, "comparing");
  Expected<PairBisection> B = bisectPair(Ref, Ours, Options);
  Waiting.reset();
  if (!B)
    return report(B.takeError());
  if (BisectFormat == OutputFormat::Json) {
    json::Object Out = searchJson(*B, "bisect-pair");
    Out["comparison"] = B->Found ? tensorsJson(*B->Found) : nullptr;
    outs() << formatv("{0:2}", json::Value(std::move(Out))) << '\n';
    return ExitDone;
  }
  outs() << stepText(*B, "differs") << '\n' << searchText(*B) << '\n';
  if (B->Found) {
    outs() << '\n';
    printTensors(outs(), *B->Found, BisectTop);
  }
  return ExitDone;
}

/// Whether \p Detector matches on \p Files.
static Expected<bool> detectorMatches(ArrayRef<std::string> Files) {
  Expected<json::Value> Report = diagnoseOutside(Files, BisectDetector);
  if (!Report)
    return Report.takeError();
  const json::Object *Root = Report->getAsObject();
  const json::Array *Outcomes = Root ? Root->getArray("outcomes") : nullptr;
  if (!Outcomes || Outcomes->empty())
    return failure("--detector: '" + BisectDetector + "' gave no outcome",
                   "'culprit list detectors' names them");
  for (const json::Value &O : *Outcomes) {
    const std::optional<StringRef> Kind =
        O.getAsObject() ? O.getAsObject()->getString("outcome") : std::nullopt;
    if (Kind == StringRef("matched"))
      return true;
    if (Kind == StringRef("skipped"))
      return failure("--detector: '" + BisectDetector +
                         "' cannot tell from the dump of one step",
                     "'culprit explain " + BisectDetector +
                         "' says what it needs; --where asks tensors");
  }
  return false;
}

static int bisectOne(const std::string &Path) {
  DumpOptions Options;
  Options.Threads = threadCount(BisectJobs);
  Options.Every = Every;
  std::string Condition = Where;
  if (Condition.empty())
    Condition = "nonfinite > 0";
  std::vector<std::string> Names; ///< Of the first bad step, in order.
  std::optional<int64_t> Of;
  std::optional<Progress> Waiting(std::in_place, "searching");
  std::map<int64_t, std::vector<std::string>> Found;
  Expected<DumpBisection> B = bisectRun(
      Path,
      [&](ArrayRef<std::string> Files, int64_t Step) -> Expected<bool> {
        if (!BisectDetector.empty())
          return detectorMatches(Files);
        std::optional<Case> Keep;
        Expected<Table> Rows =
            rowsWhere(Files, Step, Condition, Options.Threads, Keep);
        if (!Rows)
          return Rows.takeError();
        const ColumnView *Name = Rows->find("name");
        for (size_t I = 0; I != Rows->rows(); ++I)
          Found[Step].push_back(Rows->cell(I, *Name).text());
        return Rows->rows() > 0;
      },
      Options);
  Waiting.reset();
  if (!B)
    return report(B.takeError());
  if (B->Search.First)
    Names = Found[B->step(*B->Search.First)];
  const std::string What = BisectDetector.empty()
                               ? "has tensors with " + Condition
                               : "the detector " + BisectDetector + " matches";
  if (BisectFormat == OutputFormat::Json) {
    json::Object Out = searchJson(*B, "bisect-run");
    json::Array List;
    for (const std::string &N : Names)
      List.push_back(jsonText(N));
    Out["tensors"] = std::move(List);
    outs() << formatv("{0:2}", json::Value(std::move(Out))) << '\n';
    return ExitDone;
  }
  outs() << stepText(*B, BisectDetector.empty() ? StringRef(What)
                                                : StringRef("it matches"))
         << (BisectDetector.empty() ? "" : " (" + BisectDetector + ")") << '\n'
         << searchText(*B) << '\n';
  if (!Names.empty())
    outs() << "in execution order: "
           << join(ArrayRef(Names).take_front(
                       std::min<size_t>(Names.size(), BisectTop)),
                   ", ")
           << (Names.size() > BisectTop
                   ? formatv(" and {0} more", Names.size() - BisectTop).str()
                   : std::string())
           << '\n';
  return ExitDone;
}

int runBisect() {
  if (BisectWords.empty())
    return report(failure("bisect: nothing to search",
                          "give two folders of dumps, one with --where, or "
                          "'run --good REV --bad REV -- COMMAND'"));
  const bool Commits = BisectWords[0] == "run",
             Oracle = BisectWords[0] == "oracle";
  if (Commits || Oracle) {
    OracleSettings Settings;
    if (Error E = takeSettings(Settings)) {
      report(std::move(E));
      // For git a usage error is no bad commit.
      return Oracle ? int(OracleAbort) : int(ExitBadUse);
    }
    if (Oracle)
      return runOracle(Settings);
    if (Good.empty())
      return report(failure("bisect: no good commit is given",
                            "--good REV names one where all was well"));
    std::string Last = Bad;
    if (Last.empty())
      Last = "HEAD";
    return runCommits(Good, Last, Settings, forwardedOptions());
  }
  for (const std::reference_wrapper<cl::Option> &O :
       std::initializer_list<std::reference_wrapper<cl::Option>>{
           Good, Bad, Expect, Metric, BisectSymptom, BisectClass})
    if (O.get().getNumOccurrences())
      return report(failure("bisect: --" + O.get().ArgStr + " is for commits",
                            "write 'culprit bisect run' and the command after "
                            "'--'"));
  std::vector<std::string> Given(BisectWords.begin(), BisectWords.end());
  if (Error E = checkPaths("bisect", Given))
    return report(std::move(E));
  if (Given.size() > 2)
    return report(failure("bisect: one or two folders are wanted, not " +
                          Twine(Given.size())));
  if (Given.size() == 1)
    return bisectOne(Given[0]);
  if (!Where.empty() || !BisectDetector.empty())
    return report(failure("bisect: --where and --detector are for one run",
                          "two runs are compared with each other"));
  return bisectTwo(Given[0], Given[1]);
}

} // namespace culprit
