//===- Oracle.cpp -----------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Bisect/Oracle.h"
#include "Compare/RunsStatistics.h"
#include "Support/Units.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>
#include <limits>

using namespace llvm;

namespace culprit {

StringRef toString(Answer A) {
  switch (A) {
  case Answer::Good:
    return "good";
  case Answer::Bad:
    return "bad";
  case Answer::Skip:
    break;
  }
  return "skip";
}

void RepeatedTest::add(bool Failed) { ++(Failed ? Failures : Successes); }

double RepeatedTest::evidence() const {
  const double P = Plan.GoodFails.value_or(0), Q = *Plan.BadFails;
  double Out = 0;
  if (Failures)
    Out += P > 0 ? Failures * std::log(Q / P)
                 : std::numeric_limits<double>::infinity();
  if (Successes) {
    // Where a bad commit always fails and a good one never, seeing both is
    // impossible: no evidence, then.
    const double Step = Q < 1 ? Successes * std::log((1 - Q) / (1 - P))
                              : -std::numeric_limits<double>::infinity();
    Out += Step;
  }
  return std::isnan(Out) ? 0 : Out;
}

Answer RepeatedTest::answer() const {
  if (Plan.isSequential()) {
    const double Bound = std::log((1 - Plan.ErrorRate) / Plan.ErrorRate);
    const double E = evidence();
    return E >= Bound ? Answer::Bad : E <= -Bound ? Answer::Good : Answer::Skip;
  }
  if (2 * Failures > Plan.Most)
    return Answer::Bad;
  if (2 * Successes > Plan.Most)
    return Answer::Good;
  return Answer::Skip;
}

bool RepeatedTest::isDone() const {
  return runs() >= Plan.Most || answer() != Answer::Skip;
}

std::optional<double> RepeatedTest::confidence() const {
  if (runs() == 0)
    return std::nullopt;
  if (Plan.isSequential()) {
    const double E = std::fabs(evidence());
    return 1 / (1 + std::exp(-E));
  }
  if (Plan.Most == 1)
    return std::nullopt;
  // Of a uniform prior, the share of the posterior below a rate of one half.
  const double Below = incompleteBeta(0.5, Failures + 1.0, Successes + 1.0);
  return Failures > Successes ? 1 - Below : Below;
}

std::string RepeatedTest::text() const {
  std::string Out =
      formatv("{0} of {1} run{2} failed", Failures, runs(),
              runs() == 1 ? "" : "s");
  if (std::optional<double> C = confidence())
    Out += ", confidence " + formatNumber(*C, 3);
  return Out;
}

} // namespace culprit
