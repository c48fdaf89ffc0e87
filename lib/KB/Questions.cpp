//===- Questions.cpp - What separates the hits of a search ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/Lexer.h"
#include "KB/Searcher.h"
#include "KB/WordForms.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <set>

using namespace llvm;

namespace culprit {

/// The stems of \p Text that mean something.
static std::set<std::string> stems(StringRef Text) {
  std::set<std::string> Out;
  for (const Word &W : lex(Text)) {
    std::string Lower = StringRef(W.Text).lower();
    if (!isStopWord(Lower))
      Out.insert(stem(Lower));
  }
  return Out;
}

/// The two conditions of \p Items whose words the other entries name least,
/// in their own order.
static std::string mostTelling(ArrayRef<std::string> Items,
                               const std::set<std::string> &Others) {
  std::vector<std::pair<double, size_t>> Shares;
  for (auto [I, Item] : enumerate(Items)) {
    std::set<std::string> Own = stems(Item);
    double Shared = count_if(
        Own, [&](const std::string &S) { return Others.count(S) != 0; });
    Shares.push_back({Own.empty() ? 1 : Shared / Own.size(), I});
  }
  llvm::sort(Shares);
  if (Shares.size() > 2)
    Shares.resize(2);
  llvm::sort(Shares,
             [](const auto &A, const auto &B) { return A.second < B.second; });
  std::string Out;
  for (auto [Share, I] : Shares)
    Out += (Out.empty() ? "" : ", or ") + Items[I];
  return Out;
}

void addQuestions(std::vector<SearchHit> &Hits) {
  std::vector<std::set<std::string>> Conditions(Hits.size());
  for (auto [I, Hit] : enumerate(Hits))
    for (const auto *List : {&Hit.Found->FailsWhen, &Hit.Found->WorksWhen})
      for (const std::string &Item : *List)
        Conditions[I].merge(stems(Item));
  for (auto [Index, Hit] : enumerate(Hits)) {
    const Entry &E = *Hit.Found;
    std::set<std::string> Others;
    for (size_t I = 0; I < Hits.size(); ++I)
      if (I != Index)
        Others.insert(Conditions[I].begin(), Conditions[I].end());
    std::string Fails = mostTelling(E.FailsWhen, Others);
    std::string Works = mostTelling(E.WorksWhen, Others);
    // The conditions are clauses or names, as people wrote them.
    std::string Text;
    if (!Fails.empty() && !Works.empty())
      Text = "Does it fail when: " + Fails + "; and work when: " + Works + "?";
    else if (!Fails.empty())
      Text = "Does it fail when: " + Fails + "?";
    else if (!Works.empty())
      Text = "Does it work when: " + Works + "?";
    for (StringRef Part :
         {StringRef(E.Confirm.Experiment), StringRef(E.Confirm.Confirms)})
      if (!Part.empty())
        Text += (Text.empty() ? "" : " ") + Part.str();
    Hit.Separates = std::move(Text);
  }
}

} // namespace culprit
