//===- ConfigTest.cpp - JSON, YAML and package lists ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/JsonConfig.h"
#include "Readers/PackageList.h"
#include "Readers/YamlConfig.h"
#include "TextFileTest.h"

using namespace culprit;
using namespace llvm;

class ConfigFiles : public TextFileTest {
protected:
  /// key=value@line of a setting.
  std::string setting(size_t Row) {
    return row(TableId::config, Row,
               {config::key, config::value, config::place});
  }
  JsonConfigReader Json;
  YamlConfigReader Yaml;
  PackageListReader Packages;
};

TEST_F(ConfigFiles, FlattensJson) {
  StringRef Text = "{\n  \"model\": {\"n_layer\": 2, \"tie\": true},\n"
                   "  \"betas\": [0.9, 0.95],\n"
                   "  \"groups\": [{\"lr\": 1e-4}, {\"lr\": null}]\n}";
  EXPECT_EQ(match(Json, Text), Match::Possible);
  read(Json, Text);
  ASSERT_EQ(rows(TableId::config), 5u);
  EXPECT_EQ(setting(0), "model.n_layer|2|2");
  EXPECT_EQ(setting(1), "model.tie|true|2");
  EXPECT_EQ(setting(2), "betas|[0.9, 0.95]|3");
  EXPECT_EQ(setting(3), "groups.0.lr|1e-4|4");
  EXPECT_EQ(setting(4), "groups.1.lr|null|4");
  EXPECT_EQ(row(TableId::config, 3, {config::number}), "0.0001");
}

TEST_F(ConfigFiles, TellsWhereJsonBreaks) {
  read(Json, "{\n  \"a\": 1,\n  \"b\": oops\n}");
  EXPECT_EQ(rows(TableId::config), 1u);
  ASSERT_EQ(Said.size(), 1u);
  EXPECT_EQ(Said[0], "F:3: neither a value nor a quoted string");
  EXPECT_FALSE(Failed);
  read(Json, "{\"a\"");
  EXPECT_TRUE(Failed);
  EXPECT_EQ(Said[0], "F:1: the text ends inside a value");
}

TEST_F(ConfigFiles, CapsHugeObjects) {
  std::string Text = "{";
  for (unsigned I = 0; I != 20'100; ++I)
    Text += (I ? ",\"t" : "\"t") + std::to_string(I) + "\": 1";
  read(Json, Text + "}");
  EXPECT_EQ(rows(TableId::config), 20'000u);
  ASSERT_EQ(Said.size(), 1u);
  EXPECT_EQ(Said[0], "F: 100 settings beyond the first 20,000 were left out");
}

TEST_F(ConfigFiles, LeavesOtherJsonAlone) {
  EXPECT_EQ(match(Json, "{\"a\": 1}\n{\"a\": 2}\n"), Match::No);
  EXPECT_EQ(match(Json, "[1, 2]"), Match::No);
  EXPECT_EQ(match(Json, "[2026-01-05 08:59:57] x"), Match::No);
  EXPECT_EQ(match(Json, "{oops"), Match::No);
}

TEST_F(ConfigFiles, ReadsYaml) {
  StringRef Text = "# a comment\n"
                   "model:\n"
                   "  type: \"gpt # not a comment\"\n"
                   "  dims: [1,\n         2]  # two lines\n"
                   "optimizer:\n"
                   "  groups:\n"
                   "  - name: a\n"
                   "    lr: 1e-4\n"
                   "  - name: b\n"
                   "    betas:\n"
                   "      - 0.9\n"
                   "      - 0.95\n"
                   "note: |\n"
                   "  key: inside a text\n"
                   "obj: !!python/object 3\n"
                   "url: http://host:80/x\n";
  EXPECT_EQ(match(Yaml, Text), Match::Possible);
  read(Yaml, Text);
  EXPECT_TRUE(Said.empty());
  ASSERT_EQ(rows(TableId::config), 10u);
  EXPECT_EQ(setting(0), "model.type|gpt # not a comment|3");
  EXPECT_EQ(setting(1), "model.dims|[1, 2]|4");
  EXPECT_EQ(setting(2), "optimizer.groups.0.name|a|8");
  EXPECT_EQ(setting(3), "optimizer.groups.0.lr|1e-4|9");
  EXPECT_EQ(setting(4), "optimizer.groups.1.name|b|10");
  EXPECT_EQ(setting(5), "optimizer.groups.1.betas.0|0.9|12");
  EXPECT_EQ(setting(6), "optimizer.groups.1.betas.1|0.95|13");
  EXPECT_EQ(setting(7), "note|key: inside a text|14");
  EXPECT_EQ(setting(8), "obj|3|16");
  EXPECT_EQ(setting(9), "url|http://host:80/x|17");
}

TEST_F(ConfigFiles, ReadsYamlInCapitals) {
  StringRef Text = "SOLVER:\n"
                   "  BASE_LR: 0.02\n"
                   "  STEPS: (400, 540)\n"
                   "MODEL:\n"
                   "  ROI_HEADS:\n"
                   "    NUM_CLASSES: 3\n"
                   "VERSION: 2\n";
  EXPECT_EQ(match(Yaml, Text), Match::Possible);
  read(Yaml, Text);
  EXPECT_TRUE(Said.empty());
  ASSERT_EQ(rows(TableId::config), 4u);
  EXPECT_EQ(setting(0), "solver.base_lr|0.02|2");
  EXPECT_EQ(setting(1), "solver.steps|(400, 540)|3");
  EXPECT_EQ(setting(2), "model.roi_heads.num_classes|3|6");
  EXPECT_EQ(setting(3), "version|2|7");
  EXPECT_EQ(match(Yaml, "BASE_LR: 0.02\nMAX_ITER: 600\n"), Match::Possible);
  EXPECT_EQ(match(Yaml, "solver:\n  BASE_LR: 0.02\n"), Match::Possible);
}

TEST_F(ConfigFiles, UnwrapsWandB) {
  read(Yaml, "wandb_version: 1\nlr:\n  desc: null\n  value: 0.5\n");
  EXPECT_EQ(setting(1), "lr|0.5|4");
  EXPECT_EQ(rows(TableId::config), 2u);
}

TEST_F(ConfigFiles, SkipsBrokenYamlLines) {
  read(Yaml, "a: 1\nthis is no setting\nb: 2\nneither is this\n");
  EXPECT_EQ(rows(TableId::config), 2u);
  ASSERT_EQ(Said.size(), 2u);
  EXPECT_EQ(Said[0], "F:2: neither 'key: value' nor a list element");
  EXPECT_EQ(Said[1],
            "F: 1 more lines are neither 'key: value' nor list elements");
}

TEST_F(ConfigFiles, LeavesOtherTextAlone) {
  EXPECT_EQ(match(Yaml, "iter 0: loss 3\niter 1: loss 2\n"), Match::No);
  EXPECT_EQ(match(Yaml, "A sentence.\nNote: another one.\n"), Match::No);
  EXPECT_EQ(match(Yaml, "{\"a\": 1}"), Match::No);
  EXPECT_EQ(match(Yaml, "RUN: x\nCHECK: y\n"), Match::No);
  EXPECT_EQ(match(Yaml, "WARNING: x\nERROR: y\n"), Match::No);
  EXPECT_EQ(match(Yaml, "HAMLET: to be or not to be\nGHOST: mark me\n"),
            Match::No);
  EXPECT_EQ(match(Yaml, "2026-01-05 08:59:57 INFO x: y\n"), Match::No);
}

TEST_F(ConfigFiles, ReadsPackages) {
  StringRef Freeze = "# x\ntorch==2.4.0+cu121\n-e git+https://x\n"
                     "transformers[torch]==4.44.0 ; python_version > '3.8'\n"
                     "mine @ file:///src/mine\n";
  EXPECT_EQ(match(Packages, Freeze), Match::Likely);
  read(Packages, Freeze);
  ASSERT_EQ(rows(TableId::packages), 3u);
  auto package = [&](size_t Row) {
    return row(TableId::packages, Row,
               {packages::name, packages::version, packages::place});
  };
  EXPECT_EQ(package(0), "torch|2.4.0+cu121|2");
  EXPECT_EQ(package(1), "transformers|4.44.0|4");
  EXPECT_EQ(package(2), "mine|file:///src/mine|5");
  StringRef List = "Package    Version\n---------- -------\ntorch      2.4.0\n";
  EXPECT_EQ(match(Packages, List), Match::Likely);
  read(Packages, List);
  EXPECT_EQ(package(0), "torch|2.4.0|3");
  EXPECT_EQ(match(Packages, "if a == b\nc == d and e\n"), Match::No);
}
