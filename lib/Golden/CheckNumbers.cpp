//===- CheckNumbers.cpp - Samples, shares and figures -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Golden/Check.h"
#include "Golden/Statistics.h"
#include "Support/LooseJson.h"
#include "Support/Units.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <cmath>
#include <map>

using namespace llvm;

namespace culprit {

static std::string figure(double Value, StringRef Unit) {
  return formatNumber(Value) + (Unit.empty() ? "" : " " + Unit.str());
}

/// "+12 %"; empty where there is nothing to relate to.
static std::string relative(double From, double To) {
  if (From == 0 || !std::isfinite(From) || !std::isfinite(To))
    return "";
  const double Share = (To - From) / std::fabs(From) * 100;
  return " (" + std::string(Share < 0 ? "-" : "+") +
         formatNumber(std::fabs(Share), 3) + " %)";
}

void checkSample(const GoldenItem &Locked, const Observation &Seen,
                 GoldenFinding &F) {
  const StringRef Unit =
      Locked.text("unit").split(',').first; // "nats, mean of an answer"
  if (Locked.text("unit") != Seen.Item.text("unit")) {
    F.Is = GoldenFinding::Outcome::Failed;
    F.What = "it is counted in " + Seen.Item.text("unit").str() +
             " now and was in " + Locked.text("unit").str();
    F.Next = "most answers no longer say how many tokens they have, or now do";
    return;
  }
  std::vector<double> Points = Locked.numbers("points");
  llvm::sort(Points); // people may have edited it
  Moments Before = momentsOf(Points); // for the kurtosis alone
  Before.Count = *Locked.number("count");
  Before.Mean = *Locked.number("mean");
  Before.Deviation = *Locked.number("sd");
  const Moments Now = momentsOf(Seen.Sample);
  const double K = Locked.tolerance("k"), P = Locked.tolerance("p");
  // A lock has six digits.
  double Largest = std::fabs(Before.Mean);
  for (double V : Points)
    Largest = std::max(Largest, std::fabs(V));
  const double Allowed = Locked.tolerance("rtol") * std::fabs(Before.Mean) +
                         Locked.tolerance("atol") + 5e-6 * Largest;
  std::vector<std::string> Wrong;
  F.Expected = "mean " + figure(Before.Mean, Unit) + ", sd " +
               formatNumber(Before.Deviation) + ", of " +
               formatCount(int64_t(Before.Count));
  F.Found = "mean " + figure(Now.Mean, Unit) + ", sd " +
            formatNumber(Now.Deviation) + ", of " +
            formatCount(int64_t(Now.Count));
  if (K > 0 && std::fabs(Now.Mean - Before.Mean) > Allowed)
    if (const Apart M = meansApart(Before, Now, K); M.Errors > M.Bound)
      Wrong.push_back(
          "the mean is " +
          (std::isfinite(M.Errors)
               ? formatNumber(M.Errors, 3) + " standard errors off, where " +
                     formatNumber(M.Bound, 3) + " may be chance"
               : "another one, of a sample that did not vary"));
  if (K > 0 && Before.Deviation > 0 && Now.Deviation > 0 &&
      std::fabs(Now.Deviation - Before.Deviation) > Allowed)
    if (const Apart D = deviationsApart(Before, Now, K); D.Errors > D.Bound)
      Wrong.push_back("it scatters " +
                      formatNumber(Now.Deviation / Before.Deviation, 3) +
                      " times as much, " + formatNumber(D.Errors, 3) +
                      " standard errors off, where " +
                      formatNumber(D.Bound, 3) + " may be chance");
  if (P > 0 && !Points.empty()) {
    const KolmogorovSmirnov KS =
        kolmogorovSmirnov(Points, size_t(Before.Count), Seen.Sample, Allowed);
    if (KS.P < P) {
      Wrong.push_back("its distribution is another one, by the "
                      "Kolmogorov-Smirnov test: D = " +
                      formatNumber(KS.D, 3) + ", p = " +
                      formatNumber(KS.P, 2));
      F.First = "the two part most at " + figure(KS.At, Unit);
    }
  }
  if (Wrong.empty())
    return;
  F.Is = GoldenFinding::Outcome::Failed;
  F.What = join(Wrong, "; ");
  F.Next = "look at answers of both runs side by side; a change of sampling "
           "settings shows in items of settings, one of the model in those of "
           "log probabilities";
}

void checkShares(const GoldenItem &Locked, const Observation &Seen,
                 GoldenFinding &F) {
  const double Before = *Locked.number("count");
  const double Now = Seen.Item.number("count").value_or(0);
  const double K = Locked.tolerance("k"), Atol = Locked.tolerance("atol");
  std::map<std::string, std::pair<double, double>> Shares;
  for (const auto &[Word, Text] : Locked.find("shares")->Map)
    Shares[Word].first = parseNumber(Text).value_or(0);
  for (const auto &[Word, Text] : Seen.Item.find("shares")->Map)
    Shares[Word].second = parseNumber(Text).value_or(0);
  double Worst = 0;
  for (const auto &[Word, Pair] : Shares) {
    const auto [A, B] = Pair;
    const double Pooled = (A * Before + B * Now) / (Before + Now);
    const double Error =
        std::sqrt(Pooled * (1 - Pooled) * (1 / Before + 1 / Now));
    // Shares move in steps of one request.
    const double Step = (1 / Before + 1 / Now) / 2;
    const double Off = std::fabs(B - A);
    // Of two that mirror each other the one that grew says more.
    const bool Larger = Off > Worst + 1e-4 || (Off > Worst - 1e-4 && B > A);
    if (Off <= K * Error + Step + Atol || !Larger)
      continue;
    Worst = Off;
    F.Is = GoldenFinding::Outcome::Failed;
    F.What = "'" + Word + "' is " + formatNumber(B * 100, 3) +
             " % instead of " +
             formatNumber(A * 100, 3) + " %, " +
             formatNumber(Error > 0 ? Off / Error : 0, 3) +
             " standard errors off";
    F.Expected = formatNumber(A * 100, 3) + " % of " +
                 formatCount(int64_t(Before));
    F.Found = formatNumber(B * 100, 3) + " % of " + formatCount(int64_t(Now));
    F.Next = "answers that end for another reason: see max_tokens, stop "
             "tokens and the end-of-sequence id of the model folder";
  }
}

void checkLevel(const GoldenItem &Locked, const Observation &Seen,
                GoldenFinding &F) {
  const GoldenItem &New = Seen.Item;
  const StringRef Unit = Locked.text("unit");
  const double Before = *Locked.number("value");
  const double Now = New.number("value").value_or(std::nan(""));
  const bool Lower = Locked.text("better") == "lower";
  const auto Interval = [&](const GoldenItem &I) {
    return figure(I.number("value").value_or(std::nan("")), Unit) + ", " +
           formatNumber(I.number("low").value_or(std::nan(""))) + " to " +
           formatNumber(I.number("high").value_or(std::nan("")));
  };
  F.Expected = Interval(Locked);
  F.Found = Interval(New);
  if (!std::isfinite(Now)) {
    F.Is = GoldenFinding::Outcome::Failed;
    F.What = "it is " + formatNumber(Now) + " at the end";
    F.Next = "find the first step that is not finite: culprit diagnose";
    return;
  }
  const double Worse = Lower ? Now - Before : Before - Now;
  // The sides that face each other.
  const bool Up = Now > Before;
  const double Own = Up ? *Locked.number("high") - Before
                        : Before - *Locked.number("low");
  const double Other = Up ? Now - New.number("low").value_or(Now)
                          : New.number("high").value_or(Now) - Now;
  // Three standard errors, where 95 % intervals have 1.96: a check that runs
  // each day must not fail by chance each month.
  const double Noise =
      3 / 1.96 * std::hypot(std::max(0.0, Own), std::max(0.0, Other));
  const double Tolerance = Locked.tolerance("rtol") * std::fabs(Before) +
                           Locked.tolerance("atol");
  const double Digits = 5e-6 * std::fabs(Before); // a lock has six
  if (Locked.Kind == GoldenKind::Exact) {
    // To the digits that a lock has.
    if (formatNumber(Now, 6) == formatNumber(Before, 6))
      return;
    F.What = "it is " + figure(Now, Unit) + relative(Before, Now) + ", not " +
             figure(Before, Unit);
  } else {
    const double Off =
        Locked.Kind == GoldenKind::Regression ? Worse : std::fabs(Worse);
    if (!(Off > Tolerance + Noise + Digits))
      return;
    F.What = (Worse > 0 ? "it is worse by " : "it is better by ") +
             figure(std::fabs(Worse), Unit) + relative(Before, Now) +
             ", where " + formatNumber(Tolerance + Noise, 3) +
             " is allowed: " + formatNumber(Tolerance, 3) + " by the "
             "tolerance and " + formatNumber(Noise, 3) + " for noise";
  }
  F.Is = GoldenFinding::Outcome::Failed;
  const StringRef Id = Locked.Id;
  F.Next = Id.ends_with("/accuracy") || Id.ends_with("/error-share")
               ? "culprit diagnose on the run says what its wrong or failed "
                 "requests have in common"
           : Id.starts_with("latency/")
               ? "run culprit diagnose on both sides' logs; where the machine "
                 "is a slower one, accept the item there"
               : "run culprit compare on both runs: it says where they part "
                 "and what was changed";
}

} // namespace culprit
