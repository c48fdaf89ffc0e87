//===- ModelTest.cpp --------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Rank/Model.h"
#include "gtest/gtest.h"

using namespace culprit;

namespace {

SymptomEvidence present(const char *Symptom) {
  SymptomEvidence E;
  E.Symptom = Symptom;
  E.State = Presence::Present;
  E.Score = 1;
  return E;
}

// Of what is there the unknown cause shows 15 times the leak of 0.02 and 5
// times that of a generic sight, never more than one half, and nothing that is
// no sign of a fault.
TEST(ModelTest, WhatTheUnknownCauseShows) {
  Weights W;
  W.UnknownPrior = 0.04;
  W.UnknownShows = 15;
  W.UnknownShowsGeneric = 5;
  W.Leak = 0.02;
  W.Leaks = {{"common", 0.2}};
  W.Generic = {"plateau"};
  std::vector<SymptomEvidence> Seen = {present("own"), present("plateau"),
                                       present("common"), present("note")};
  Seen.back().Informational = true;
  Model M(Seen, {}, {}, W);
  ASSERT_GE(M.N.Unknown, 0);
  const std::vector<Link> &Links = M.N.Causes[M.N.Unknown].Links;
  ASSERT_EQ(Links.size(), 3u);
  EXPECT_DOUBLE_EQ(Links[0].Weight, 0.3);
  EXPECT_DOUBLE_EQ(Links[1].Weight, 0.1);
  EXPECT_DOUBLE_EQ(Links[2].Weight, 0.5);
}

} // namespace
