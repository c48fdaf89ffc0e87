//===- LargeLogTest.cpp -----------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// What is counted instead of read must be what reading would have given.
//
//===----------------------------------------------------------------------===//

#include "Readers/LogKinds.h"
#include "Readers/LogRows.h"
#include "Readers/RequestRows.h"
#include "Readers/TextLog.h"
#include "TextFileTest.h"

using namespace culprit;
using namespace llvm;

TEST(LogKinds, NumbersMakeNoKind) {
  auto Whole = [](StringRef Line) { return lineKeys(Line).Whole; };
  EXPECT_EQ(Whole("took 12 ms, id a3f0"), Whole("took 7 ms, id 99c1b"));
  EXPECT_EQ(Whole("10.0.3.7:1234 - x"), Whole("10.0.31.250:80 - x"));
  EXPECT_NE(Whole("took 12 ms"), Whole("took 12 s"));
  EXPECT_NE(Whole("loss nan"), Whole("loss 1"));
  EXPECT_NE(Whole("a 1 b"), Whole("a b"));
  EXPECT_EQ(Whole(""), Whole(""));
  // A word over the border of two blocks of 64 bytes.
  std::string Front(60, 'x');
  EXPECT_EQ(Whole(Front + " abcdefgh1 z"), Whole(Front + " 77 z"));
  EXPECT_NE(Whole(Front + " abcdefgh z"), Whole(Front + " 77 z"));
}

TEST(LogKinds, BeginningEndsAfterTheSameText) {
  // 64 bytes of text, however long the number in it is.
  std::string A = "id 7 " + std::string(80, 'y') + " one";
  std::string B = "id 7777777 " + std::string(80, 'y') + " two";
  EXPECT_EQ(lineKeys(A).Beginning[0], lineKeys(B).Beginning[0]);
  EXPECT_EQ(lineKeys(A).Beginning[1], lineKeys(B).Beginning[1]);
  EXPECT_NE(lineKeys(A).Whole, lineKeys(B).Whole);
  EXPECT_EQ(lineKeys(A).BeginningBytes[0], 33u); // 32 and one digit
  EXPECT_EQ(lineKeys(A).BeginningBytes[1], 65u);
  EXPECT_EQ(lineKeys(B).BeginningBytes[1], 71u);
  EXPECT_EQ(lineKeys("short").BeginningBytes[0], 5u);
  // Texts of each length that the hash treats apart.
  for (unsigned Size = 1; Size != 40; ++Size) {
    std::string Text(Size, 'x'), Other = Text;
    for (unsigned I = 0; I != Size; ++I) {
      Other[I] = 'y';
      EXPECT_NE(lineKeys(Text).Whole, lineKeys(Other).Whole) << Other;
      Other[I] = 'x';
    }
    EXPECT_NE(lineKeys(Text).Whole, lineKeys(Text + "x").Whole);
  }
}

TEST(LogKinds, NumbersOfErrorsMatter) {
  EXPECT_TRUE(numbersMatter("worker 3: exit code 0"));
  EXPECT_TRUE(numbersMatter("CUDA error 999 in x"));
  EXPECT_FALSE(numbersMatter("took 12 ms"));
}

TEST(LogKinds, FreeTextSharesAKind) {
  LogKinds Kinds;
  size_t Beginning;
  std::string Front = std::string(64, 'p') + " prompt: ";
  LogKind *Last = nullptr;
  for (unsigned I = 0; I != LogKinds::MaxAlike + 2; ++I) {
    std::string Word(1, 'a' + I % 26);
    Last = &Kinds.of(Front + std::string(I + 1, 'w') + Word, Beginning);
    EXPECT_EQ(Last->FreeText, I >= LogKinds::MaxAlike);
  }
  EXPECT_EQ(Beginning, 64u);
  // Where the text differs earlier, the beginning is shorter.
  for (unsigned I = 0; I != LogKinds::MaxAlike + 1; ++I)
    Last = &Kinds.of(std::string(40, 'q') + std::string(1 + I % 9, 'r') +
                         std::string(1 + I / 9, 's') + std::string(30, 't'),
                     Beginning);
  EXPECT_TRUE(Last->FreeText);
  EXPECT_EQ(Beginning, 32u);
  EXPECT_FALSE(Kinds.of("something else", Beginning).FreeText);
}

class LargeLog : public TextFileTest {
protected:
  void readLog(StringRef Text, bool Large) {
    S = std::make_unique<Source>("F", Pool);
    readLogText(Text, *S, {.Large = Large, .Bytes = Text.size()});
  }
  /// All rows of a table, a line a row.
  std::string table(TableId Id, std::initializer_list<unsigned> Columns) {
    std::string Out;
    for (size_t Row = 0; Row != rows(Id); ++Row)
      Out += row(Id, Row, Columns) + "\n";
    return Out;
  }
  std::string everything() {
    return table(TableId::errors,
                 {errors::type, errors::signature, errors::line}) +
           table(TableId::scalars,
                 {scalars::step, scalars::name, scalars::value}) +
           table(TableId::requests,
                 {requests::id, requests::status, requests::latency,
                  requests::at, requests::place}) +
           table(TableId::counters, {counters::name, counters::value}) +
           table(TableId::log_templates,
                 {log_templates::template_, log_templates::lines,
                  log_templates::rank,
                  log_templates::first, log_templates::last,
                  log_templates::first_time, log_templates::last_time});
  }
};

TEST_F(LargeLog, CountsWhatItWouldHaveRead) {
  std::string Text;
  raw_string_ostream OS(Text);
  for (unsigned I = 0; I != 400; ++I) {
    OS << "2026-01-05 08:00:" << (I % 60 < 10 ? "0" : "") << I % 60
       << " INFO took " << I << " ms\n"
       << "INFO:     10.0.0." << I % 250 << ":80 - \"GET /v1/x HTTP/1.1\" "
       << (I % 50 == 49 ? "500 Internal Server Error" : "200 OK") << "\n"
       << "INFO 01-02 00:00:" << 10 + I % 50 << " [l.py:9] Received request r"
       << I << ": prompt: 'q', params: SamplingParams(temperature=0.5, "
       << "max_tokens=" << I << "), prompt_token_ids: None.\n"
       << "INFO 01-02 00:00:" << 10 + I % 50 << " [l.py:9] Finished request r"
       << I << ".\n";
    OS << "[rank" << I % 4 << "] of four\n[rank2] of one " << I << "\n";
    // Numbers of which some are an error, and metrics.
    OS << "worker " << I << " left with exit code " << (I == 300 ? 137 : 0)
       << "\n";
    if (I % 10 == 0)
      OS << "step " << I << " loss: 2." << I << "\n";
    if (I == 350)
      OS << "Traceback (most recent call last):\n"
         << "  File \"a.py\", line 3, in f\n"
         << "took 12 ms\n"
         << "ValueError: no data\n";
  }
  readLog(Text, false);
  std::string All = everything();
  size_t Lines = rows(TableId::log_lines);
  EXPECT_EQ(Lines, 400u * 7 + 40 + 4);
  readLog(Text, true);
  EXPECT_EQ(everything(), All);
  EXPECT_LT(rows(TableId::log_lines), Lines / 2);
  // The errors: one exit of a killed worker and the exception.
  EXPECT_NE(All.find("host-oom"), std::string::npos);
  EXPECT_NE(All.find("ValueError"), std::string::npos);
}

// The text that is made of an object goes with the next one: the kinds of
// lines alternate, so that the last one of each was another one's before.
TEST_F(LargeLog, CountsObjects) {
  std::string Text;
  raw_string_ostream OS(Text);
  for (unsigned I = 0; I != 100; ++I) {
    std::string Front = "{\"timestamp\":\"2026-01-05T08:00:" +
                        std::to_string(10 + I % 50) +
                        "Z\",\"level\":\"INFO\",\"message\":\"";
    OS << Front << "served " << I << " in one go\"}\n";
    if (I < 90) // 08:00:49 is the last
      OS << Front << "took " << I << " ms\"}\n";
  }
  readLog(Text, false);
  std::string All = everything();
  EXPECT_EQ(rows(TableId::log_templates), 2u);
  readLog(Text, true);
  EXPECT_EQ(everything(), All);
}

TEST_F(LargeLog, LongLinesAreCut) {
  std::string Text;
  for (unsigned I = 0; I != 30; ++I) // 30 kinds
    Text += std::string(1, 'a' + I % 26) + std::string(1 + I / 26, 'z') + ' ' +
            std::string(LogRows::MaxLine + I, 'x') + '\n';
  readLog(Text, true);
  ASSERT_EQ(rows(TableId::log_lines), 30u);
  ASSERT_EQ(rows(TableId::log_templates), 30u);
  for (size_t Row = 0; Row != 30; ++Row) {
    EXPECT_EQ(row(TableId::log_lines, Row, {log_lines::text}).size(),
              LogRows::MaxLine);
    EXPECT_EQ(
        row(TableId::log_templates, Row, {log_templates::template_}).size(),
        LogRows::MaxTemplate);
  }
  readLog(Text, false);
  EXPECT_GT(row(TableId::log_lines, 0, {log_lines::text}).size(),
            LogRows::MaxLine);
}

TEST_F(LargeLog, FreeTextIsStillSearched) {
  std::string Text;
  raw_string_ostream OS(Text);
  std::string Front = "2026-01-05 08:00:00 INFO app.handlers.chat.completions "
                      "what the user wrote, as it came: ";
  for (unsigned I = 0; I != 2000; ++I)
    OS << Front << std::string(1 + I % 40, 'a' + I / 77) << ' '
       << std::string(1 + I % 30, 'b' + I / 99)
       << (I == 1500 ? " CUDA out of memory" : "") << '\n';
  readLog(Text, true);
  EXPECT_EQ(rows(TableId::errors), 1u);
  EXPECT_EQ(row(TableId::errors, 0, {errors::signature, errors::line}),
            "cuda-oom|1501");
  // The lines are those of the kinds before they were found to be free text
  // and of one kind for all others.
  EXPECT_LE(rows(TableId::log_templates), LogKinds::MaxAlike + 2);
}

TEST_F(LargeLog, RequestsAreThinnedOutAndWeighed) {
  S = std::make_unique<Source>("F", Pool);
  RequestRows Rows(*S);
  // 600,000 sound requests and 1,000 that failed; every sound one twice, as a
  // retry, so that an id is kept with both or with none.
  constexpr unsigned Sound = 300000, Failed = 1000;
  for (unsigned I = 0; I != Sound; ++I)
    for (unsigned Attempt = 1; Attempt != 3; ++Attempt) {
      RequestRecord R;
      R.Id = "r" + std::to_string(I);
      R.Status = I < Failed && Attempt == 1 ? 500 : 200;
      R.Attempt = Attempt;
      Rows.add(R);
    }
  Rows.finish();
  EXPECT_EQ(Rows.requests(), 2 * Sound);
  size_t Kept = rows(TableId::requests);
  EXPECT_LE(Kept, RequestRows::MaxRows + Failed);
  TableBuilder &T = S->table(TableId::requests);
  int64_t Told = 0, Failures = 0;
  for (size_t Row = 0; Row != Kept; ++Row) {
    int64_t Weight = T.finished(requests::weight).ints()[Row];
    Told += Weight;
    if (T.finished(requests::status).ints()[Row] != 500)
      continue;
    Failures += 1;
    EXPECT_EQ(Weight, 1);
  }
  EXPECT_EQ(Failures, int64_t(Failed));
  // One in four is a sample: the weights add up to the whole but for chance,
  // whose standard deviation is 2 * sqrt(300000 * 3) = 1,900.
  EXPECT_NEAR(double(Told), 2.0 * Sound, 8000);
  // Both attempts of a request share its fate.
  for (size_t Row = 0; Row + 1 < Kept; ++Row)
    if (T.finished(requests::attempt).ints()[Row] == 1 &&
        T.finished(requests::status).ints()[Row] == 200) {
      EXPECT_EQ(T.finished(requests::id).strings()[Row],
                T.finished(requests::id).strings()[Row + 1]);
    }
}

TEST_F(LargeLog, TextsOfALargeFileAreASample) {
  S = std::make_unique<Source>("F", Pool);
  RequestRows Rows(*S, 4 * RequestRows::TextBytes);
  for (unsigned I = 0; I != 4000; ++I) {
    RequestRecord R;
    R.Id = "r" + std::to_string(I);
    R.Prompt = "what is " + std::to_string(I);
    Rows.add(R);
    Rows.token(R.Id, 0, false, {.Text = "x", .HasText = true}, {}, 1);
  }
  Rows.finish();
  // One in four: 1000, standard deviation 27.
  size_t Texts = 0;
  TableBuilder &T = S->table(TableId::requests);
  for (size_t Row = 0; Row != rows(TableId::requests); ++Row)
    Texts += !T.finished(requests::prompt).isNull(Row);
  EXPECT_EQ(rows(TableId::requests), 4000u);
  EXPECT_NEAR(double(Texts), 1000, 140);
  EXPECT_EQ(rows(TableId::tokens), Texts);
}
