//===- Knowledge.cpp --------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Knowledge.h"
#include "Commands.h"
#include "llvm/Support/FileSystem.h"

using namespace llvm;

namespace culprit {

Expected<Vocabulary> openVocabulary() {
  Expected<std::string> Home = homeFolder();
  if (!Home)
    return Home.takeError();
  return Vocabulary::load(*Home + "/kb");
}

Expected<KnowledgeBase> openKnowledge(ArrayRef<std::string> More) {
  Expected<Vocabulary> V = openVocabulary();
  if (!V)
    return V.takeError();
  std::vector<std::string> Paths(More.begin(), More.end());
  std::string Home = cantFail(homeFolder());
  std::string Store = Home + "/kb.sqlite";
  Paths.push_back(sys::fs::exists(Store) ? Store : Home + "/kb");
  return KnowledgeBase::open(Paths, std::move(*V));
}

} // namespace culprit
