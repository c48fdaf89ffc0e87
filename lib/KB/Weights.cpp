//===- Weights.cpp ----------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/Weights.h"
#include "Support/Error.h"
#include "Support/Glob.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/ErrorHandling.h"
#include <utility>

using namespace llvm;

namespace culprit {

double SearchWeights::kind(Term::Kind K) const {
  switch (K) {
  case Term::Kind::Plain:
    return Rank.word;
  case Term::Kind::Identifier:
    return Rank.identifier;
  case Term::Kind::Number:
    return Rank.number;
  case Term::Kind::Concept:
    return Rank.alias;
  case Term::Kind::Pair:
    return Rank.pair;
  }
  llvm_unreachable("unknown kind");
}

Error SearchWeights::set(StringRef Text) {
  std::vector<std::pair<std::string, double *>> Known;
  for (unsigned F = 0; F < NumFields; ++F)
    Known.push_back({Fields[F].Name.str(), &Field[F]});
#define KB_WEIGHT(Name, Value) Known.push_back({#Name, &Rank.Name});
#include "KB/Weights.def"

  SmallVector<StringRef, 16> Items;
  Text.split(Items, ',', -1, false);
  for (StringRef Item : Items) {
    auto [Name, Value] = Item.split('=');
    double *Place = nullptr;
    std::vector<std::string> Names;
    for (auto &[Other, At] : Known) {
      if (Name.trim() == Other)
        Place = At;
      Names.push_back(Other);
    }
    if (!Place) {
      std::string Close = closestName(Name.trim(), Names);
      return failure("there is no weight '" + Name.trim() + "'",
                     Close.empty() ? "docs/search.md names them all"
                                   : "did you mean '" + Close + "'?");
    }
    double Number;
    if (Value.trim().getAsDouble(Number) || !(Number >= 0 && Number <= 1000))
      return failure("weight '" + Name.trim() + "': '" + Value.trim() +
                         "' is no number from 0 to 1000",
                     "write it as " + Name.trim() + "=1.5");
    *Place = Number;
  }
  return Error::success();
}

} // namespace culprit
