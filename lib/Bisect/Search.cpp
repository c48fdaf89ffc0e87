//===- Search.cpp -----------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Bisect/Search.h"
#include <map>

using namespace llvm;

namespace culprit {

unsigned testsFor(size_t Count) {
  unsigned Out = 0;
  while (Out < 64 && (size_t(1) << Out) < Count)
    ++Out;
  return Out;
}

namespace {

/// Asks each once.
class Asked {
public:
  Asked(function_ref<Expected<bool>(size_t)> IsBad) : IsBad(IsBad) {}

  Expected<bool> operator()(size_t I) {
    if (auto It = Known.find(I); It != Known.end())
      return It->second;
    Expected<bool> Bad = IsBad(I);
    if (Bad)
      Known[I] = *Bad;
    return Bad;
  }
  const std::map<size_t, bool> &known() const { return Known; }

private:
  function_ref<Expected<bool>(size_t)> IsBad;
  std::map<size_t, bool> Known;
};

} // namespace

/// The first bad one up to \p Bad, which is bad.
static Expected<size_t> bisect(size_t Bad, Asked &Ask) {
  size_t Low = 0;
  while (Low < Bad) {
    const size_t Middle = Low + (Bad - Low) / 2;
    Expected<bool> Here = Ask(Middle);
    if (!Here)
      return Here.takeError();
    if (*Here)
      Bad = Middle;
    else
      Low = Middle + 1;
  }
  return Bad;
}

static void conclude(const Asked &Ask, FirstBadSearch &Out) {
  Out.Tests = Ask.known().size();
  for (const auto &[I, Bad] : Ask.known())
    if (Bad && (!Out.First || I < *Out.First))
      Out.First = I;
  for (const auto &[I, Bad] : Ask.known())
    if (!Bad && Out.First && I > *Out.First && !Out.GoodAfter)
      Out.GoodAfter = I;
}

Expected<FirstBadSearch>
findFirstBad(size_t Count, function_ref<Expected<bool>(size_t)> IsBad,
             bool Every) {
  FirstBadSearch Out;
  Asked Ask(IsBad);
  if (Count == 0)
    return Out;
  if (Every) {
    for (size_t I = 0; I != Count; ++I)
      if (Expected<bool> Bad = Ask(I); !Bad)
        return Bad.takeError();
    conclude(Ask, Out);
    return Out;
  }
  // Where the last one is good, one in between may still be bad.
  std::optional<size_t> Bad;
  for (size_t I : {Count - 1, Count / 2, Count / 4, 3 * Count / 4, size_t(0)}) {
    Expected<bool> Here = Ask(I);
    if (!Here)
      return Here.takeError();
    if (*Here) {
      Bad = I;
      break;
    }
  }
  while (Bad) {
    Expected<size_t> First = bisect(*Bad, Ask);
    if (!First)
      return First.takeError();
    // Samples before it, which must be good, and after it, which must be bad.
    Bad.reset();
    for (size_t I : {size_t(0), *First / 2, *First / 4, *First + 1,
                     *First + (Count - 1 - *First) / 2}) {
      if (I == *First || I >= Count)
        continue;
      Expected<bool> Here = Ask(I);
      if (!Here)
        return Here.takeError();
      if (*Here && I < *First) {
        Bad = I;
        break;
      }
    }
  }
  conclude(Ask, Out);
  return Out;
}

} // namespace culprit
