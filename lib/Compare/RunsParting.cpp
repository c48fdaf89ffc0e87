//===- RunsParting.cpp ------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Compare/RunsParting.h"
#include "Support/Units.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>

using namespace llvm;

namespace culprit {

bool Meeting::differsAt(int64_t At) const {
  const std::optional<size_t> I = A->find(At), J = B->find(At);
  return I && J && !equalValues(A->Values[*I], B->Values[*J], OfA, OfB);
}

const Meeting *Parting::find(StringRef Name) const {
  auto It = find_if(All, [&](const Meeting &M) { return M.Name == Name; });
  return It == All.end() ? nullptr : &*It;
}

std::optional<bool> Parting::differs(StringRef Name) const {
  const Meeting *M = find(Name);
  if (!M || !M->loggedAt(Step))
    return std::nullopt;
  return M->differsAt(Step);
}

std::optional<std::string> Parting::resumed() const {
  for (const auto &[R, Which] : {std::pair(&A, "A"), std::pair(&B, "B")}) {
    for (int64_t At : R->Resumes)
      if (At <= Step && Step - At <= 1)
        return formatv("{0} was taken up again at step {1}", Which, At).str();
    for (int64_t At : R->Pauses)
      if (At <= Step && Step - At <= 1)
        return formatv("{0} stood still before step {1}, as it does over a "
                       "restart",
                       Which, At)
            .str();
  }
  const auto InA = A.steps(), InB = B.steps();
  if (InA && InB && Step <= FirstCommon + 1) {
    if (InA->first + 1 < InB->first && InB->first == FirstCommon)
      return formatv("B begins at step {0}, in the middle of A",
                     InB->first)
          .str();
    if (InB->first + 1 < InA->first && InA->first == FirstCommon)
      return formatv("A begins at step {0}, in the middle of B",
                     InA->first)
          .str();
  }
  return std::nullopt;
}

/// Share of the batches of the one run that the other one has too, over the
/// steps that both logged.
static double sharedBatches(const ScalarSeries &A, const ScalarSeries &B) {
  std::multiset<double> InA;
  size_t Count = 0, Shared = 0;
  for (size_t I = 0; I != A.size(); ++I)
    if (B.find(A.Steps[I]) && !std::isnan(A.Values[I]))
      InA.insert(A.Values[I]);
  for (size_t J = 0; J != B.size(); ++J) {
    if (!A.find(B.Steps[J]))
      continue;
    ++Count;
    if (std::isnan(B.Values[J]))
      continue;
    if (auto It = InA.find(B.Values[J]); It != InA.end()) {
      InA.erase(It);
      ++Shared;
    }
  }
  return Count ? double(Shared) / double(Count) : 0;
}

/// Kind and sentence of a difference after a resume.
static void sayResume(const Parting &P, StringRef Where,
                      FirstDifference &Out) {
  Out.Kind = "resume";
  std::string What;
  if (P.differs("lr").value_or(false))
    What = "the learning rate differs: the scheduler was not restored";
  else if (P.differs("batch_hash").value_or(false))
    What = "the batch differs: the position in the data, or the generator "
           "that shuffles it, was not restored";
  else if (P.Phases.count(MetricPhase::Forward))
    What = P.differs("batch_hash")
               ? "the batch is the same and the loss is not: weights, or the "
                 "generator of dropout, were not restored"
               : "the loss differs: weights, the generators or the position in "
                 "the data were not restored; log batch_hash to tell which";
  else
    What = "the loss is the same and what follows is not: the optimizer's "
           "state was not restored";
  Out.Says = formatv("{0}, and from there the runs differ; {1}", Where, What);
}

/// At the first step of both: what they began with.
static void sayStart(const Parting &P, FirstDifference &Out) {
  const std::optional<bool> Batch = P.differs("batch_hash");
  const std::optional<bool> Weights = P.differs("weight_norm");
  const bool Loss = P.Phases.count(MetricPhase::Forward) != 0;
  const ScalarSeries *InA = P.A.series("tokens"), *InB = P.B.series("tokens");
  if (InA && InB && InA->find(P.Step) && InB->find(P.Step)) {
    const double OfA = InA->Values[*InA->find(P.Step)];
    const double OfB = InB->Values[*InB->find(P.Step)];
    if (OfA != OfB) {
      Out.Kind = "data";
      Out.Says = formatv("the first step has {0} tokens in A and {1} in B: "
                         "another batch size or context",
                         formatNumber(OfA, 9), formatNumber(OfB, 9));
      return;
    }
  }
  if (Batch && *Batch) {
    const Meeting *Hash = P.find("batch_hash");
    const double Shared = sharedBatches(*Hash->A, *Hash->B);
    Out.Kind = Shared >= 0.9 ? "data-order" : "data";
    Out.Says = formatv(
        "the first batch is another one: {0}",
        Shared >= 0.9 ? "the same batches come in another order (shuffle: the "
                        "seed of the sampler, or files listed in no order)"
        : Shared <= 0.1
            ? "no batch of the one run occurs in the other (other data, other "
              "batch size, or rows shuffled across batches)"
            : formatv("{0:f0} % of the batches occur in both", 100 * Shared)
                  .str());
    if (Weights && !*Weights)
      Out.Says += "; the weights' norm is the same, so initialisation is";
    return;
  }
  if (!Loss && P.Phases.count(MetricPhase::Schedule)) {
    Out.Kind = "schedule";
    Out.Says = "the first loss is the same; the learning rate or batch size "
               "differs from the first step on";
    return;
  }
  if (!Loss && Out.StaysSmall) {
    Out.Kind = "kernel";
    Out.Says = "the first loss is the same, and all that differs stays as "
               "small as rounding: another order of additions, kernel or "
               "library";
    return;
  }
  if (!Loss && P.Phases.count(MetricPhase::Backward)) {
    Out.Kind = "gradient";
    Out.Says = "the loss of the first step is the same and its gradient is "
               "not: the backward pass (atomic additions, order of a "
               "reduction, another kernel)";
    return;
  }
  if (!Loss) {
    Out.Kind = "update";
    Out.Says = "loss and gradient of the first step are the same and the "
               "update is not: optimizer, learning rate or weight decay";
    return;
  }
  if (Out.Rounding) {
    Out.Kind = "kernel";
    Out.Says = Batch ? "the batch is the same, and the first loss differs as "
                       "rounding makes it: another kernel, library, device or "
                       "order of additions in the forward pass"
                     : "the first loss differs as rounding makes it, so data "
                       "and initialisation are the same: another kernel, "
                       "library, device or order of additions";
    return;
  }
  if (Batch && Weights && !*Weights) {
    Out.Kind = "forward";
    Out.Says = "batch and weights' norm are the same and the first loss is "
               "not: the forward pass differs (code, dropout's generator, "
               "what the loss counts)";
    return;
  }
  if (Batch) {
    Out.Kind = "init";
    Out.Says = "the first batch is the same and its loss is not: "
               "initialisation (its seed), or the model";
    return;
  }
  Out.Kind = "start";
  Out.Says = "the first loss differs by more than rounding: initialisation, "
             "the first batch or the model; log batch_hash to tell which";
}

/// After steps that were equal.
static void sayLater(const Parting &P, FirstDifference &Out) {
  if (P.only(MetricPhase::Evaluation)) {
    Out.Kind = "evaluation";
    Out.Says = "only the evaluation differs, training does not: evaluation "
               "set, its sampling, or what evaluation does to the model";
    return;
  }
  if (P.differs("batch_hash").value_or(false)) {
    const Meeting *Hash = P.find("batch_hash");
    Out.Kind = sharedBatches(*Hash->A, *Hash->B) >= 0.9 ? "data-order" : "data";
    Out.Says = "the batch is another one from here on, after equal ones: "
               "workers that deliver in no order, a new epoch's shuffle, or "
               "the data";
    return;
  }
  if (P.differs("lr").value_or(false) &&
      (P.only(MetricPhase::Schedule) ||
       !P.Phases.count(MetricPhase::Forward))) {
    Out.Kind = "schedule";
    Out.Says = "the learning rate differs from here on, after equal steps";
    return;
  }
  const bool Loss = P.Phases.count(MetricPhase::Forward) != 0;
  if (Out.StaysSmall) {
    Out.Kind = "kernel";
    Out.Says = "all that differs stays as small as rounding: a sum whose order "
               "varies, another kernel or library";
    return;
  }
  const Meeting *GradNorm = P.find("grad_norm");
  const bool Grad = GradNorm && GradNorm->loggedAt(P.FirstCommon);
  if (Out.LastEqual == P.FirstCommon && Loss) {
    Out.Kind = "update";
    Out.Says = formatv(
        "the first loss is the same and the second is not: the first update "
        "differs ({0})",
        Grad ? "the gradient's norm is the same: optimizer, learning rate, "
               "weight decay, or a gradient whose norm hides it"
             : "gradients or optimizer; log grad_norm to tell which");
    if (!P.differs("batch_hash"))
      Out.Says += ", or the second batch is another one";
    return;
  }
  if (!Loss && P.Phases.count(MetricPhase::Backward)) {
    Out.Kind = "gradient";
    Out.Says = "after equal steps the loss is the same and the gradient is "
               "not: the backward pass (atomic additions, order of a "
               "reduction)";
    return;
  }
  if (!Loss && P.Phases.count(MetricPhase::Update)) {
    Out.Kind = "update";
    Out.Says = "after equal steps loss and gradient are the same and the "
               "update is not: optimizer or its settings";
    return;
  }
  Out.Kind = "sudden";
  Out.Says = "the runs are equal up to here";
  if (Out.Rounding)
    Out.Says += " and part by rounding: a sum whose order varies (atomic "
                "additions, all-reduce), only sometimes with effect";
  else
    Out.Says += " and then are not: the batch, an event at that step (an "
                "evaluation that draws random numbers, a checkpoint, a skipped "
                "step) or a change in the code that acts only then";
}

void sayParting(const Parting &P, FirstDifference &Out) {
  if (std::optional<std::string> Where = P.resumed())
    sayResume(P, *Where, Out);
  else if (P.Step == P.FirstCommon)
    sayStart(P, Out);
  else
    sayLater(P, Out);
}

} // namespace culprit
