//===- MarkdownReaderTest.cpp -------------------------------------*- C++
//-*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/MarkdownReader.h"
#include "gtest/gtest.h"

using namespace llvm;
using namespace culprit;

namespace {

Entry onlyEntry(StringRef Text) {
  MarkdownLog Log = readMarkdown(Text, "log.md");
  EXPECT_EQ(Log.Entries.size(), 1u);
  return Log.Entries.empty() ? Entry() : Log.Entries.front();
}

using Texts = std::vector<std::string>;

TEST(MarkdownReaderTest, FormOfTheLog) {
  Entry E = onlyEntry("# Issues Log\n"
                      "\n"
                      "## 2026-11-20\n"
                      "\n"
                      "### [FIXED] Blurry output, scaling missing\n"
                      "\n"
                      "**Symptom**: Images were *extremely* blurry\n"
                      "compared to the reference.\n"
                      "\n"
                      "**Root Cause**: No `c_in`.\n"
                      "\n"
                      "**Fix**: Apply it:\n"
                      "```rust\n"
                      "let c_in = 1.0;\n"
                      "```\n"
                      "\n"
                      "**Files**: `src/pipeline.rs`\n"
                      "\n"
                      "**Prevention**:\n"
                      "- Document the formulation\n"
                      "  of each paper\n"
                      "- Test: compare values\n");
  EXPECT_EQ(E.Id, "log/blurry-output-scaling-missing");
  EXPECT_EQ(E.Date, "2026-11-20");
  EXPECT_EQ(E.Status, "FIXED");
  EXPECT_EQ(E.Title, "Blurry output, scaling missing");
  EXPECT_EQ(E.Symptom,
            "Images were extremely blurry compared to the reference.");
  EXPECT_EQ(E.RootCause, "No `c_in`.");
  EXPECT_EQ(E.Fix, "Apply it:\n\n```rust\nlet c_in = 1.0;\n```");
  EXPECT_EQ(E.Files, "`src/pipeline.rs`");
  EXPECT_EQ(E.Prevention, (Texts{"Document the formulation of each paper",
                                 "Test: compare values"}));
  EXPECT_EQ(E.Source.Line, 5u);
}

TEST(MarkdownReaderTest, VariantsOfTheForm) {
  // Colon inside the emphasis, all sections in one paragraph.
  Entry A = onlyEntry("### T\n**Symptom:** a\n**Root cause:** b\n**Fix:** c");
  EXPECT_EQ(A.Symptom + A.RootCause + A.Fix, "abc");
  // Headings as sections.
  Entry B = onlyEntry("## [OPEN] T\n### Symptoms\na\n### Resolution\nc");
  EXPECT_EQ(B.Symptom + B.Fix + B.Status, "acOPEN");
  // Items as sections.
  Entry C = onlyEntry("### T\n- **Symptom**: a\n- **Fix**: c\n");
  EXPECT_EQ(C.Symptom + "|" + C.Fix, "a|c");
  // Plain labels, a date in the heading, the status behind.
  Entry D = onlyEntry("### 2026-01-02: T [Fixed]\n\nSymptom: a\n\nFix: c\n");
  EXPECT_EQ(D.Symptom + D.Fix + D.Date + D.Status + D.Title,
            "ac2026-01-02FIXEDT");
  // A file that is one entry.
  Entry F = onlyEntry("# Title\n\n## Symptom\n\na\n\n## Fix\n\nc\n");
  EXPECT_EQ(F.Symptom + F.Fix + F.Title, "acTitle");
}

TEST(MarkdownReaderTest, SectionsEndALazyItem) {
  Entry E = onlyEntry("### T\n**Prevention**:\n- one\n- two\n**Files**: x\n");
  EXPECT_EQ(E.Prevention, (Texts{"one", "two"}));
  EXPECT_EQ(E.Files, "x");
}

TEST(MarkdownReaderTest, TablesKeepTheirRows) {
  Entry E = onlyEntry("### T\n**Symptom**: rows\n\n| a | b |\n|---|---|\n"
                      "| 1 | 2 |\n");
  EXPECT_EQ(E.Symptom, "rows\n\n| a | b |\n|---|---|\n| 1 | 2 |");
}

TEST(MarkdownReaderTest, CuratedSections) {
  Entry E = onlyEntry(
      "### T\n\n**Class**: fp16-overflow\n\n"
      "**Signals**: loss-spike (always),\nlr-zero: never; lr-jump - often\n\n"
      "**Log**: `found nan; inf`; `b`\n\n"
      "**Fails when**: fp16; long prompts\n\n**Works when**: bf16.\n\n"
      "**Confirm**: Replay in fp32. Use one batch. Finite: confirmed. Still "
      "NaN: look elsewhere.\n\n"
      "**References**: https://a.b/c, https://d.e/f.\n");
  EXPECT_EQ(E.Class, "fp16-overflow");
  ASSERT_EQ(E.Signals.size(), 3u);
  EXPECT_EQ(E.Signals[1].Symptom, "lr-zero");
  EXPECT_EQ(E.Signals[1].How, Frequency::Never);
  EXPECT_EQ(E.Signals[2].How, Frequency::Often);
  EXPECT_EQ(E.LogFragments, (Texts{"found nan; inf", "b"}));
  EXPECT_EQ(E.FailsWhen, (Texts{"fp16", "long prompts"}));
  EXPECT_EQ(E.WorksWhen, (Texts{"bf16"}));
  EXPECT_EQ(E.Confirm.Experiment, "Replay in fp32. Use one batch.");
  EXPECT_EQ(E.Confirm.Confirms, "Finite: confirmed.");
  EXPECT_EQ(E.Confirm.Refutes, "Still NaN: look elsewhere.");
  EXPECT_EQ(E.References, (Texts{"https://a.b/c", "https://d.e/f"}));
}

TEST(MarkdownReaderTest, LineEndsDoNotMatter) {
  std::string Unix = "## 2026-01-01\n\n### [FIXED] T\n\n**Symptom**: a\nb\n\n"
                     "**Prevention**:\n- c\n- d\n";
  std::string Dos;
  for (char C : Unix)
    Dos += C == '\n' ? "\r\n" : std::string(1, C);
  Entry A = onlyEntry(Unix), B = onlyEntry(Dos);
  EXPECT_EQ(A.Symptom, B.Symptom);
  EXPECT_EQ(A.Prevention, B.Prevention);
  EXPECT_EQ(A.Date, B.Date);
  EXPECT_EQ(A.Source.Line, B.Source.Line);
}

TEST(MarkdownReaderTest, IdsAreUnique) {
  MarkdownLog Log = readMarkdown("### Loss is NaN, one\n**Symptom**: a\n"
                                 "### Loss is NaN, two\n**Symptom**: b\n"
                                 "### Loss is NaN, two\n**Symptom**: c\n"
                                 "### ---\n**Symptom**: d\n",
                                 "dir/ISSUES.md");
  ASSERT_EQ(Log.Entries.size(), 4u);
  EXPECT_EQ(Log.Entries[0].Id, "issues/loss-is-nan");
  EXPECT_EQ(Log.Entries[1].Id, "issues/loss-is-nan-two");
  EXPECT_EQ(Log.Entries[2].Id, "issues/loss-is-nan-2");
  EXPECT_EQ(Log.Entries[3].Id, "issues/entry");
}

TEST(MarkdownReaderTest, WhatIsNotUnderstoodIsTold) {
  MarkdownLog Log = readMarkdown("### [FIXED] T\n"
                                 "**Symptom**: a\n"
                                 "\n"
                                 "**Preventoin**: b\n"
                                 "\n"
                                 "**Signals**: x (ofter), y\n"
                                 "### [OPEN] Empty\n"
                                 "nothing\n",
                                 "log.md");
  ASSERT_EQ(Log.Entries.size(), 1u);
  ASSERT_EQ(Log.Entries[0].Other.size(), 1u);
  EXPECT_EQ(Log.Entries[0].Other[0].Text, "b");
  ASSERT_EQ(Log.Remarks.size(), 4u);
  EXPECT_EQ(Log.Remarks[0].Message,
            "log.md:4: unknown section 'Preventoin' in 'T'");
  EXPECT_EQ(Log.Remarks[0].Hint, "did you mean 'Prevention'?");
  EXPECT_EQ(Log.Remarks[1].Message,
            "log.md:6: unknown frequency 'ofter' of signal 'x'");
  EXPECT_EQ(Log.Remarks[1].Hint, "did you mean 'often'?");
  EXPECT_EQ(Log.Remarks[2].Message, "log.md:6: signal 'y' has no frequency");
  EXPECT_EQ(Log.Remarks[3].Message,
            "log.md:7: 'Empty' has no section of an entry");
}

TEST(MarkdownReaderTest, BoldWordsInItemsAreContent) {
  Entry E = onlyEntry("### T\n**Prevention**:\n- **Always**: run it\n"
                      "- **Weight check**: compare shapes\n");
  EXPECT_EQ(E.Prevention,
            (Texts{"Always: run it", "Weight check: compare shapes"}));
}

TEST(MarkdownReaderTest, AnyBytesAreAccepted) {
  EXPECT_TRUE(readMarkdown("", "x.md").Entries.empty());
  EXPECT_TRUE(readMarkdown("no heading at all", "x.md").Entries.empty());
  std::string Bytes = "### [FIXED] T\n**Symptom**: ";
  for (int C = 0; C < 256; ++C)
    Bytes += static_cast<char>(C);
  MarkdownLog Log = readMarkdown(Bytes, "x.md");
  EXPECT_FALSE(Log.Remarks.empty()); // The NUL byte.
  std::string Deep(20000, '>');
  EXPECT_TRUE(readMarkdown(Deep + " x", "x.md").Entries.empty());
  std::string Lists = "### T\n**Symptom**: a\n\n";
  for (int I = 0; I < 200; ++I)
    Lists += std::string(2 * I, ' ') + "- x\n";
  EXPECT_EQ(readMarkdown(Lists, "x.md").Entries.size(), 1u);
}

TEST(MarkdownReaderTest, Detection) {
  EXPECT_TRUE(looksLikeIssuesLog("# x\n\n**Symptom**: y\n"));
  EXPECT_TRUE(looksLikeIssuesLog("#### Symptom\r\n"));
  EXPECT_FALSE(looksLikeIssuesLog("# Readme\n\nThe symptom: none\n"));
}

} // namespace
