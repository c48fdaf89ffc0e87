//===- Inspect.cpp - culprit inspect ----------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "Options.h"
#include "Progress.h"
#include "Readers/Reader.h"
#include "Report/Report.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Threading.h"

using namespace llvm;

namespace culprit {

static cl::SubCommand InspectCommand("inspect", "List the evidence there is, "
                                                "table by table");
static cl::list<std::string> Paths(cl::Positional, cl::sub(InspectCommand),
                                   cl::desc("PATH..."));
static cl::opt<OutputFormat, false, ChoiceParser<OutputFormat>>
    Format("format", cl::sub(InspectCommand), cl::init(OutputFormat::Text),
           cl::value_desc("text|json"), cl::desc("Form of the list"),
           cl::values(clEnumValN(OutputFormat::Text, "text", "For people"),
                      clEnumValN(OutputFormat::Json, "json", "For programs")));
static cl::opt<unsigned, false, CountParser>
    Jobs("jobs", cl::sub(InspectCommand), cl::init(0), cl::value_desc("N"),
         cl::desc("Threads (one a core)"));

int runInspect() {
  if (Paths.empty())
    return report(failure("inspect: nothing to read",
                          "give files or folders that a run left behind"));
  if (Error E = checkPaths("inspect", Paths))
    return report(std::move(E));
  unsigned Threads =
      Jobs ? Jobs : hardware_concurrency().compute_thread_count();
  std::optional<Progress> Waiting(std::in_place, "reading");
  Expected<Case> C =
      readCase(std::vector<std::string>(Paths.begin(), Paths.end()), Threads);
  Waiting.reset();
  if (!C)
    return report(C.takeError());
  bool AllFailed = true;
  for (const InputSummary &I : C->inputs()) {
    report(I.Remarks);
    AllFailed &= I.Failed;
  }
  if (Format == OutputFormat::Json) {
    outs() << formatv("{0:2}", inspectionJson(*C)) << '\n';
  } else {
    TextStyle Style;
    Style.Width = outputWidth();
    printInspection(outs(), *C, Style);
  }
  return AllFailed ? ExitBadUse : ExitDone;
}

} // namespace culprit
