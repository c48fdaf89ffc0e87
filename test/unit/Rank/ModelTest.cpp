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

// Two variants of one class: what the first shows often is there; what the
// second shows often is not, nor are four that it never shows.
//   a:  P(on) = 1 - 0.98 * 0.3 = 0.706, seen 0.702488 + 0.001463 = 0.703951,
//       without a cause 0.019900 + 0.004876 = 0.024776; ln 28.413 = 3.3468
//   b:  not seen 0.003512 + 0.292537 = 0.296050, without a cause 0.975224;
//       ln 0.303571 = -1.1921
//   n:  the leak is 0.001: 0.994035 to 0.975224; ln 1.019289 = 0.019105 each
// That many a symptom is not there which it never shows says little for it.
TEST(ModelTest, TheVariantThatWasSeenFits) {
  Weights W;
  W.Leak = 0.02;
  std::vector<SymptomEvidence> Seen = {present("a")};
  for (const char *Id : {"b", "n1", "n2", "n3", "n4"}) {
    Seen.push_back(present(Id));
    Seen.back().State = Presence::Absent;
  }
  std::vector<Entry> Entries(2);
  Entries[0].Class = Entries[1].Class = "c";
  Entries[0].Signals = {{"a", Frequency::Often}};
  Entries[1].Signals = {{"b", Frequency::Often},  {"n1", Frequency::Never},
                        {"n2", Frequency::Never}, {"n3", Frequency::Never},
                        {"n4", Frequency::Never}, {"nobody", Frequency::Often}};
  EXPECT_NEAR(Model(Seen, {}, Entries, W).fitOf(Entries[0]), 3.3468, 1e-3);
  EXPECT_NEAR(Model(Seen, {}, Entries, W).fitOf(Entries[1]), -1.1157, 1e-3);

  // A line that quotes it: ln(0.6 / 0.005) = 4.7875 more.
  LogEvidence Line;
  Line.Quoted = &Entries[1];
  EXPECT_NEAR(Model(Seen, Line, Entries, W).fitOf(Entries[1]), 3.6718, 1e-3);
}

} // namespace
