//===- Compare.cpp - culprit compare ----------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Compare/Compare.h"
#include "Commands.h"
#include "Options.h"
#include "Progress.h"
#include "Readers/Reader.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Threading.h"

using namespace llvm;

namespace culprit {

static cl::SubCommand CompareCommand("compare",
                                     "Say what makes one profile slower or "
                                     "faster than another");
static cl::list<std::string> Paths(cl::Positional, cl::sub(CompareCommand),
                                   cl::desc("A B"));
static cl::opt<OutputFormat, false, ChoiceParser<OutputFormat>>
    Format("format", cl::sub(CompareCommand), cl::init(OutputFormat::Text),
           cl::value_desc("text|json|markdown"),
           cl::desc("Form of the comparison"),
           cl::values(
               clEnumValN(OutputFormat::Text, "text", "For a terminal"),
               clEnumValN(OutputFormat::Json, "json", "For programs"),
               clEnumValN(OutputFormat::Markdown, "markdown", "For an issue")));
static cl::opt<unsigned, false, CountParser>
    Top("top", cl::sub(CompareCommand), cl::init(10), cl::value_desc("N"),
        cl::desc("Contributions shown (10)"));
static cl::opt<unsigned, false, CountParser>
    Jobs("jobs", cl::sub(CompareCommand), cl::init(0), cl::value_desc("N"),
         cl::desc("Threads (one a core)"));
namespace {
enum class FailureKind { Never, Different };
} // namespace
static cl::opt<FailureKind, false, ChoiceParser<FailureKind>>
    FailOn("fail-on", cl::sub(CompareCommand), cl::init(FailureKind::Never),
           cl::value_desc("different"),
           cl::desc("Exit 1 if the verdict is different"),
           cl::values(clEnumValN(FailureKind::Different, "different",
                                 "Beyond the noise")));

/// Reads \p Path and tells what could not be read of it.
static Expected<Case> readSide(const std::string &Path) {
  unsigned Threads =
      Jobs ? Jobs : hardware_concurrency().compute_thread_count();
  Progress Waiting("reading");
  return readCase({Path}, Threads);
}

int runCompare() {
  std::vector<std::string> Given(Paths.begin(), Paths.end());
  if (Given.size() != 2)
    return report(failure("compare: two profiles are wanted, not " +
                              Twine(Given.size()),
                          "give two files or folders, the one to compare with "
                          "first: culprit compare before.json.gz "
                          "after.json.gz"));
  if (Error E = checkPaths("compare", Given))
    return report(std::move(E));
  Expected<Case> A = readSide(Given[0]);
  if (!A)
    return report(A.takeError());
  Expected<Case> B = readSide(Given[1]);
  if (!B)
    return report(B.takeError());
  for (const Case *C : {&*A, &*B})
    for (const InputSummary &I : C->inputs())
      report(I.Remarks);
  Expected<ProfileComparison> Compared =
      compareCases(*A, Given[0], *B, Given[1]);
  if (!Compared)
    return report(Compared.takeError());
  switch (Format) {
  case OutputFormat::Json:
    outs() << formatv("{0:2}", comparisonJson(*Compared)) << '\n';
    break;
  case OutputFormat::Markdown:
    printComparisonMarkdown(outs(), *Compared, Top);
    break;
  default:
    printComparison(outs(), *Compared, Top);
    break;
  }
  return FailOn == FailureKind::Different &&
                 Compared->Verdict == CompareVerdict::Different
             ? ExitRefused
             : ExitDone;
}

} // namespace culprit
