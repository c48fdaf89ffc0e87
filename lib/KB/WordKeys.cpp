//===- WordKeys.cpp ---------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/WordKeys.h"
#include "KB/WordForms.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>

using namespace llvm;

namespace culprit {

uint32_t WordKeys::key(const WordView &W) {
  auto [At, New] = Words[static_cast<size_t>(W.K)].try_emplace(W.Text, None);
  if (!New)
    return At->second;
  std::string Lower = W.Text.lower();
  if (Lower.size() < 2 || isStopWord(Lower))
    return None;
  bool IsName = W.K == Word::Kind::Name;
  auto [Stem, First] =
      Stems.try_emplace(IsName ? stem(Lower) : Lower, Names.size());
  if (First)
    Names.push_back(std::move(Lower));
  return At->second = Stem->second;
}

void WordKeys::add(StringRef Text, std::vector<uint32_t> &Out) {
  Views.clear();
  Memory.Reset();
  lex(Text, Views, Memory);
  for (const WordView &W : Views) {
    if (OnlyNames && W.K != Word::Kind::Name)
      continue;
    uint32_t Key = key(W);
    if (Key != None)
      Out.push_back(Key);
  }
}

std::vector<uint32_t> WordKeys::distinct(StringRef Text) {
  std::vector<uint32_t> Out;
  add(Text, Out);
  llvm::sort(Out);
  Out.erase(std::unique(Out.begin(), Out.end()), Out.end());
  return Out;
}

size_t sharedKeys(ArrayRef<uint32_t> A, ArrayRef<uint32_t> B) {
  size_t Both = 0;
  for (const uint32_t *X = A.begin(), *Y = B.begin();
       X != A.end() && Y != B.end();) {
    Both += *X == *Y;
    bool OfA = *X <= *Y, OfB = *Y <= *X;
    X += OfA;
    Y += OfB;
  }
  return Both;
}

} // namespace culprit
