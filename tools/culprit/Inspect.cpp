//===- Inspect.cpp - culprit inspect ----------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "Evidence.h"
#include "Options.h"
#include "Readers/VocabularyFile.h"
#include "Report/Examples.h"
#include "Report/Replay.h"
#include "Report/Report.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/WithColor.h"

using namespace llvm;

namespace culprit {

static cl::SubCommand InspectCommand("inspect", "List the evidence there is, "
                                                "table by table");
static cl::list<std::string>
    InspectPaths(cl::Positional, cl::sub(InspectCommand), cl::desc("PATH..."));
static cl::opt<OutputFormat, false, ChoiceParser<OutputFormat>> InspectFormat(
    "format", cl::sub(InspectCommand), cl::init(OutputFormat::Text),
    cl::value_desc("text|json"), cl::desc("Form of the list"),
    cl::values(clEnumValN(OutputFormat::Text, "text", "For people"),
               clEnumValN(OutputFormat::Json, "json", "For programs")));
static cl::opt<unsigned, false, CountParser>
    InspectJobs("jobs", cl::sub(InspectCommand), cl::init(0),
                cl::value_desc("N"), cl::desc("Threads (one a core)"));

static cl::opt<bool> Decode("decode", cl::sub(InspectCommand),
                            cl::desc("Print rows of the dumped batches as "
                                     "text, with what the loss counts"));
static cl::opt<unsigned, false, CountParser>
    InspectExamples("examples", cl::sub(InspectCommand), cl::init(3),
                    cl::value_desc("N"),
                    cl::desc("Rows that --decode prints (3)"));

static cl::opt<std::string>
    Replay("replay", cl::sub(InspectCommand), cl::ValueOptional,
           cl::value_desc("ID"),
           cl::desc("Print a recorded request as a curl command, decoded "
                    "greedily: the one of this id, else the first that "
                    "failed, was answered wrongly, or was slowest"));

/// The file of \p C that holds a vocabulary: a tokenizer.json before a GGUF
/// file, since both may belong to one model. Empty without one.
static StringRef vocabularyOf(const Case &C) {
  for (StringRef Format : {"tokenizer", "GGUF model"})
    for (const InputSummary &I : C.inputs())
      if (I.Format == Format && !I.Failed)
        return I.Path;
  return "";
}

static Error decode(const Case &C) {
  StringRef Path = vocabularyOf(C);
  if (Path.empty())
    return failure("inspect: no tokenizer to decode with",
                   "give the tokenizer.json of the model beside the dumps: "
                   "culprit inspect --decode RUN MODEL/tokenizer.json");
  Expected<TokenVocabulary> Words = readTokenVocabulary(Path);
  if (!Words)
    return Words.takeError();
  ExampleStyle Style;
  Style.Most = InspectExamples;
  Style.Color = WithColor(outs()).colorsEnabled();
  if (printExamples(outs(), C, *Words, Style) == 0)
    return failure("inspect: no dumped batch to decode",
                   "dump input_ids and labels of a few batches, as "
                   "culprit_recorder.watch does");
  return Error::success();
}

int runInspect() {
  if (InspectPaths.empty())
    return report(failure("inspect: nothing to read",
                          "give files or folders that a run left behind"));
  if (Error E = checkPaths("inspect", InspectPaths))
    return report(std::move(E));
  Expected<Case> C = readEvidence(
      std::vector<std::string>(InspectPaths.begin(), InspectPaths.end()),
      InspectJobs);
  if (!C)
    return report(C.takeError());
  bool AnyRead = reportUnread(*C);
  if (Decode) {
    if (Error E = decode(*C))
      return report(std::move(E));
    return ExitDone;
  }
  if (Replay.getNumOccurrences() > 0) {
    Expected<std::string> Command = replayCommand(*C, Replay);
    if (!Command)
      return report(addContext("inspect", Command.takeError()));
    outs() << *Command;
    return ExitDone;
  }
  if (InspectFormat == OutputFormat::Json) {
    outs() << formatv("{0:2}", inspectionJson(*C)) << '\n';
  } else {
    TextStyle Style;
    Style.Width = outputWidth();
    printInspection(outs(), *C, Style);
  }
  return AnyRead ? ExitDone : ExitBadUse;
}

} // namespace culprit
