//===- TextLogTest.cpp ------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/TextLog.h"
#include "Readers/LogLine.h"
#include "TextFileTest.h"

using namespace culprit;
using namespace llvm;

class TextLog : public TextFileTest {
protected:
  TextLogReader R;
  std::string error(size_t Row) {
    return row(TableId::errors, Row,
               {errors::type, errors::signature, errors::rank, errors::line});
  }
};

static std::string templateOf(StringRef Text) {
  std::string Out;
  makeTemplate(Text, Out);
  return Out;
}

TEST(LogLine, ReadsPrefixes) {
  LogLineParser P;
  LogLine L = P.parse("2026-01-05 08:59:57,600 - root - INFO - step 1", 7);
  EXPECT_EQ(L.Level, "info");
  EXPECT_EQ(L.Body, "step 1");
  EXPECT_NEAR(*L.WallTime, 1767603597.6, 1e-3);
  EXPECT_EQ(L.Number, 7);
  L = P.parse("[rank3]:[E321 02:07:08.408271257 ProcessGroupNCCL.cpp:607] "
              "[Rank 3] Watchdog",
              1);
  EXPECT_EQ(L.Rank, 3);
  EXPECT_EQ(L.Level, "error");
  EXPECT_EQ(L.Body, "Watchdog");
  L = P.parse("a.py:41: UserWarning: x", 1);
  EXPECT_EQ(L.Level, "warning");
  EXPECT_EQ(P.parse("h:5:17 [3] NCCL WARN x", 1).Rank, 3);
  EXPECT_EQ(P.parse("Rank 12: done", 1).Rank, 12);
  EXPECT_EQ(P.parse("step=3 rank=2 x", 1).Rank, 2);
  EXPECT_FALSE(P.parse("connection closed by rank 3", 1).Rank);
  EXPECT_FALSE(P.parse("world ranks 8, local_rank 1", 1).Rank);
  EXPECT_EQ(P.parse("[step 12] loss: 3", 1).Body, "[step 12] loss: 3");
}

TEST(LogLine, ShowsWhatATerminalShows) {
  LogLineParser P;
  EXPECT_EQ(P.parse("\x1b[31mred\x1b[0m text\r", 1).Text, "red text");
  EXPECT_EQ(P.parse("10%|x| 1/9\r50%|x| 5/9\r100%|x| 9/9\r", 1).Text,
            "100%|x| 9/9");
  EXPECT_EQ(P.parse(" 98%|x| 490/500 [00:12<00:00, 41.8it/s]done", 1).Text,
            "done");
  EXPECT_EQ(P.parse("bad \xff byte", 1).Text, "bad \xEF\xBF\xBD byte");
}

// Each would take hours if a run were searched from each of its places.
TEST(LogTemplate, LooksAtARunOnce) {
  constexpr size_t Size = 1 << 20;
  for (char C : {'.', '~', '-'})
    EXPECT_EQ(templateOf(std::string(Size, C)), std::string(Size, C));
  std::string Words;
  while (Words.size() < Size)
    Words += "ff-";
  EXPECT_EQ(templateOf(Words + "z"), Words + "z");
  // What begins behind a run that was none is still found.
  EXPECT_EQ(templateOf("... /tmp ./a/b"), "... /tmp <*>");
  EXPECT_EQ(templateOf("~.~ ~/a/b"), "~.~ <*>");
  EXPECT_EQ(templateOf("a-a-a 12ab34cd"), "a-a-a <*>");
  EXPECT_EQ(templateOf("dead-0x1f"), "dead-<*>");
}

TEST(LogTemplate, ReplacesWhatVaries) {
  EXPECT_EQ(templateOf("step 12/100 loss 3.4e-05 at 0x7f3a"),
            "step <*> loss <*> at <*>");
  EXPECT_EQ(templateOf("saved /data/run1/ckpt-3.pt in -1.5 s"),
            "saved <*> in <*> s");
  EXPECT_EQ(templateOf("id 123e4567-e89b-12d3-a456-426614174000 ok"),
            "id <*> ok");
  EXPECT_EQ(templateOf("2026-01-05 08:59:57,600 [rank3] x"),
            "<*> <*> [rank<*>] x");
  EXPECT_EQ(templateOf("a feed of faded words and/or more"),
            "a feed of faded words and/or more");
}

TEST_F(TextLog, ReadsInterleavedTracebacks) {
  read(R, "[rank0]: Traceback (most recent call last):\n"
          "[rank1]: Traceback (most recent call last):\n"
          "[rank0]:   File \"/app/train.py\", line 3, in main\n"
          "[rank1]:   File \"/app/train.py\", line 9, in main\n"
          "[rank0]:     loss.backward()\n"
          "[rank1]:     raise KeyError(\"CUDA out of memory\")\n"
          "[rank0]:   File \"/lib/t.py\", line 5, in f\n"
          "[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to "
          "allocate 2.00 GiB.\n"
          "[rank1]: KeyError: 'loss'\n");
  ASSERT_EQ(rows(TableId::errors), 2u);
  EXPECT_EQ(error(0), "torch.OutOfMemoryError|cuda-oom|0|1");
  EXPECT_EQ(error(1), "KeyError|-|1|2") << "code of a frame is no error";
  EXPECT_EQ(row(TableId::errors, 0, {errors::frames, errors::bytes}),
            "/app/train.py:3 main < /lib/t.py:5 f|2147483648");
  EXPECT_EQ(rows(TableId::log_lines), 9u);
}

TEST_F(TextLog, ReadsChainedTracebacks) {
  read(R, "Traceback (most recent call last):\n"
          "  File \"a.py\", line 1, in <module>\n"
          "    1/0\n    ~^~\n"
          "ZeroDivisionError: division by zero\n\n"
          "During handling of the above exception, another exception "
          "occurred:\n\n"
          "Traceback (most recent call last):\n"
          "  File \"b.py\", line 2, in run\n"
          "RuntimeError: Error(s) in loading state_dict for GPT:\n"
          "\tMissing key(s) in state_dict: \"lm_head.weight\". \n\n"
          "The above exception was the direct cause of the following "
          "exception:\n\n"
          "Traceback (most recent call last):\n"
          "  File \"c.py\", line 3, in g\n"
          "mylib.errors.LoadFailed\n"
          "step 5 loss 2.5\n");
  ASSERT_EQ(rows(TableId::errors), 3u);
  EXPECT_EQ(error(0), "ZeroDivisionError|-|-|1");
  EXPECT_EQ(error(1), "RuntimeError|keys-mismatch|-|9");
  EXPECT_EQ(error(2), "mylib.errors.LoadFailed|-|-|16");
  EXPECT_EQ(scalar(0), "5|loss|2.5|19") << "not lost in a message";
  EXPECT_EQ(row(TableId::errors, 2, {errors::message}), "")
      << "nor a part of one";
}

TEST_F(TextLog, ReadsAStampedTraceback) {
  read(R, "2026-01-05T08:59:57Z Traceback (most recent call last):\n"
          "2026-01-05T08:59:58Z   File \"a.py\", line 1, in f\n"
          "2026-01-05T08:59:59Z ValueError: x\n");
  EXPECT_EQ(error(0), "ValueError|-|-|1");
  EXPECT_EQ(row(TableId::errors, 0, {errors::frames}), "a.py:1 f");
}

TEST_F(TextLog, KeepsATracebackThatBreaksOff) {
  read(R,
       "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\n");
  EXPECT_EQ(error(0), "unknown|-|-|1");
}

TEST_F(TextLog, PlacesErrorsInTraining) {
  read(R, "step 12 loss 3.5\nRuntimeError: CUDA error: device-side assert "
          "triggered\nUnexpected result nan on rank 3 at iteration #99\n");
  EXPECT_EQ(row(TableId::errors, 0, {errors::type, errors::step}),
            "RuntimeError|12");
  EXPECT_EQ(row(TableId::errors, 1, {errors::rank, errors::step}), "3|99");
}

TEST_F(TextLog, JoinsTheThreadsOfAnAssertion) {
  std::string Text;
  for (unsigned I = 0; I != 64; ++I)
    Text += "I.cu:1: f: block: [1,0,0], thread: [" + std::to_string(I) +
            ",0,0] Assertion `srcIndex < srcSelectDimSize` failed.\n";
  read(R, Text);
  EXPECT_EQ(rows(TableId::errors), 1u);
  EXPECT_EQ(rows(TableId::log_lines), 64u);
}

TEST_F(TextLog, KnowsALogWhenItSeesOne) {
  EXPECT_EQ(match(R, "2026-01-05 08:59:57 INFO start\nmore\n"), Match::Likely);
  EXPECT_EQ(match(R, "iter 0: loss 4.18, time 24.47ms, mfu -100.00%\n"),
            Match::Likely);
  EXPECT_EQ(match(R, "Loading\nDone\nTraceback (most recent call last):\n"
                     "  File \"a.py\", line 1, in f\nValueError: x\n"),
            Match::Possible);
  EXPECT_EQ(match(R, "CUDA out of memory. Tried to allocate 2.00 GiB\n"),
            Match::Possible);
  EXPECT_EQ(match(R, "Killed\nsome other words\n"), Match::No);
}

TEST_F(TextLog, LeavesOtherTextAlone) {
  EXPECT_EQ(match(R, "# Troubleshooting\n\nIf you get\n\n```\nRuntimeError: "
                     "CUDA out of memory.\n```\n\n- reduce the batch\n"),
            Match::No);
  EXPECT_EQ(match(R, "import torch\n\ndef f(x):\n    raise RuntimeError('CUDA "
                     "error: device-side assert triggered')\n\nclass A:\n"
                     "    pass\n"),
            Match::No);
  EXPECT_EQ(match(R, "<html><body>CUDA out of memory</body></html>\n"),
            Match::No);
  EXPECT_EQ(match(R, "A letter.\n\nIt has some lines,\nand no more.\n"),
            Match::No);
  EXPECT_EQ(match(R, StringRef("\x7f"
                               "ELF\0\0\0\1\0\0\0\0\0\0\0\0\n",
                               18)),
            Match::No);
  EXPECT_EQ(match(R, " \n\n"), Match::No);
}

TEST_F(TextLog, SurvivesAnyBytes) {
  const std::string Good =
      "[rank0]: Traceback (most recent call last):\n"
      "[rank0]:   File \"/app/train.py\", line 3, in main\n"
      "[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate "
      "2.00 GiB\n{'loss': 2.3, 'grad_norm': nan, 'epoch': 0.1}\n"
      "NVRM: Xid (PCI:0000:09:00): 79, pid=0\n iteration 5/ 400 | lm loss: "
      "2.1E+00 | number of nan iterations: 1 |\n\x1b[31mx\x1b[0m\r\n";
  uint32_t Random = 7;
  for (unsigned Round = 0; Round != 300; ++Round) {
    std::string Bad = Good;
    for (unsigned Flip = 0; Flip != 8; ++Flip) {
      Random = Random * 1664525 + 1013904223;
      Bad[(Random >> 8) % Bad.size()] ^= 1u << (Random >> 29);
    }
    Bad.resize(Bad.size() - Round % 50);
    match(R, Bad);
    read(R, Bad);
  }
  read(R, StringRef("step 1 loss 2\n\0\0\0\nstep 2 loss 3\n", 32));
  EXPECT_EQ(rows(TableId::scalars), 2u);
  EXPECT_EQ(Said.at(0), "F: 3 zero bytes inside the text");
}
