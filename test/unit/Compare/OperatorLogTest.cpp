//===- OperatorLogTest.cpp --------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Compare/OperatorLog.h"
#include "gtest/gtest.h"
#include <limits>

using namespace culprit;

namespace {

/// What a log tells of one tensor.
struct Figures {
  std::optional<double> Mean, Min, Max;
};

/// A log of operators that are named by number, \p From first.
Case logOf(llvm::ArrayRef<Figures> Rows, size_t From = 0) {
  CaseBuilder Builder;
  auto S = std::make_unique<Source>("run/log", Builder.pool());
  S->Format = "test";
  for (size_t I = 0; I != Rows.size(); ++I) {
    TensorRecord Record;
    Record.Name = "op" + std::to_string(From + I);
    Record.Order = int64_t(I);
    Record.Data.Type = DType::Float32;
    Record.Data.Shape = {4, 4};
    TensorSummary Given;
    Given.Type = "float32";
    Given.Mean = Rows[I].Mean;
    Given.Min = Rows[I].Min;
    Given.Max = Rows[I].Max;
    S->addTensor(std::move(Record), Given, /*Known=*/true);
  }
  Builder.add(std::move(S));
  return Builder.build();
}

OperatorComparison compared(llvm::ArrayRef<Figures> A,
                            llvm::ArrayRef<Figures> B) {
  const Case Ref = logOf(A), Ours = logOf(B);
  return llvm::cantFail(compareOperatorLogs(Ref, "ref", Ours, "ours"));
}

// 2 against 4 is 0.5 apart; with extremes of 10 it is (4 - 2) / 10.
TEST(OperatorLogTest, MeansAlone) {
  OperatorComparison C = compared({{2.0, {}, {}}}, {{4.0, {}, {}}});
  EXPECT_EQ(C.Verdict, CompareVerdict::Different);
  EXPECT_EQ(C.Pairs[0].Relative, 0.5);
  C = compared({{2.0, -10.0, 5.0}}, {{4.0, -10.0, 5.0}});
  EXPECT_EQ(C.Pairs[0].Relative, 0.2);
  EXPECT_EQ(C.Pairs[0].Figure, "mean");
}

// An extreme that is infinite on both sides measures nothing: the least values
// are 8 apart, of 16.
TEST(OperatorLogTest, InfiniteExtremes) {
  const double Infinity = std::numeric_limits<double>::infinity();
  OperatorComparison C =
      compared({{{}, -8.0, Infinity}}, {{{}, -16.0, Infinity}});
  EXPECT_EQ(C.Pairs[0].Relative, 0.5);
  EXPECT_EQ(C.Pairs[0].Figure, "min");
}

// Operators 0 to 2 and 2 to 4 have one of three in common.
TEST(OperatorLogTest, FewPairsAreSaidToBeFew) {
  const Figures A = {1.0, {}, {}};
  EXPECT_TRUE(compared({A, A}, {A, A, A, A, A}).Remarks.empty());
  OperatorComparison C =
      llvm::cantFail(compareOperatorLogs(logOf({A, A, A}), "ref",
                                         logOf({A, A, A}, /*From=*/2), "ours"));
  ASSERT_EQ(C.Remarks.size(), 1u);
  EXPECT_EQ(C.Remarks[0].find("only 33 % of the operators"), 0u);
}

} // namespace
