//===- LossNames.cpp --------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/LossNames.h"
#include "Readers/LogPlace.h"
#include "Readers/ScalarNames.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace culprit {

/// The words of \p Key in small letters: of "Train/myLoss" train and myloss.
static SmallVector<std::string, 8> wordsOfKey(StringRef Key) {
  SmallVector<std::string, 8> Out;
  while (!Key.empty()) {
    Key = Key.drop_until([](char C) { return isAlnum(C); });
    StringRef Word = Key.take_while([](char C) { return isAlnum(C); });
    Key = Key.drop_front(Word.size());
    if (!Word.empty())
      Out.push_back(Word.lower());
  }
  return Out;
}

static bool has(ArrayRef<std::string> Words, ArrayRef<StringRef> Any) {
  return any_of(Words, [&](const std::string &Word) {
    return is_contained(Any, StringRef(Word));
  });
}

/// \p Words without those that name a set.
static std::string plain(ArrayRef<std::string> Words) {
  std::string Out;
  for (const std::string &Word : Words)
    if (std::optional<StringRef> Set = setNamedIn(Word); !Set)
      Out += Word + " ";
  return Out;
}

/// Whether \p Words name the whole of what is minimised, and no part of it.
static bool namesLoss(ArrayRef<std::string> Words) {
  const bool Loss = any_of(Words, [](const std::string &Word) {
    return StringRef(Word).ends_with("loss");
  });
  return (Loss || (Words.size() <= 2 && has(Words, {"cost"}))) &&
         !has(Words, {"scale", "scaler", "aux", "auxiliary", "reg",
                      "regularization", "kl", "commit", "commitment", "best",
                      "min", "weight", "std", "balance", "balancing"});
}

LossNames lossNames(ArrayRef<std::string> Keys) {
  LossNames Out;
  SmallVector<StringRef, 8> Found, Totals;
  for (StringRef Key : Keys) {
    if (fieldKind(Key) != FieldKind::Scalar)
      continue;
    const ScalarName Name = scalarName(Key);
    if (Name.Known && StringRef(Name.Metric).ends_with("loss") &&
        !StringRef(Name.Metric).starts_with("val_"))
      return Out;
    const auto Words = wordsOfKey(Key);
    std::optional<StringRef> Set = setNamedIn(Key);
    if (Name.Known || !namesLoss(Words) || (Set && !Set->empty()))
      continue;
    Found.push_back(Key);
    if (has(Words, {"total", "overall", "all", "sum", "full"}))
      Totals.push_back(Key);
  }
  if (Totals.size() == 1)
    Found = Totals;
  if (Found.size() != 1)
    return Out;
  Out.Training = Found[0].str();
  const std::string Plain = plain(wordsOfKey(Found[0]));
  for (StringRef Key : Keys)
    if (setNamedIn(Key) == StringRef("val/") && plain(wordsOfKey(Key)) == Plain)
      Out.HeldOut = Key.str();
  return Out;
}

} // namespace culprit
