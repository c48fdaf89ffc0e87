//===- DeclarationTest.cpp - What a detector says of itself -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "ScriptTest.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace culprit;

namespace {

/// A detector with the keys given, and valid others.
std::string with(std::string Keys) {
  auto Default = [&](llvm::StringRef Key, llvm::StringRef Value) {
    if (!llvm::StringRef(Keys).contains((Key + " =").str()))
      Keys += (", " + Key + " = " + Value).str();
  };
  Default("api", "1");
  Default("summary", "'s'");
  Default("needs", "{ gpu_work = { 'dur' } }");
  Default("symptoms", "{ 'gpu-idle' }");
  Default("run", "function(case) end");
  return "return {\n  " + Keys + "\n}\n";
}

struct DeclarationTest : ScriptTest {
  /// "line: message (hint)".
  std::string mistake(const std::string &Keys) { return load(with(Keys)); }
  std::string load(const std::string &Source) {
    LoadSettings Settings;
    Settings.Symptoms = {"gpu-idle", "loss-spike"};
    auto Loaded = loadDetector("t/d", "d.lua", Source, Settings);
    Outcome O;
    if (auto *Broken = std::get_if<BrokenDetector>(&Loaded))
      O.Error = Broken->Error;
    else
      Info = std::get<std::unique_ptr<Detector>>(Loaded)->info();
    return error(O);
  }
  DetectorInfo Info;
};

TEST_F(DeclarationTest, IsReadWhole) {
  EXPECT_EQ("no error",
            load("--- ## What it detects\n--- Gaps.\n---\n--- And more.\n"
                 "--- ## Why it matters\n--- Money.\n\n"
                 "---@type culprit.Detector\n" +
                 with("summary = 'Idle', needs = { scalars = { 'step', metric "
                      "= { 'loss', 'val_loss' } }, gpu_work = { 'dur' } }, "
                      "options = { b = { default = 20 * units.us, doc = 'B' },"
                      " a = { default = 0.5, doc = 'A' } }")));
  EXPECT_EQ("Idle", Info.Summary);
  ASSERT_EQ(2u, Info.Doc.size());
  EXPECT_EQ("What it detects", Info.Doc[0].Heading);
  EXPECT_EQ("Gaps.\n\nAnd more.", Info.Doc[0].Text);
  ASSERT_EQ(2u, Info.Needs.All.size());
  EXPECT_EQ(TableId::gpu_work, Info.Needs.All[0].Table);
  ASSERT_EQ(1u, Info.Needs.All[1].Rows.size());
  EXPECT_EQ(2u, Info.Needs.All[1].Rows[0].AnyOf.size());
  ASSERT_EQ(2u, Info.Options.size());
  EXPECT_EQ("a", Info.Options[0].Name);
  EXPECT_EQ(20000, std::get<int64_t>(Info.Options[1].Default));
}

TEST_F(DeclarationTest, LoadingRunsNothing) {
  EXPECT_EQ("no error", mistake("run = function() error('ran') end"));
}

TEST_F(DeclarationTest, MistakesAreNamed) {
  EXPECT_EQ("2: written for api 2, and this culprit speaks api 1 (update "
            "culprit, or take an older version of the detector)",
            mistake("api = 2, sumary = 's'"));
  EXPECT_EQ("2: unknown key 'sumary' (did you mean 'summary'? keys: api, "
            "needs, options, relies, run, summary, symptoms)",
            mistake("sumary = 's'"));
  EXPECT_TRUE(startsWith(mistake("symptoms = { 'gpu-idel' }"),
                         "2: unknown symptom 'gpu-idel' (did you mean "
                         "'gpu-idle'?"));
  EXPECT_TRUE(startsWith(mistake("needs = { gpu_wrk = { 'dur' } }"),
                         "2: unknown table 'gpu_wrk' in `needs` (did you "
                         "mean 'gpu_work'?"));
  EXPECT_TRUE(startsWith(mistake("needs = { gpu_work = { 'duration' } }"),
                         "2: unknown column 'duration' in 'gpu_work' (did "
                         "you mean 'dur'?"));
  EXPECT_TRUE(startsWith(mistake("needs = { scalars = { metrc = 'loss' } }"),
                         "2: unknown column 'metrc' in 'scalars'"));
  EXPECT_TRUE(startsWith(mistake("needs = {}"), "2: `needs` is empty"));
  EXPECT_TRUE(startsWith(mistake("options = { x = { default = 1 } }"),
                         "2: option 'x' has no doc"));
  EXPECT_TRUE(startsWith(mistake("options = { x = { defualt = 1 } }"),
                         "2: option 'x' has an unknown key 'defualt' (did "
                         "you mean 'default'?"));
  EXPECT_TRUE(startsWith(mistake("run = 3"), "2: `run` must be a function"));
  EXPECT_TRUE(
      startsWith(mistake("summary = 3"), "2: `summary` must be a text, not 3"));
  EXPECT_TRUE(startsWith(load("return 3"), "1: the file must return a table"));
  EXPECT_TRUE(startsWith(load(""), "0: the file must return a table, and "
                                   "returns nil"));
  EXPECT_TRUE(startsWith(load("return { api = 1 }"), "1: `needs` is missing"));
  EXPECT_TRUE(startsWith(load("return {\n  api == 1 }"), "2: "));
  EXPECT_TRUE(startsWith(load("local x = report {}\nreturn {}"),
                         "1: 'report' can be called in `run` alone"));
}

TEST_F(DeclarationTest, NeedsDecideWhatIsSkipped) {
  auto Missing = [&](const std::string &Needs) {
    Outcome O = runFile(with("needs = " + Needs));
    std::string Out(toString(O.Kind));
    for (const std::string &Name : O.Missing)
      Out += " [" + Name + "]";
    return Out;
  };
  // The column is there, and a few microseconds of work are no ground to be
  // called clear.
  EXPECT_EQ("skipped [at least 32 pieces of device work: record more steps]",
            Missing("{ gpu_work = { 'dur' } }"));
  EXPECT_EQ("skipped [errors]", Missing("{ errors = {} }"));
  EXPECT_EQ("skipped [gpu_work.graph]",
            Missing("{ gpu_work = { 'dur', 'graph' } }"));
  EXPECT_EQ("clear", Missing("{ scalars = { 'value', metric = 'loss' } }"));
  EXPECT_EQ("skipped [scalars.lr]",
            Missing("{ scalars = { 'value', metric = 'lr' } }"));
  EXPECT_EQ("skipped [scalars.wall_time]",
            Missing("{ scalars = { 'wall_time', metric = 'loss' } }"));
  EXPECT_EQ("clear", Missing("{ scalars = { metric = { 'lr', 'loss' } } }"));
  EXPECT_EQ("skipped [log_lines.error|critical]",
            Missing("{ log_lines = { level = { 'error', 'critical' } } }"));
  EXPECT_EQ("clear", Missing("{ tensors = { 'data' } }"));
  EXPECT_EQ("clear", Missing("{ any = { errors = {}, scalars = {} } }"));
  EXPECT_EQ("skipped [log_lines or errors]",
            Missing("{ any = { errors = {}, log_lines = {} } }"));
}

TEST_F(DeclarationTest, TheExamplesRun) {
  DetectorSet Set;
  llvm::Error E = loadDetectors(
      CULPRIT_SOURCE_DIR "/test/lit/script/Inputs/examples", {}, Set);
  ASSERT_FALSE(bool(E));
  EXPECT_TRUE(Set.broken().empty());
  llvm::Expected<std::vector<Outcome>> Run = runDetectors(Set, C, {});
  ASSERT_TRUE(bool(Run));
  std::string Text;
  for (const Outcome &O : *Run)
    Text += O.Detector + " " + toString(O.Kind).str() + " " +
            (O.Reports.empty() ? error(O) : O.Reports[0].Message) + "\n";
  EXPECT_EQ("inference/kv_cache_divergence skipped no error\n"
            "numerics/nan_first_layer clear no error\n"
            "perf/gpu_idle_gaps skipped no error\n"
            "training/loss_spike matched loss 50 is",
            Text.substr(0, Text.find(" 32")));
}

/// Whatever is shipped loads.
TEST_F(DeclarationTest, TheShippedDetectorsLoad) {
  LoadSettings Settings;
  auto Text = llvm::MemoryBuffer::getFile(CULPRIT_SOURCE_DIR "/kb/symptoms.md");
  ASSERT_TRUE(bool(Text));
  for (llvm::StringRef Line : llvm::split((*Text)->getBuffer(), '\n'))
    if (Line.consume_front("- `"))
      Settings.Symptoms.push_back(Line.split('`').first.str());
  DetectorSet Set;
  ASSERT_FALSE(
      bool(loadDetectors(CULPRIT_SOURCE_DIR "/plugins", Settings, Set)));
  for (const BrokenDetector &B : Set.broken())
    ADD_FAILURE() << B.Error.File << ":" << B.Error.Line << ": "
                  << B.Error.Message << "\n  " << B.Error.Hint;
  EXPECT_FALSE(Set.all().empty());
  for (const std::unique_ptr<Detector> &D : Set.all())
    EXPECT_FALSE(D->info().Doc.empty()) << D->info().File;
}

} // namespace
