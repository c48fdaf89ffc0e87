//===- Explain.cpp - culprit explain ----------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "Detectors.h"
#include "KB/Search.h"
#include "KB/TextWrap.h"
#include "Knowledge.h"
#include "Support/Glob.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace culprit {

static cl::SubCommand ExplainCommand("explain", "Explain a detector, symptom, "
                                                "class or entry");
static cl::list<std::string> Ids(cl::Positional, cl::sub(ExplainCommand),
                                 cl::desc("ID..."));
static cl::list<std::string>
    Plugins("plugins", cl::sub(ExplainCommand), cl::value_desc("DIR"),
            cl::desc("Also know the detectors of DIR (repeatable)"));
static cl::list<std::string>
    KbPaths("kb", cl::sub(ExplainCommand), cl::value_desc("PATH"),
            cl::desc("Also know the entries of PATH (repeatable)"));

namespace {

/// Everything an id may name.
struct Known {
  KnowledgeBase KB;
  DetectorSet Detectors;
};

} // namespace

static void heading(StringRef Text) { outs() << '\n' << Text << '\n'; }

static void line(StringRef Left, StringRef Text, unsigned Column = 28) {
  std::string First = "  " + Left.str();
  First.append(First.size() + 2 < Column ? Column - First.size() : 2, ' ');
  printWrapped(outs(), Text, First, std::string(Column, ' '), outputWidth());
}

/// "gpu_work (start, stop)" of one need.
static std::string needText(const Need &N) {
  const TableSchema &T = schema(N.Table);
  std::vector<std::string> Parts;
  for (unsigned C : N.Columns)
    Parts.push_back(T.Columns[C].Name.str());
  for (const Need::Condition &Condition : N.Rows) {
    std::vector<std::string> Values;
    for (const Scalar &V : Condition.AnyOf)
      Values.push_back(toString(V));
    Parts.push_back(T.Columns[Condition.Column].Name.str() + " = " +
                    join(Values, " or "));
  }
  if (N.Data)
    Parts.push_back("data");
  return T.Name.str() + (Parts.empty() ? "" : " (" + join(Parts, ", ") + ")");
}

static void explainDetector(const DetectorInfo &I, const Vocabulary &Words) {
  outs() << I.Id << "\n" << I.Summary << '\n';
  for (const DocSection &S : I.Doc) {
    heading(S.Heading);
    printWrapped(outs(), S.Text, "  ", "  ", outputWidth());
  }
  heading("Needs");
  for (const Need &N : I.Needs.All)
    outs() << "  " << needText(N) << '\n';
  for (const auto &Alternatives : I.Needs.AnyOf) {
    std::vector<std::string> Texts;
    for (const Need &N : Alternatives)
      Texts.push_back(needText(N));
    outs() << "  one of: " << join(Texts, "; ") << '\n';
  }
  heading("Symptoms");
  for (const std::string &S : I.Symptoms) {
    const SymptomTerm *Term = Words.symptom(S);
    line(S, Term ? Term->Text : "");
  }
  if (!I.Options.empty()) {
    heading("Options, set by --option " + I.Id + ".NAME=VALUE");
    for (const OptionSpec &O : I.Options)
      line(O.Name + " = " + toString(O.Default), O.Doc);
  }
  outs() << "\nin " << I.File << '\n';
}

static void explainSymptom(const SymptomTerm &S, const Known &K) {
  outs() << S.Id << '\n';
  printWrapped(outs(), S.Text, "", "", outputWidth());
  heading("Detected by");
  for (const auto &D : K.Detectors.all())
    if (is_contained(D->info().Symptoms, S.Id))
      line(D->id(), D->info().Summary);
  heading("A signal of");
  for (const Entry &E : K.KB.entries())
    for (const Signal &Signal : E.Signals)
      if (Signal.Symptom == S.Id)
        line(E.Class + " (" + frequencyName(Signal.How).str() + ")", E.Title,
             40);
}

static void explainClass(const ClassTerm &C, ArrayRef<const Entry *> Entries) {
  outs() << C.Id << " (" << C.Layer << ")\n";
  printWrapped(outs(), C.Definition, "", "", outputWidth());
  for (const Entry *E : Entries) {
    outs() << '\n';
    printEntryText(outs(), *E);
  }
  if (Entries.empty())
    outs() << "\nno entry describes it yet\n";
}

static bool explain(StringRef Id, const Known &K) {
  const Vocabulary &Words = K.KB.vocabulary();
  if (const Detector *D = K.Detectors.find(Id)) {
    explainDetector(D->info(), Words);
    return true;
  }
  if (const SymptomTerm *S = Words.symptom(Id)) {
    explainSymptom(*S, K);
    return true;
  }
  std::vector<const Entry *> Entries = K.KB.find(Id);
  if (const ClassTerm *C = Words.rootCause(Id)) {
    explainClass(*C, Entries);
    return true;
  }
  for (const Entry *E : Entries)
    printEntryText(outs(), *E);
  return !Entries.empty();
}

int runExplain() {
  if (Ids.empty())
    return report(failure("explain: nothing named",
                          "name a detector (gpu/idle), a symptom, a class or "
                          "an entry"));
  Expected<KnowledgeBase> KB = openKnowledge(KbPaths);
  if (!KB)
    return report(KB.takeError());
  Expected<DetectorSet> Detectors = openDetectors(Plugins, KB->vocabulary());
  if (!Detectors)
    return report(Detectors.takeError());
  Known K{std::move(*KB), std::move(*Detectors)};

  int Exit = ExitDone;
  for (const std::string &Id : Ids) {
    if (explain(Id, K))
      continue;
    std::vector<std::string> Names = K.Detectors.ids();
    for (const SymptomTerm &S : K.KB.vocabulary().symptoms())
      Names.push_back(S.Id);
    for (const ClassTerm &C : K.KB.vocabulary().classes())
      Names.push_back(C.Id);
    std::string Close = closestName(Id, Names);
    Exit = report(failure("nothing is called '" + Id + "'",
                          Close.empty()
                              ? "'culprit list detectors', 'list symptoms' and "
                                "'list classes' name what there is"
                              : "did you mean '" + Close + "'?"));
  }
  return Exit;
}

} // namespace culprit
