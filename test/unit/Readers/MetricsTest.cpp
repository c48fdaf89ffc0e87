//===- MetricsTest.cpp - JSON lines, CSV, trainer state ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/CsvScalars.h"
#include "Readers/JsonConfig.h"
#include "Readers/JsonLines.h"
#include "Readers/TrainerState.h"
#include "TextFileTest.h"

using namespace culprit;
using namespace llvm;

class JsonLines : public TextFileTest {
protected:
  JsonLinesReader R;
};
class CsvScalars : public TextFileTest {
protected:
  CsvScalarsReader R;
};
class TrainerState : public TextFileTest {
protected:
  TrainerStateReader R;
};

TEST_F(JsonLines, ReadsAnyKeys) {
  StringRef Text =
      "{\"step\": 3, \"train/loss\": 2.5, \"lr\": \"1e-4\"}\n"
      "{\"step\": 4, \"train/loss\": NaN, \"extra\": {\"a\": 1}}\n";
  EXPECT_EQ(match(R, Text), Match::Likely);
  read(R, Text);
  ASSERT_EQ(rows(TableId::scalars), 4u);
  EXPECT_EQ(scalar(0), "3|loss|2.5|1");
  EXPECT_EQ(scalar(1), "3|lr|0.0001|1");
  EXPECT_EQ(scalar(2), "4|loss|nan|2");
  EXPECT_EQ(scalar(3), "4|extra/a|1|2");
  EXPECT_EQ(row(TableId::scalars, 0, {scalars::raw_name}), "train/loss");
  EXPECT_TRUE(Said.empty());
}

TEST_F(JsonLines, ReadsLayers) {
  read(R, "{\"step\": 5, \"layer\": \"blocks.0.attn\", \"act_rms\": 0.5, "
          "\"zero_frac\": 0.25, \"grad_norm\": null, \"update_ratio\": 1}\n");
  ASSERT_EQ(rows(TableId::scalars), 3u);
  EXPECT_EQ(
      row(TableId::scalars, 0,
          {scalars::name, scalars::metric, scalars::layer, scalars::raw_name}),
      "activation_rms/blocks.0.attn|activation_rms|blocks.0.attn|act_rms");
  EXPECT_EQ(scalar(1), "5|zero_share/blocks.0.attn|0.25|1");
  EXPECT_EQ(scalar(2), "5|update_ratio/blocks.0.attn|1|1");
}

TEST_F(JsonLines, ReadsOneScalarARecord) {
  read(R, "{\"step\": 1, \"name\": \"train/loss\", \"value\": 2}\n"
          "{\"step\": 1, \"tag\": \"lr\", \"value\": 0.5}\n"
          "{\"step\": 1, \"name\": \"run-7\", \"loss\": 3}\n");
  EXPECT_EQ(scalar(0), "1|loss|2|1");
  EXPECT_EQ(scalar(1), "1|lr|0.5|2");
  EXPECT_EQ(scalar(2), "1|loss|3|3") << "a run has a name too";
}

TEST_F(JsonLines, PlacesRecords) {
  read(
      R,
      "{\"_step\": 7, \"rank\": 2, \"_timestamp\": 1767603597.5, \"loss\": 1}\n"
      "{\"loss\": 2}\n",
      "metrics_rank3.jsonl");
  EXPECT_EQ(row(TableId::scalars, 0, {scalars::rank, scalars::wall_time}),
            "2|1.7676e+09");
  EXPECT_EQ(row(TableId::scalars, 1, {scalars::rank, scalars::step}), "3|7")
      << "the file's rank, the step before";
}

TEST_F(JsonLines, CountsStepsThatAreNotLogged) {
  read(R, "{\"loss\": 3}\n{\"loss\": 2}\n");
  EXPECT_EQ(scalar(1), "1|loss|2|2");
}

TEST_F(JsonLines, KeepsOneMeaningARecord) {
  read(R, "{\"step\": 1, \"nll_loss\": 3, \"loss\": 2}\n");
  EXPECT_EQ(scalar(0), "1|nll_loss|3|1");
  EXPECT_EQ(scalar(1), "1|loss|2|1");
}

TEST_F(JsonLines, NamesTheLossOfAPolicy) {
  read(R, "{\"step\": 1, \"loss\": 0.5, \"reward\": 2}\n"
          "{\"step\": 2, \"loss\": 0.5, \"policy_loss\": 1}\n"
          "{\"step\": 3, \"loss\": 0.5, \"mean_reward\": 1, \"margin\": 1}\n"
          "{\"step\": 4, \"loss\": 0.5, \"rewards/chosen\": 1}\n");
  EXPECT_EQ(scalar(0), "1|policy_loss|0.5|1");
  EXPECT_EQ(row(TableId::scalars, 0, {scalars::raw_name}), "loss");
  EXPECT_EQ(scalar(2), "2|rl_loss|0.5|2");
  EXPECT_EQ(scalar(4), "3|loss|0.5|3") << "a reward model learns its rewards";
  EXPECT_EQ(scalar(7), "4|loss|0.5|4");
}

TEST_F(JsonLines, KeepsAMeanOverTheRunApart) {
  read(R, "{\"step\": 9, \"train/loss\": 2, \"train/train_loss\": 3, "
          "\"train/train_runtime\": 60}\n");
  EXPECT_EQ(scalar(0), "9|loss|2|1");
  EXPECT_EQ(scalar(1), "9|train/train_loss|3|1");
}

TEST_F(JsonLines, TrustsTheTrainersStep) {
  read(R, "{\"_step\": 1, \"iter\": 20, \"loss\": 1}\n"
          "{\"train/global_step\": 30, \"_step\": 2, \"loss\": 1}\n"
          "{\"_step\": 3, \"batch_idx\": 1, \"loss\": 1}\n"
          "{\"iter\": 7, \"step\": 50, \"loss\": 1}\n");
  EXPECT_EQ(scalar(0), "20|loss|1|1");
  EXPECT_EQ(scalar(1), "30|loss|1|2");
  EXPECT_EQ(scalar(2), "3|loss|1|3");
  EXPECT_EQ(scalar(3), "50|loss|1|4");
}

TEST_F(JsonLines, UnwrapsTensors) {
  read(R, "{\"step\": 1, \"loss\": \"tensor(2.5, device='cuda:0')\", "
          "\"note\": \"3 of (4)\"}\n");
  EXPECT_EQ(rows(TableId::scalars), 1u);
  EXPECT_EQ(scalar(0), "1|loss|2.5|1");
}

TEST_F(JsonLines, TellsWhenStepsGoBack) {
  read(R, "{\"step\": 4, \"loss\": 3}\n{\"step\": 2, \"loss\": 2}\n"
          "{\"step\": 3, \"loss\": 2}\n");
  ASSERT_EQ(Said.size(), 1u);
  EXPECT_EQ(Said[0], "F:2: steps go back from 4 to 2");
  EXPECT_EQ(rows(TableId::scalars), 3u) << "every row is kept";
}

TEST_F(JsonLines, SkipsBrokenLines) {
  read(R, "{\"step\": 1, \"loss\": 3}\n{\"step\": 2, \"lo\x01s: 3}\n"
          "{\"step\": 3, \"loss\": 2}\n{\"step\": 4, \"lo");
  EXPECT_EQ(rows(TableId::scalars), 2u);
  ASSERT_EQ(Said.size(), 2u);
  EXPECT_EQ(Said[0], "F:2: not a JSON object: a string without an end");
  EXPECT_EQ(Said[1], "F:4: the last line breaks off: a string without an end");
  EXPECT_FALSE(Failed);
  read(R, "{\"text\": \"a\"}\n{\"text\": \"b\"}\n");
  EXPECT_TRUE(Failed);
  EXPECT_EQ(Said[0], "F: none of its lines holds a number");
}

TEST_F(JsonLines, LeavesOtherFormatsAlone) {
  EXPECT_EQ(match(R, "{\n  \"lr\": 1,\n  \"n\": 2\n}\n"), Match::No);
  EXPECT_EQ(match(R, "{\"lr\": 0.1, \"n_layer\": 2}\n"), Match::No)
      << "a configuration on one line";
  EXPECT_EQ(match(R, "{\"margin\": 0.2, \"lr\": 3e-4, \"iters\": 800}\n"),
            Match::No)
      << "800 steps are planned";
  EXPECT_EQ(match(R, "{\"lr\": 3e-4, \"step\": 800}\n", "a.json"), Match::No);
  EXPECT_EQ(match(R, "{\"loss\": 3.5, \"step\": 800}\n", "a.json"),
            Match::Likely);
  EXPECT_EQ(match(R, "{\"lr\": 3e-4, \"step\": 800}\n", "a.jsonl"),
            Match::Likely);
  EXPECT_EQ(match(R, "{\"msg\": \"x\", \"level\": \"info\"}\n"
                     "{\"msg\": \"y\", \"level\": \"info\"}\n"),
            Match::No);
  EXPECT_EQ(match(R, "{\"prompt\": \"a\", \"text\": \"b\", \"n\": 3}\n"
                     "{\"prompt\": \"a\", \"text\": \"b\", \"n\": 3}\n"),
            Match::No);
  EXPECT_EQ(match(R, "loss 3\n"), Match::No);
  EXPECT_EQ(match(R, "{'loss': 3.0}\n{'loss': 2.0}\n"), Match::No)
      << "what Transformers prints";
}

TEST_F(CsvScalars, ReadsLightning) {
  StringRef Text =
      "epoch,lr-AdamW,step,train_loss,val_loss\r\n"
      ",0.1,0,,\r\n0,,0,2.5,\r\n0,,1,nan,\r\n0,,1,,\"1,234.5\"\r\n";
  EXPECT_EQ(match(R, Text), Match::Likely);
  read(R, Text);
  ASSERT_EQ(rows(TableId::scalars), 7u);
  EXPECT_EQ(scalar(0), "0|lr|0.1|2");
  EXPECT_EQ(scalar(2), "0|loss|2.5|3");
  EXPECT_EQ(scalar(4), "1|loss|nan|4") << "nan was logged, a blank was not";
  EXPECT_EQ(scalar(6), "1|val_loss|1234.5|5");
}

TEST_F(CsvScalars, TakesOtherSeparators) {
  EXPECT_EQ(match(R, "step\tloss\n1\t2\n"), Match::Likely);
  EXPECT_EQ(match(R, "step;loss\n1;2\n"), Match::Likely);
  read(R, "step;loss\n1;2\n");
  EXPECT_EQ(scalar(0), "1|loss|2|2");
}

TEST_F(CsvScalars, ReadsExcel) {
  read(R, "step;loss;tokens\n1;2,5;1.024,5\n2;0,125;7\n");
  EXPECT_EQ(scalar(0), "1|loss|2.5|2");
  EXPECT_EQ(scalar(1), "1|tokens|1024.5|2");
  EXPECT_EQ(scalar(2), "2|loss|0.125|3");
  read(R, "step;tokens\n1;1,024\n");
  EXPECT_EQ(scalar(0), "1|tokens|1024|2") << "thousands";
  std::string Wide("\xFF\xFE", 2);
  for (char C : StringRef("step,loss\n1,2.5\n"))
    Wide += {C, '\0'};
  EXPECT_EQ(match(R, Wide), Match::Likely);
  read(R, Wide);
  EXPECT_EQ(scalar(0), "1|loss|2.5|2");
  read(R, StringRef(Wide).drop_back(3)); // ends inside a character
  EXPECT_EQ(scalar(0), "1|loss|2|2");
}

TEST_F(CsvScalars, CountsInEpochs) {
  read(R, "epoch,loss\n0,2\n1,1\n7,3\n");
  EXPECT_EQ(scalar(5), "7|loss|3|4");
  read(R, "epoch,loss\n0,2\n0,1\n1,3\n");
  EXPECT_EQ(scalar(5), "2|loss|3|4") << "rows are no epochs";
  read(R, "epoch,step,loss\n0,10,2\n1,20,1\n");
  EXPECT_EQ(scalar(3), "20|loss|1|3");
}

TEST_F(CsvScalars, ReadsTensorBoardDownloads) {
  read(R, "Wall time,Step,Value\n1767603597.5,10,2.5\n",
       "run-exp_train-tag-train_loss.csv");
  EXPECT_EQ(scalar(0), "10|loss|2.5|2");
}

TEST_F(CsvScalars, SkipsBrokenRows) {
  read(R, "step,loss\n1,2\n3\n\n4,5,6\n7,8\n9,\"1");
  EXPECT_EQ(rows(TableId::scalars), 2u);
  ASSERT_EQ(Said.size(), 3u);
  EXPECT_EQ(Said[0], "F:3: 1 cells where the header names 2");
  EXPECT_EQ(Said[1], "F:5: 3 cells where the header names 2");
  read(R, "step,loss\n");
  EXPECT_TRUE(Failed);
}

TEST_F(CsvScalars, LeavesOtherTablesAlone) {
  EXPECT_EQ(match(R, "name,size\na,2\n"), Match::No);
  EXPECT_EQ(match(R, "1,2,3\n4,5,6\n"), Match::No);
  EXPECT_EQ(match(R, "We lost a step, and more.\nAnd so on, you see.\n"),
            Match::No);
}

static const char StateText[] = R"({
  "global_step": 20,
  "log_history": [
    {
      "epoch": 0.5, "grad_norm": NaN, "learning_rate": 0.1, "loss": 2.5,
      "step": 10
    },
    {"epoch": 1.0, "eval_loss": 2.25, "eval_runtime": 3.0, "step": 20},
    {"epoch": 1.0, "train_loss": 2.4, "train_runtime": 9.0, "step": 20}
  ],
  "max_steps": 20,
  "trial_params": null
})";

TEST_F(TrainerState, ReadsHistoryAndSettings) {
  EXPECT_EQ(match(R, StateText), Match::Certain);
  read(R, StateText);
  ASSERT_EQ(rows(TableId::scalars), 10u);
  EXPECT_EQ(scalar(1), "10|grad_norm|nan|4");
  EXPECT_EQ(scalar(3), "10|loss|2.5|4");
  EXPECT_EQ(scalar(5), "20|val_loss|2.25|8");
  EXPECT_EQ(scalar(8), "20|train_loss|2.4|9") << "a mean over the run";
  EXPECT_EQ(
      row(TableId::config, 0, {config::key, config::number, config::place}),
      "global_step|20|2");
  EXPECT_EQ(rows(TableId::config), 3u);
  EXPECT_TRUE(Said.empty());
}

TEST_F(TrainerState, KeepsWhatCameBeforeABreak) {
  StringRef Whole = StateText;
  read(R, Whole.take_front(Whole.find("\"eval_runtime")));
  EXPECT_EQ(rows(TableId::scalars), 4u) << "the record that breaks is dropped";
  ASSERT_EQ(Said.size(), 1u);
  EXPECT_EQ(Said[0], "F:8: the text ends inside a value");
  EXPECT_FALSE(Failed);
}

TEST_F(TextFileTest, JsonListOfRecordsIsMetrics) {
  JsonConfigReader R;
  StringRef Text =
      "[\n{\"step\": 1, \"loss\": 2},\n{\"step\": 2, \"loss\": 1}\n]";
  EXPECT_EQ(match(R, Text), Match::Likely);
  read(R, Text);
  EXPECT_EQ(scalar(1), "2|loss|1|3");
  EXPECT_EQ(rows(TableId::config), 0u);
}
