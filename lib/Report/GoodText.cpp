//===- GoodText.cpp ---------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Report/GoodText.h"
#include "KB/TextWrap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>
#include <map>

using namespace llvm;
using json::Array;
using json::Object;
using json::Value;

namespace culprit {

namespace {
/// A line of the part: a label, and what it says.
struct Line {
  std::string Label, Kind, Text;
};
} // namespace

static std::string pathsOf(const GoodReport &G) {
  std::vector<std::string> Out;
  for (const GoodReport::Given &R : G.Runs)
    if (R.Unused.empty())
      Out.push_back(R.Path);
  return join(Out, " ");
}

static void addChanges(const GoodReport &G, std::vector<Line> &Out) {
  std::map<std::string, size_t> Count, Shown;
  for (const GoodReport::Change &C : G.Changes)
    ++Count[C.Kind];
  for (const GoodReport::Change &C : G.Changes) {
    const size_t N = ++Shown[C.Kind];
    if (N <= MostChangesShown)
      Out.push_back({"changed", C.Kind, C.Says});
    else if (N == MostChangesShown + 1)
      Out.push_back({"changed", C.Kind,
                     formatv("and {0} more: --format json has all",
                             Count[C.Kind] - MostChangesShown)});
  }
  if (G.Changes.empty())
    Out.push_back({"changed", "", "nothing of what could be compared"});
}

static void addSymptoms(const GoodReport &G, std::vector<Line> &Out) {
  std::vector<std::string> Shared;
  for (const SymptomBeside &B : G.Symptoms)
    if (B.How == SymptomBeside::Shared)
      Shared.push_back(B.Symptom);
  if (!Shared.empty())
    Out.push_back({"left out", "",
                   join(Shared, ", ") + ": the good run shows " +
                       (Shared.size() == 1 ? "it" : "them") + " as well"});
}

/// All that is said, in order.
static std::vector<Line> linesOf(const GoodReport &G) {
  std::vector<Line> Out;
  if (!pathsOf(G).empty()) {
    addChanges(G, Out);
    if (!G.Same.empty())
      Out.push_back({"same", "", join(G.Same, "; ")});
    addSymptoms(G, Out);
    for (const std::string &R : G.Remarks)
      Out.push_back({"note", "", R});
  }
  for (const GoodReport::Given &R : G.Runs)
    if (!R.Unused.empty())
      Out.push_back({"note", "", R.Path + " is not used: " + R.Unused});
  return Out;
}

void printGood(raw_ostream &OS, const GoodReport &G, unsigned Width) {
  const std::string Paths = pathsOf(G);
  OS << "against the good run" << (Paths.empty() ? "" : " " + Paths)
     << (Paths.empty() ? ": none could be used" : "") << "\n\n";
  std::string Before;
  for (const Line &L : linesOf(G)) {
    const bool Again = L.Label == Before;
    std::string First =
        formatv("    {0,-9}", Again ? StringRef() : StringRef(L.Label));
    if (!L.Kind.empty())
      First += formatv("{0,-12} ", L.Kind);
    printWrapped(OS, L.Text, First, std::string(First.size(), ' '), Width);
    Before = L.Label;
  }
  OS << '\n';
}

/// Text where `_`, `*` and `<` would be markup.
static std::string escapedMarkdown(StringRef Text) {
  std::string Out;
  for (char C : Text) {
    if (StringRef("\\`*_<>|[]#").contains(C))
      Out += '\\';
    Out += C == '\n' ? ' ' : C;
  }
  return Out;
}

void printGoodMarkdown(raw_ostream &OS, const GoodReport &G) {
  OS << "\n## Against the good run " << escapedMarkdown(pathsOf(G)) << "\n\n";
  for (const Line &L : linesOf(G))
    OS << "- " << L.Label << (L.Kind.empty() ? "" : ", " + L.Kind) << ": "
       << escapedMarkdown(L.Text) << '\n';
}

void printGoodHtml(raw_ostream &OS, const GoodReport &G) {
  auto print = [&](StringRef Text) { printHTMLEscaped(Text, OS); };
  OS << "<h2>Against the good run ";
  print(pathsOf(G));
  OS << "</h2>\n<ul>\n";
  for (const Line &L : linesOf(G)) {
    OS << "<li>" << L.Label << (L.Kind.empty() ? "" : ", " + L.Kind) << ": ";
    print(L.Text);
    OS << "</li>\n";
  }
  OS << "</ul>\n";
}

static Value textOrNull(StringRef Text) {
  return Text.empty() ? Value(nullptr) : Value(json::fixUTF8(Text));
}

static double rounded(double V) { return std::round(V * 1e4) / 1e4; }

static StringRef nameOf(SymptomBeside::Kind K) {
  switch (K) {
  case SymptomBeside::Shared:
    return "as-much";
  case SymptomBeside::Stronger:
    return "less";
  case SymptomBeside::Own:
    return "absent";
  }
  llvm_unreachable("unknown kind");
}

Value goodJson(const GoodReport &G) {
  Array Runs, Changes, Same, Symptoms, Remarks;
  for (const GoodReport::Given &R : G.Runs)
    Runs.push_back(Object{{"path", json::fixUTF8(R.Path)},
                          {"used", R.Unused.empty()},
                          {"why", textOrNull(R.Unused)}});
  for (const GoodReport::Change &C : G.Changes) {
    Object One{{"kind", C.Kind},
               {"name", json::fixUTF8(C.Name)},
               {"good", textOrNull(C.Good)},
               {"bad", textOrNull(C.Bad)},
               {"says", json::fixUTF8(C.Says)},
               {"standing", rounded(C.Standing)}};
    if (C.From) {
      One["from_step"] = *C.From;
      One["stays"] = C.Stays;
    }
    Changes.push_back(std::move(One));
  }
  for (const std::string &S : G.Same)
    Same.push_back(json::fixUTF8(S));
  for (const SymptomBeside &B : G.Symptoms) {
    Object One{{"symptom", B.Symptom},
               {"in_good", nameOf(B.How)},
               {"score", rounded(B.Score)}};
    if (B.How != SymptomBeside::Own) {
      One["good_score"] = rounded(B.GoodScore);
      One["good_path"] = json::fixUTF8(B.Path);
      One["good_message"] = json::fixUTF8(B.Message);
    }
    Symptoms.push_back(std::move(One));
  }
  for (const std::string &R : G.Remarks)
    Remarks.push_back(json::fixUTF8(R));
  return Object{{"runs", std::move(Runs)},
                {"changes", std::move(Changes)},
                {"same", std::move(Same)},
                {"symptoms", std::move(Symptoms)},
                {"remarks", std::move(Remarks)}};
}

} // namespace culprit
