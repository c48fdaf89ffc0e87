//===- LogErrorsTest.cpp ----------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/ErrorLine.h"
#include "Readers/TextLog.h"
#include "TextFileTest.h"

using namespace culprit;
using namespace llvm;

class LogErrors : public TextFileTest {
protected:
  TextLogReader R;
};

TEST(ErrorLine, ReadsDevices) {
  EXPECT_EQ(deviceIn("NVRM: Xid (PCI:0000:9B:00): 79, pid=1"), "0000:9b:00");
  EXPECT_EQ(deviceIn("NVRM: Xid (0000:03:00): 14, Channel 1"), "0000:03:00");
  EXPECT_EQ(deviceIn("nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, x"),
            "0000:05:00");
  EXPECT_EQ(deviceIn("NVRM: GPU 0000:29:00.0: GPU has fallen off the bus."),
            "0000:29:00")
      << "the same device as in the Xid line";
  EXPECT_EQ(deviceIn("NVRM: GPU 18:00.0: GPU has fallen off the bus."),
            "0000:18:00");
  EXPECT_EQ(deviceIn("Tried to allocate 2.00 GiB. GPU 3 has a total capacity "
                     "of 79.15 GiB"),
            "3");
  EXPECT_EQ(deviceIn("Tried to allocate 2.00 GiB (GPU 1; 15.78 GiB total)"),
            "1");
  EXPECT_EQ(deviceIn("GPU 0 is idle"), "");
  EXPECT_EQ(deviceIn("invalid (invalid): Xid (invalid): x"), "");
}

TEST(ErrorLine, ReadsStampsWithoutYear) {
  // 2026-03-21 is day 20533 of Unix time; 02:07:08.5 is second 7628.5.
  const double Day = 20533 * 86400.0, Time = Day + 7628.5;
  EXPECT_EQ(yearOf(Time), 2026);
  EXPECT_EQ(yearOf(0), 1970);
  EXPECT_EQ(yearOf(1767225599), 2025) << "the last second of it";
  EXPECT_EQ(yearOf(1767225600), 2026);
  EXPECT_NEAR(*stampWithoutYear("[rank3]:[E321 02:07:08.500000 a.cpp:6] x",
                                2026),
              Time, 1e-6);
  EXPECT_NEAR(*stampWithoutYear("E0321 02:07:08.500000 140 a.py:869] x", 2026),
              Time, 1e-6);
  EXPECT_NEAR(*stampWithoutYear("Mar 21 02:07:08 node kernel: NVRM: x", 2026),
              Day + 7628, 1e-6);
  EXPECT_NEAR(*stampWithoutYear("[Sat Mar 21 02:07:08 2026] NVRM: x", 1970),
              Day + 7628, 1e-6);
  // Days 0 to 78 of 1970, and one more for a leap year after February.
  EXPECT_NEAR(*stampWithoutYear("E0321 00:00:00 1 a", 1970), 79 * 86400.0, 0);
  EXPECT_NEAR(*stampWithoutYear("E0321 00:00:00 1 a", 1972),
              (2 * 365 + 80) * 86400.0, 0);
  EXPECT_FALSE(stampWithoutYear("[ 1234.567890] NVRM: x", 2026));
  EXPECT_FALSE(stampWithoutYear("E0321: no such file", 2026));
  EXPECT_FALSE(stampWithoutYear("E1399 02:07:08 1 a", 2026));
  EXPECT_FALSE(stampWithoutYear("", 2026));
}

TEST_F(LogErrors, CountsAStorm) {
  std::string Text = "ValueError: first\n";
  for (unsigned I = 0; I != 1500; ++I)
    Text += "[rank" + std::to_string(I % 8) +
            "]: Watchdog caught collective operation timeout: x\n";
  Text += "KeyError: 'last'\n";
  read(R, Text);
  // 1000 of the storm, and the two others.
  ASSERT_EQ(rows(TableId::errors), 1002u);
  EXPECT_EQ(row(TableId::errors, 999, {errors::line, errors::repeats}),
            "1000|-");
  EXPECT_EQ(row(TableId::errors, 1000, {errors::line, errors::repeats}),
            "1001|500");
  EXPECT_EQ(row(TableId::errors, 1001, {errors::type, errors::line}),
            "KeyError|1502");
}

TEST_F(LogErrors, KeepsStormsApart) {
  std::string Text;
  for (unsigned I = 0; I != 1200; ++I)
    Text += "NVRM: Xid (PCI:0000:9b:00): 94, pid=1, Contained ECC error\n"
            "NVRM: Xid (PCI:0000:9b:00): 48, pid=1, DBE\n";
  read(R, Text);
  EXPECT_EQ(rows(TableId::errors), 2000u) << "of each code a thousand";
  EXPECT_EQ(row(TableId::errors, 1999, {errors::code, errors::repeats}),
            "48|200");
}

TEST_F(LogErrors, KnowsWhatCameOfAnother) {
  read(R, "Traceback (most recent call last):\n"
          "  File \"a.py\", line 1, in f\nKeyError: 'w'\n\n"
          "The above exception was the direct cause of the following "
          "exception:\n\n"
          "Traceback (most recent call last):\n"
          "  File \"a.py\", line 2, in g\nRuntimeError: cannot load\n\n"
          "later\n"
          "Traceback (most recent call last):\n"
          "  File \"a.py\", line 3, in h\nValueError: y\n");
  ASSERT_EQ(rows(TableId::errors), 3u);
  EXPECT_EQ(row(TableId::errors, 0, {errors::type, errors::role}),
            "KeyError|-");
  EXPECT_EQ(row(TableId::errors, 1, {errors::type, errors::role}),
            "RuntimeError|cascade");
  EXPECT_EQ(row(TableId::errors, 2, {errors::type, errors::role}),
            "ValueError|-");
}

TEST_F(LogErrors, ChainsOfRanksDoNotMix) {
  read(R, "[rank0]: Traceback (most recent call last):\n"
          "[rank0]:   File \"a.py\", line 1, in f\n[rank0]: KeyError: 'w'\n"
          "[rank0]: During handling of the above exception, another exception "
          "occurred:\n"
          "[rank1]: Traceback (most recent call last):\n"
          "[rank1]:   File \"a.py\", line 9, in f\n[rank1]: ValueError: y\n"
          "[rank0]: Traceback (most recent call last):\n"
          "[rank0]:   File \"a.py\", line 2, in g\n"
          "[rank0]: RuntimeError: cannot load\n");
  ASSERT_EQ(rows(TableId::errors), 3u);
  EXPECT_EQ(row(TableId::errors, 1, {errors::type, errors::role}),
            "ValueError|-");
  EXPECT_EQ(row(TableId::errors, 2, {errors::type, errors::role}),
            "RuntimeError|cascade");
}

TEST_F(LogErrors, KnowsTheStepOfATracebackAtItsHead) {
  // It is complete with the last line only, when the step is another.
  read(R, "step 1 loss 3.0\nstep 2 loss 2.9\n"
          "[rank1]: Traceback (most recent call last):\n"
          "[rank1]:   File \"a.py\", line 1, in f\n"
          "[rank1]: ValueError: x\nstep 3 loss 2.8\nstep 4 loss 2.7\n");
  EXPECT_EQ(row(TableId::errors, 0, {errors::type, errors::step}),
            "ValueError|2");
}

TEST_F(LogErrors, HasTimeAndDevice) {
  read(R, "2026-03-21 02:07:00 INFO start\n"
          "2026-03-21 02:07:08 ERROR CUDA out of memory. Tried to allocate "
          "2.00 GiB. GPU 3 has a total capacity of 79.15 GiB\n"
          "[rank1]:[E321 02:07:09.250000 a.cpp:6] [Rank 1] Watchdog caught "
          "collective operation timeout: x\n");
  // Day 20533; 7628 and 7629.25 seconds into it.
  EXPECT_EQ(row(TableId::errors, 0, {errors::device}), "3");
  const auto Time = [&](size_t Row) {
    return S->existing(TableId::errors)
        ->finished(errors::wall_time)
        .doubles()[Row];
  };
  EXPECT_NEAR(Time(0), 20533 * 86400.0 + 7628, 1e-6);
  EXPECT_NEAR(Time(1), 20533 * 86400.0 + 7629.25, 1e-6)
      << "the year of the line before";
}

TEST_F(LogErrors, LeavesSummariesOfNoneAlone) {
  read(R, "2026-03-21 02:07:00 INFO summary\n  TimeoutError: 0\n"
          "  ConnectionError: none\n  ValueError: 0 times\n");
  EXPECT_EQ(rows(TableId::errors), 0u);
}
