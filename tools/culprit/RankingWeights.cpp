//===- RankingWeights.cpp ---------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "RankingWeights.h"
#include "Commands.h"
#include "llvm/Support/FileSystem.h"

using namespace llvm;

namespace culprit {

Expected<Weights> rankingWeights(StringRef Path, StringRef Fitted,
                                 StringRef Recorded) {
  std::string Folder = cantFail(homeFolder()) + "/kb/";
  Expected<Weights> W =
      Weights::load(Path.empty() ? Folder + "ranking.yaml" : Path.str());
  if (!W || Fitted == "none")
    return W;
  if (!Fitted.empty() && !sys::fs::exists(Fitted))
    return failure(Fitted + ": there is no such file",
                   "give a file of fitted weights, or 'none'");
  if (Error E = W->loadFitted(Fitted.empty() ? Folder + "fitted.yaml"
                                             : Fitted.str()))
    return E;
  if (Recorded == "none")
    return W;
  if (!Recorded.empty() && !sys::fs::exists(Recorded))
    return failure(Recorded + ": there is no such file",
                   "give a file of recorded runs, or 'none'");
  if (Error E = W->loadRecorded(Recorded.empty()
                                    ? Folder + "recorded-runs.txt"
                                    : Recorded.str()))
    return E;
  return W;
}

} // namespace culprit
