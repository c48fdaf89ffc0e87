//===- SettingChangesTest.cpp - Configurations by meaning -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Case/BatchSize.h"
#include "Case/SettingChanges.h"
#include "Case/SettingValue.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/MemoryBuffer.h"
#include "gtest/gtest.h"

using namespace culprit;
using namespace llvm;

namespace {

TEST(SettingValueTest, OneMeaning) {
  for (auto [A, B] : std::initializer_list<std::pair<StringRef, StringRef>>{
           {"1e-4", "0.0001"},
           {"True", "true"},
           {"true", "1"},
           {"no", "False"},
           {"bf16", "torch.bfloat16"},
           {"half", "float16"},
           {"null", "None"},
           {"", "~"},
           {"\"gpt-5\"", "gpt-5"},
           {"1_000", "1000"},
           {"[0.9, 0.95]", "(0.90,.95)"},
           {"AdamW", "adamw"},
           {"bf16-mixed", "bf16"},
           {"16-mixed", "fp16"},
           {"SchedulerType.COSINE", "cosine"},
           {"<SaveStrategy.STEPS: 'steps'>", "steps"},
           {"LoadFormat.AUTO", "auto"},
           {"/data/x/", "/data/x"}}) {
    EXPECT_TRUE(sameSettingValue(A, B)) << A.str() << " " << B.str();
    EXPECT_TRUE(sameSettingValue(B, A)) << B.str() << " " << A.str();
  }
}

TEST(SettingValueTest, TwoMeanings) {
  for (auto [A, B] : std::initializer_list<std::pair<StringRef, StringRef>>{
           {"1e-4", "1e-3"},
           {"true", "false"},
           {"true", "2"},
           {"bf16", "fp16"},
           {"0", "null"},
           {"gpt-5", "gpt-5-mini"},
           {"[1, 2]", "[2, 1]"},
           {"[1, 2]", "[1]"},
           {"[[1, 2], 3]", "[1, 2, 3]"},
           {"1.10", "1.1.0"},
           {"Qwen2.5", "Qwen3.5"},
           {"123456789012345678", "123456789012345679"},
           {"SchedulerType.COSINE", "SchedulerType.LINEAR"},
           {"nan", "0"}}) {
    EXPECT_FALSE(sameSettingValue(A, B)) << A.str() << " " << B.str();
    EXPECT_FALSE(sameSettingValue(B, A)) << B.str() << " " << A.str();
  }
  // Case matters in a template, which is long.
  const std::string Long(65, 'a');
  EXPECT_FALSE(sameSettingValue(Long, StringRef(Long).upper()));
  // Nested as deep as a stack is not.
  const auto Nested = [](size_t Depth, const std::string &Inner) {
    return std::string(Depth, '[') + Inner + std::string(Depth, ']');
  };
  EXPECT_FALSE(sameSettingValue(Nested(300000, "1"), Nested(300000, "2")));
  EXPECT_TRUE(sameSettingValue(Nested(10, "1"), Nested(10, "1.0")));
  EXPECT_FALSE(sameSettingValue(Nested(10, "1"), Nested(10, "2")));
}

TEST(SettingValueTest, Durations) {
  EXPECT_EQ(settingSeconds("30s"), 30);
  EXPECT_EQ(settingSeconds("500 ms"), 0.5);
  EXPECT_EQ(settingSeconds("'2m'"), 120);
  for (StringRef None : {"30", "s", "7B", "3 monkeys", ""})
    EXPECT_FALSE(settingSeconds(None)) << None.str();
}

TEST(SettingValueTest, Sets) {
  EXPECT_TRUE(sameSettingValue("[q, 'v']", "[v, q, q]", true));
  EXPECT_TRUE(sameSettingValue("</s>", "['</s>']", true));
  EXPECT_FALSE(sameSettingValue("[q, v]", "[q]", true));
}

Settings settings(std::map<std::string, std::string> Values) {
  Settings Out;
  for (auto &[Key, Value] : Values)
    Out[Key] = {{Value}, -1};
  return Out;
}

/// The changes as "key before>after effect", in order.
std::string changes(std::map<std::string, std::string> A,
                    std::map<std::string, std::string> B) {
  std::string Out;
  for (const SettingChange &C : compareSettings(settings(A), settings(B)))
    Out += (Out.empty() ? "" : "; ") + C.Key + " " + C.Before + ">" + C.After +
           " " + toString(C.effect()).str();
  return Out;
}

size_t things(std::map<std::string, std::string> A,
              std::map<std::string, std::string> B) {
  return countThings(compareSettings(settings(A), settings(B)));
}

TEST(ConfigKeysTest, LongestNameWins) {
  EXPECT_EQ(aboutKey("train.max_tokens").Kind, "tokens");
  EXPECT_EQ(aboutKey("max_tokens").Kind, "decoding");
  EXPECT_EQ(aboutKey("sampling.maxTokens").Kind, "decoding");
  EXPECT_EQ(aboutKey("--learning-rate").Kind, "lr");
  EXPECT_EQ(aboutKey("optimizer.lr.value").Kind, "lr"); // W&B
  EXPECT_EQ(aboutKey("dataset.name").Kind, "data");
  EXPECT_EQ(aboutKey("run.name").Effect, KeyEffect::None);
  EXPECT_EQ(aboutKey("NCCL_DEBUG").Effect, KeyEffect::None);
  EXPECT_EQ(aboutKey("num_workers").Effect, KeyEffect::Cost);
  EXPECT_EQ(aboutKey("gguf.llama.block_count").Kind, "model");
  const KeyFacts Unknown = aboutKey("zorp");
  EXPECT_EQ(Unknown.Row, nullptr);
  EXPECT_EQ(Unknown.Kind, "other");
  EXPECT_EQ(Unknown.Effect, KeyEffect::Results);
}

TEST(SettingChangesTest, NotationAndAliases) {
  EXPECT_EQ(changes({{"lr", "1e-4"}}, {{"optimizer.learning_rate", "0.0001"}}),
            "");
  EXPECT_EQ(changes({{"lr", "1e-4"}}, {{"learning_rate", "3e-4"}}),
            "lr 1e-4>3e-4 results");
  EXPECT_EQ(changes({{"timeout", "5"}}, {{"request_timeout_ms", "5000"}}), "");
  EXPECT_EQ(changes({{"timeout", "5"}}, {{"request_timeout_ms", "500"}}),
            "timeout 5>500 results");
  // Two of them on a side: nobody knows which is which.
  EXPECT_EQ(things({{"g.lr", "1"}, {"d.lr", "2"}}, {{"lr", "1"}}), 3u);
  // One that moved to another section, of a name that nobody knows.
  EXPECT_EQ(changes({{"train.zorp", "3"}}, {{"zorp", "3"}}), "");
  // width and depth share what is known of them and are not one setting.
  EXPECT_EQ(things({{"n_inner", "8"}}, {{"ffn_dim", "16"}}), 2u);
}

TEST(SettingChangesTest, Defaults) {
  EXPECT_EQ(changes({{"fp16", "false"}}, {}), "");
  EXPECT_EQ(changes({{"fp16", "true"}}, {}), "fp16 true> results");
  EXPECT_EQ(changes({{"zorp", "null"}}, {}), "");
  // Transformers' clipping at 1 counts where Transformers reads the file.
  EXPECT_EQ(changes({{"num_train_epochs", "3"}, {"max_grad_norm", "1.0"}},
                    {{"num_train_epochs", "3"}}),
            "");
  EXPECT_EQ(changes({{"max_grad_norm", "1.0"}}, {}),
            "max_grad_norm 1.0> results");
}

TEST(SettingChangesTest, BatchIsAProduct) {
  const std::string Micro = "per_device_train_batch_size",
                    Steps = "gradient_accumulation_steps",
                    Ranks = "world_size";
  // 8 x 4 x 2 = 4 x 8 x 2 = 8 x 2 x 4 = 64.
  EXPECT_EQ(things({{Micro, "8"}, {Steps, "4"}, {Ranks, "2"}},
                   {{Micro, "4"}, {Steps, "8"}, {Ranks, "2"}}),
            0u);
  EXPECT_EQ(things({{Micro, "8"}, {Steps, "4"}, {Ranks, "2"}},
                   {{Micro, "8"}, {Steps, "2"}, {Ranks, "4"}}),
            0u);
  EXPECT_EQ(unchangedBatch(settings({{Micro, "8"}, {Steps, "4"}, {Ranks, "2"}}),
                           settings({{Micro, "64"}, {Ranks, "1"}})),
            "the batch stays at 64 rows");
  // 32 and 64 rows: one thing, though two settings changed.
  EXPECT_EQ(things({{Micro, "8"}, {Steps, "4"}}, {{Micro, "4"}, {Steps, "16"}}),
            1u);
  // A side that does not tell its ranks, and one that says "auto".
  EXPECT_EQ(things({{Micro, "8"}, {Ranks, "2"}}, {{Micro, "16"}}), 1u);
  EXPECT_EQ(things({{Micro, "8"}, {Steps, "auto"}},
                   {{Micro, "4"}, {Steps, "8"}}),
            1u);
  // Megatron accumulates what the whole asks for.
  EXPECT_EQ(things({{"micro_batch_size", "2"}, {"global_batch_size", "64"}},
                   {{"micro_batch_size", "4"}, {"global_batch_size", "64"}}),
            0u);
}

TEST(SettingChangesTest, BookkeepingDoesNotCount) {
  EXPECT_EQ(changes({{"run_name", "a"}, {"num_workers", "2"}, {"seed", "1"}},
                    {{"run_name", "b"}, {"num_workers", "8"}, {"seed", "2"}}),
            "seed 1>2 results; num_workers 2>8 cost; run_name a>b none");
}

TEST(SettingChangesTest, Packages) {
  const Settings A = settings({{"torch", "2.5"}, {"flash_attn", "2.7"}}),
                 B = settings({{"torch", "2.6"},
                               {"flash-attn", "2.7"},
                               {"black", "25"},
                               {"numpy", "2"}});
  std::vector<SettingChange> Changes = comparePackages(A, B);
  ASSERT_EQ(Changes.size(), 3u);
  EXPECT_EQ(Changes[2].Key, "black");
  EXPECT_EQ(Changes[2].effect(), KeyEffect::None);
  EXPECT_EQ(countThings(Changes), 1u);
}

TEST(SettingChangesTest, ListsOfYamlAndJson) {
  auto Pool = std::make_shared<StringPool>();
  auto Keys = std::make_shared<Column>(ColumnType::String),
       Values = std::make_shared<Column>(ColumnType::String);
  for (auto [Key, Value] : {std::pair("betas.0", "0.9"), {"betas.1", "0.95"},
                            {"layers.0.dim", "8"}, {"skip.1", "x"}}) {
    Keys->addString(Pool->intern(Key));
    Values->addString(Pool->intern(Value));
  }
  Table T("config", Pool, {{"key", Keys}, {"value", Values}}, 4);
  const std::optional<Settings> S = settingsOf(T);
  ASSERT_TRUE(S);
  ASSERT_EQ(S->size(), 3u);
  EXPECT_EQ(S->at("betas").text(), "[0.9, 0.95]");
  EXPECT_EQ(S->at("betas").Row, 0);
  EXPECT_TRUE(S->count("layers.0.dim"));
  EXPECT_TRUE(S->count("skip.1")); // an element without the first
  EXPECT_FALSE(settingsOf(Table("x", Pool, {{"key", Keys}}, 4)));
}

TEST(ConfoundersTest, DifferEqualUnknown) {
  const Settings A = settings({{"seed", "1"}, {"lr", "1"}, {"dataset", "x"}}),
                 B = settings({{"seed", "1"}, {"lr", "2"}});
  const Confounders C =
      confoundersOf(A, B, {}, {}, compareSettings(A, B));
  EXPECT_EQ(C.text(), "differ: learning rate, data; equal: seed; not recorded: "
                      "token count, batch, tokenizer, evaluation set, "
                      "hardware, packages");
}

/// What the lists of symptoms and classes of the knowledge base name.
StringSet<> knownNames() {
  StringSet<> Out;
  for (StringRef Name : {"/kb/symptoms.md", "/kb/classes.tsv"}) {
    auto File = MemoryBuffer::getFile((CULPRIT_SOURCE_DIR + Name).str());
    if (!File)
      continue;
    SmallVector<StringRef, 0> Lines;
    (*File)->getBuffer().split(Lines, '\n');
    for (StringRef Line : Lines)
      if (Line.consume_front("- `"))
        Out.insert(Line.split('`').first);
      else
        Out.insert(Line.split('\t').second.split('\t').first);
  }
  return Out;
}

TEST(ConfigKeysTest, TheListIsSound) {
  const StringSet<> Known = knownNames();
  ASSERT_GT(Known.size(), 300u);
  StringSet<> Names;
  for (const ConfigKey &Row : configKeys()) {
    SmallVector<StringRef, 32> Parts;
    Row.Names.split(Parts, '|');
    for (StringRef Name : Parts) {
      EXPECT_TRUE(Names.insert(Name).second) << "twice: " << Name.str();
      EXPECT_EQ(plainKey(Name), Name.str());
    }
    Parts.clear();
    Row.Causes.split(Parts, ' ', -1, false);
    for (StringRef Cause : Parts)
      EXPECT_TRUE(Known.contains(Cause))
          << Cause.str() << " of " << Row.name().str();
    EXPECT_NE(groupOfKind(Row.Kind), "other") << Row.name().str();
    // What counts where one of several settings is absent has no one answer.
    if (!Row.OneSetting) {
      EXPECT_TRUE(Row.Default.empty()) << Row.name().str();
    }
  }
}

} // namespace
