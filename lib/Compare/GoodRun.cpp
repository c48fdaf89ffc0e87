//===- GoodRun.cpp ----------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Compare/GoodRun.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <tuple>

using namespace llvm;

namespace culprit {

/// What may be the reason comes before what it led to.
static constexpr StringLiteral Kinds[] = {"setting", "package", "environment",
                                          "metric",  "log",     "work"};

namespace {
struct Evidence {
  TableId Id;
  const char *Name;
};
} // namespace

static constexpr Evidence Compared[] = {
    {TableId::scalars, "metrics"},   {TableId::log_templates, "log lines"},
    {TableId::gpu_work, "device work"}, {TableId::config, "settings"},
    {TableId::packages, "packages"}, {TableId::tensors, "tensors"},
    {TableId::requests, "requests"}};

static std::string namesOf(ArrayRef<const char *> Names) {
  return Names.empty() ? "nothing of these" : join(Names, ", ");
}

/// Says where the sides recorded other things.
static void addMissing(ArrayRef<ComparedRun> Good, const ComparedRun &Bad,
                       GoodComparison &Into) {
  std::vector<const char *> Lacking, Alone;
  bool Any = false;
  for (const Evidence &E : Compared) {
    const bool InGood = all_of(Good, [&](const ComparedRun &G) {
      return G.Evidence->has(E.Id);
    });
    const bool InBad = Bad.Evidence->has(E.Id);
    Any |= InGood && InBad;
    if (InBad && !InGood)
      Alone.push_back(E.Name);
    if (InGood && !InBad)
      Lacking.push_back(E.Name);
  }
  if (!Any)
    Into.Remarks.push_back("nothing to compare: the good run recorded " +
                           namesOf(Lacking) + ", this one " + namesOf(Alone));
  else if (!Alone.empty())
    Into.Remarks.push_back("the good run recorded no " + join(Alone, ", no "));
}

GoodComparison compareWithGood(ArrayRef<ComparedRun> Good,
                               const ComparedRun &Bad) {
  GoodComparison Out;
  compareGoodSettings(Good, Bad, Out);
  compareGoodMetrics(Good, Bad, Out);
  compareGoodLogs(Good, Bad, Out);
  compareGoodWork(Good, Bad, Out);
  addMissing(Good, Bad, Out);
  auto kind = [](const GoodChange &C) {
    return llvm::find(Kinds, StringRef(C.Kind)) - std::begin(Kinds);
  };
  llvm::stable_sort(Out.Changes, [&](const GoodChange &A, const GoodChange &B) {
    return std::tuple(kind(A), -A.Standing) < std::tuple(kind(B), -B.Standing);
  });
  return Out;
}

} // namespace culprit
