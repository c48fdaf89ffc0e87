//===- ApiExamplesTest.cpp - What every example gives -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The examples of Api.def run over the case of ScriptTest.h, each in a detector
// of its own that has the names below, and give what ApiResults.def says: what
// docs/api.md shows behind `-->`. SHOW=1 prints what they give; write a result
// down only once it is clear from the case why.
//
//===----------------------------------------------------------------------===//

#include "Script/ApiEntries.h"
#include "ScriptTest.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"
#include <cstdlib>

using namespace culprit;

namespace {

struct ExampleTest : ScriptTest {
  ExampleTest() {
    Modules.add("samples", {"plugins/lib/samples.lua", "return {}"});
  }

  /// An expression alone is no statement, and what it gives is the result.
  static bool isStatement(llvm::StringRef Example) {
    for (llvm::StringRef Word :
         {"for ", "if ", "local ", "report ", "skip(", "log("})
      if (Example.starts_with(Word))
        return true;
    return false;
  }

  /// What the names of the examples stand for.
  static std::string names(const ApiEntry &E) {
    std::string Names =
        "local work, calls = case.gpu_work, case.host_calls\n"
        "local kernels = work:where { kind = 'kernel' }\n"
        "local copies = work:where { kind = 'copy' }\n"
        "local uploads, downloads = copies, kernels\n"
        "local gaps, idle, waits = work:gaps(), work:gaps(), calls\n"
        "local gap, window = gaps:first(), { dur = 1 }\n"
        "gap = { next = gap.after }\n"
        "local loss = case.scalars:where { metric = 'loss' }\n"
        "local spike, values = loss:row(20), work:col('dur')\n"
        "local norms, norms_step = loss:col('value'), loss:col('step')\n"
        "local hot = loss:with { z = 'value' }:where('z > 40')\n"
        "local deltas, losses, steps = values:diff(), values, work\n"
        "local launched = kernels:with { stop_right = 'stop' }\n"
        "local function t(n) return case.tensors:where { name = n }:first() "
        "end\n"
        "local row, bad, inputs, labels = t('x'), t('x'), t('x'), t('y')\n"
        "local full = case.tensors:where { variant = 'full' }\n"
        "local cached = case.tensors:where { variant = 'cached' }\n"
        "local now, before = cached:first(), full:first()\n"
        "local ids, logits, hidden = t('labels'), t('logits'), t('logits')\n"
        "local head, probs, bounds = t('head'), t('attention'), t('bounds')\n"
        "local name, line = 'module.a.weight', ' RuntimeError: CUDA error'\n";
    if (E.Name == "with")
      Names += "values = launched:col('dur')\n";
    if (E.Name == "compare" || E.Name == "rollout")
      Names += "cached = cached:with { token = 0 }\n"
               "full = full:with { token = 0 }\n";
    if (E.Name == "lens_share" || E.Name == "cross_entropy")
      Names += "labels = ids\n";
    if (E.Name == "unravel")
      Names += "bad = { first_nonfinite = 4, unravel = function(_, i) "
               "return row:unravel(i) end }\n";
    if (E.Name == "difference_along")
      Names += "row = before\n";
    return Names;
  }
};

TEST_F(ExampleTest, EveryExampleGivesWhatIsWritten) {
  for (const ApiEntry &E : apiEntries()) {
    if (E.Example.empty())
      continue;
    bool Statement = isStatement(E.Example);
    Outcome Out =
        run(names(E) + (Statement ? E.Example.str()
                                  : ("log(" + E.Example + ")").str()));
    std::string What = (E.Receiver + " " + E.Name + ": " + E.Example).str();
    EXPECT_EQ("no error", error(Out)) << What;
    std::string Given = llvm::join(Out.Log, "; ");
    if (std::getenv("SHOW"))
      llvm::outs() << "RESULT(" << E.Receiver << ", \"" << E.Name << "\", \""
                   << Given << "\")   " << E.Example << '\n';
    if (Statement && Out.Log.empty())
      continue; // report, skip: tests of their own
    EXPECT_EQ(resultOf(E), Given) << What;
    EXPECT_NE("nil", Given) << What << ": shows nothing";
  }
}

} // namespace
