//===- ApiDocsTest.cpp - Generated files are up to date ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// UPDATE=1 rewrites them. Look at the difference of api-v1.txt: a line that
// vanished or changed breaks detectors that people have.
//
//===----------------------------------------------------------------------===//

#include "Script/ApiDocs.h"
#include "ScriptTest.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"
#include <cstdlib>

using namespace culprit;

namespace {

void expectFile(llvm::StringRef Path, const std::string &Wanted) {
  std::string File = (CULPRIT_SOURCE_DIR "/" + Path).str();
  if (std::getenv("UPDATE")) {
    std::error_code EC;
    llvm::raw_fd_ostream OS(File, EC);
    OS << Wanted;
    return;
  }
  auto Text = llvm::MemoryBuffer::getFile(File);
  ASSERT_TRUE(bool(Text)) << File << ": run this test with UPDATE=1";
  EXPECT_TRUE((*Text)->getBuffer() == Wanted)
      << File << " is out of date: run this test with UPDATE=1";
}

TEST(ApiDocsTest, StubIsUpToDate) {
  expectFile("plugins/meta/culprit.lua", apiStub());
}

TEST(ApiDocsTest, ManualIsUpToDate) { expectFile("docs/api.md", apiManual()); }

TEST(ApiDocsTest, NothingWasTakenFromVersion1) {
  expectFile("test/lit/script/Inputs/api-v1.txt", apiList());
}

/// The examples of Api.def run, each in a detector that has what they name.
struct ExampleTest : ScriptTest {};

TEST_F(ExampleTest, EveryExampleRuns) {
  const char *Examples[] = {
#define API(RECEIVER, NAME, FUNCTION, PARAMS, RESULT, DOC, EXAMPLE) EXAMPLE,
#include "Script/Api.def"
  };
  std::string Names =
      "local work, calls = case.gpu_work, case.host_calls\n"
      "local kernels = work:where { kind = 'kernel' }\n"
      "local copies, uploads, downloads = work, work, work\n"
      "local gaps, idle, waits = work:gaps(), work:gaps(), calls\n"
      "local gap, window = { next = 0 }, { dur = 1 }\n"
      "local loss = case.scalars:where { metric = 'loss' }\n"
      "local spike, values = loss:row(20), loss:col('value')\n"
      "local norms, norms_step = values, loss:col('step')\n"
      "local hot = loss:with { z = values }\n"
      "local deltas, losses, steps = values:diff(), values, work\n"
      "local launched = kernels:with { stop_right = 'stop' }\n"
      "values = values:rolling(4, 'mean')\n"
      "local x = case.tensors:where { name = 'x' }:first()\n"
      "local row, labels, inputs, now, before = x, x, x, x, x\n"
      "local ids, logits, probs, bounds = x, x, x, x\n"
      "local hidden, head = x, x\n"
      "local cached = case.tensors:where { variant = 'cached' }\n"
      "local full = case.tensors:where { variant = 'full' }\n"
      "local bad = { first_nonfinite = 1, unravel = function() end }\n"
      "local name, line, path, z, i, c = 'a:b', 'a:b', 'p', nil, 0, nil\n";
  for (llvm::StringRef Example : Examples) {
    // An expression alone is no statement.
    bool Statement =
        Example.starts_with("for ") || Example.starts_with("if ") ||
        Example.starts_with("local ") || Example.starts_with("report") ||
        Example.starts_with("skip") || Example.starts_with("log");
    std::string Body = Names;
    if (Example.contains("launched:with"))
      Body += "values = launched:col('dur')\n";
    if (Example.contains("compare(full"))
      Body += "cached = cached:with { token = 0, order = 0 }\n"
              "full = full:with { token = 0, order = 0 }\n";
    Body += Statement ? Example.str() : ("local result = " + Example).str();
    EXPECT_EQ("no error", failureOf(Body)) << Example.str();
  }
}

} // namespace
