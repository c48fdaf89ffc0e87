//===- PrintShares.cpp - Why an entry was found -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/Search.h"
#include "KB/TextWrap.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"
#include <cmath>

using namespace llvm;

namespace culprit {

/// `a b` for the pair `a+b`, which is how it stands in a text.
static std::string termText(const TermShare &S) {
  std::string Out = S.Term;
  if (S.Kind == "pair")
    for (char &C : Out)
      C = C == '+' ? ' ' : C;
  return Out;
}

void printShares(raw_ostream &OS, const SearchHit &Hit) {
  OS << formatv("   because    {0:f1} in all\n", Hit.Score);
  for (const TermShare &S : Hit.Shares) {
    if (S.Score < 0.05)
      break; // They are sorted.
    std::string Line = formatv("{0} '{1}'", S.Kind, termText(S)).str();
    if (!S.Said.empty())
      Line += formatv(" (you said '{0}')", S.Said).str();
    if (!S.Clause.empty())
      Line += " where it " + S.Clause.str();
    Line += ":";
    for (auto [Field, Score] : S.Fields)
      Line += formatv(" {0} {1:f1}", Field, Score).str();
    std::string Head = formatv("   {0,7:f1}  ", S.Score).str();
    printWrapped(OS, Line, Head, std::string(Head.size(), ' '), TextWidth);
  }
}

static double rounded(double X) { return std::round(X * 1000) / 1000; }

json::Value sharesJson(const SearchHit &Hit) {
  json::Array Out;
  for (const TermShare &S : Hit.Shares) {
    json::Object Fields;
    for (auto [Field, Score] : S.Fields)
      Fields[Field] = rounded(Score);
    Out.push_back(json::Object{{"term", json::fixUTF8(S.Term)},
                               {"said", json::fixUTF8(S.Said)},
                               {"kind", S.Kind},
                               {"clause", S.Clause},
                               {"score", rounded(S.Score)},
                               {"fields", std::move(Fields)}});
  }
  return Out;
}

} // namespace culprit
