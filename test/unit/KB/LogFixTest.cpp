//===- LogFixTest.cpp ------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/LogFix.h"
#include "gtest/gtest.h"

using namespace llvm;
using namespace culprit;

namespace {

TEST(LogFixTest, TheCommonFormStays) {
  StringRef Text = "## 2026-01-02\n\n### [FIXED] T\n\n**Symptom**: a  \nb\n";
  LogFix F = fixLog(Text);
  EXPECT_TRUE(F.empty());
  EXPECT_EQ(F.Text, Text);
}

TEST(LogFixTest, LineEndsAndMark) {
  LogFix F = fixLog("\xEF\xBB\xBF### T\r\n**Symptom**: a\r\n");
  EXPECT_TRUE(F.Plainer);
  EXPECT_EQ(F.Text, "### T\n**Symptom**: a\n");
  EXPECT_TRUE(F.Changes.empty());
}

TEST(LogFixTest, LabelsOutsideOfCode) {
  LogFix F = fixLog("### T\n**Problem:** a\n\n```\n**Cause:** b\n```\n");
  ASSERT_EQ(F.Changes.size(), 1u);
  EXPECT_EQ(F.Changes[0].Line, 2u);
  EXPECT_EQ(F.Changes[0].To, "**Symptom**: a");
  EXPECT_EQ(F.Text, "### T\n**Symptom**: a\n\n```\n**Cause:** b\n```\n");
}

TEST(LogFixTest, WhatWouldChangeAnEntryIsLeft) {
  // Not the same day for all readers, so the heading stays as it is.
  LogFix F = fixLog("## 03/04/2025\n\n### T\n**Symptom**: a\n");
  EXPECT_TRUE(F.empty());
}

} // namespace
