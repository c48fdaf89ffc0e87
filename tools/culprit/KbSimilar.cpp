//===- KbSimilar.cpp - culprit kb similar -----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "KB/Similar.h"
#include "KbVerbs.h"
#include "llvm/Support/FormatVariadic.h"

using namespace llvm;

namespace culprit {

static cl::opt<double, false, ProbabilityParser>
    Least("min", cl::sub(kbCommand()), cl::init(NearDuplicate),
          cl::value_desc("SCORE"),
          cl::desc("similar: pairs from this score on, 0 to 1 (0.5)"));

int kbSimilar(ArrayRef<std::string> Paths) {
  if (Error E = checkFormat("similar", {KbFormat::Text, KbFormat::Json}))
    return report(std::move(E));
  Expected<KbSelection> S = selectEntries(Paths);
  if (!S)
    return report(S.takeError());
  std::vector<SimilarPair> Pairs = similarPairs(S->Entries, Least);
  if (kbOptions().Format == KbFormat::Json)
    outs() << formatv("{0:2}", similarJson(Pairs, S->Entries.size())) << '\n';
  else
    printSimilar(outs(), Pairs, S->Entries.size());
  return ExitDone;
}

} // namespace culprit
