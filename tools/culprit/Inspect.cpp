//===- Inspect.cpp - culprit inspect ----------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "Evidence.h"
#include "Options.h"
#include "Report/Report.h"
#include "llvm/Support/FormatVariadic.h"

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
  Expected<Case> C = readEvidence(
      std::vector<std::string>(Paths.begin(), Paths.end()), Jobs);
  if (!C)
    return report(C.takeError());
  bool AnyRead = reportUnread(*C);
  if (Format == OutputFormat::Json) {
    outs() << formatv("{0:2}", inspectionJson(*C)) << '\n';
  } else {
    TextStyle Style;
    Style.Width = outputWidth();
    printInspection(outs(), *C, Style);
  }
  return AnyRead ? ExitDone : ExitBadUse;
}

} // namespace culprit
