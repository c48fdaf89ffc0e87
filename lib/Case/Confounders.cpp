//===- Confounders.cpp - What else may explain a difference -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Case/SettingChanges.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace culprit {

std::string Confounders::text() const {
  std::string Out;
  const auto Add = [&](StringRef What, const std::vector<std::string> &List) {
    if (!List.empty())
      Out += (Out.empty() ? "" : "; ") + What.str() + ": " + join(List, ", ");
  };
  Add("differ", Differ);
  Add("equal", Equal);
  Add("not recorded", Unknown);
  return Out;
}

Confounders confoundersOf(const Settings &A, const Settings &B,
                          const Settings &PackagesA, const Settings &PackagesB,
                          ArrayRef<SettingChange> Changes) {
  struct Usual {
    StringLiteral Name, Kind;
  };
  static constexpr Usual List[] = {
      {"seed", "seed"},           {"token count", "tokens"},
      {"learning rate", "lr"},    {"batch", "batch-size"},
      {"data", "data"},           {"tokenizer", "tokenizer"},
      {"evaluation set", "eval"}, {"hardware", "hardware"}};
  const auto Has = [](const Settings &S, StringRef Kind) {
    return any_of(S, [&](const auto &Each) {
      return aboutKey(Each.first).Kind == Kind && !Each.second.isUnset();
    });
  };
  Confounders Out;
  for (const Usual &U : List) {
    const bool Differs = any_of(Changes, [&](const SettingChange &C) {
      return C.Facts.Kind == U.Kind && C.effect() == KeyEffect::Results;
    });
    auto &Into = Differs ? Out.Differ
                 : Has(A, U.Kind) && Has(B, U.Kind) ? Out.Equal
                                                    : Out.Unknown;
    Into.push_back(U.Name.str());
  }
  const bool Software = any_of(Changes, [](const SettingChange &C) {
    return C.Facts.Kind == "software" && C.effect() == KeyEffect::Results;
  });
  auto &Into = Software ? Out.Differ
               : !PackagesA.empty() && !PackagesB.empty() ? Out.Equal
                                                          : Out.Unknown;
  Into.push_back("packages");
  return Out;
}

} // namespace culprit
