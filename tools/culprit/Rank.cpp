//===- Rank.cpp - culprit rank ----------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Ranks evidence that was kept, without the files it came from: with other
// weights, another knowledge base, or without the entries of some classes.
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "Knowledge.h"
#include "Options.h"
#include "RankingWeights.h"
#include "Report/SavedReport.h"
#include "Settings.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>

using namespace llvm;

namespace culprit {

static cl::SubCommand RankCommand("rank", "Rank the evidence of saved reports "
                                          "again");
static cl::list<std::string> RankPaths(cl::Positional, cl::sub(RankCommand),
                                       cl::desc("REPORT.json..."));
static cl::list<std::string>
    RankKbPaths("kb", cl::sub(RankCommand), cl::value_desc("PATH"),
                cl::desc("Also use the issues log PATH (repeatable)"));
static cl::opt<std::string>
    WeightsPath("weights", cl::sub(RankCommand), cl::value_desc("FILE"),
                cl::desc("Weights instead of kb/ranking.yaml"));
static cl::opt<std::string>
    FittedPath("fitted", cl::sub(RankCommand), cl::value_desc("FILE|none"),
               cl::desc("Fitted weights instead of kb/fitted.yaml"));
static cl::opt<std::string>
    RecordedPath("recorded", cl::sub(RankCommand), cl::value_desc("FILE|none"),
                 cl::desc("Recorded runs instead of kb/recorded-runs.txt"));
static ConfigOption RankConfig(RankCommand);

static json::Value rounded(double V) { return std::round(V * 1e6) / 1e6; }

/// What to look at next: an experiment on a class, or recording a symptom.
static json::Value nextJson(const std::optional<NextCheck> &N) {
  if (!N)
    return nullptr;
  return json::Object{
      {"class", N->Class},
      {"records", N->Symptom.empty() ? json::Value(nullptr) : N->Symptom},
      {"minutes", N->Minutes}};
}

static json::Array causesJson(ArrayRef<Hypothesis> Causes) {
  json::Array Out;
  for (const Hypothesis &H : Causes)
    Out.push_back(json::Object{{"class", H.Class},
                               {"probability", rounded(H.Probability)}});
  return Out;
}

static json::Value toJson(const SavedReport &R, const Diagnosis &D) {
  json::Array Layers;
  for (const LayerShare &L : D.Layers)
    Layers.push_back(json::Object{{"layer", L.Layer},
                                  {"posterior", rounded(L.Probability)}});
  json::Object Out{{"name", json::fixUTF8(R.Name)},
                   {"verdict", toString(D.Result)},
                   {"unknown", rounded(D.Unknown)},
                   {"hypotheses", causesJson(D.Hypotheses)},
                   {"layers", std::move(Layers)},
                   {"next_check", nextJson(D.Next)}};
  if (!D.Leads.empty())
    Out["leads"] = causesJson(D.Leads);
  return Out;
}

static Diagnosis rank(const SavedReport &R, const KnowledgeBase &KB,
                      const Weights &W, std::vector<Entry> &Kept) {
  ArrayRef<Entry> Entries = KB.entries();
  if (!R.Without.empty()) {
    Kept.clear();
    for (const Entry &E : Entries)
      if (!is_contained(R.Without, E.Class))
        Kept.push_back(E);
    Entries = Kept;
  }
  return diagnose(R.Symptoms, R.logs(Entries), Entries, KB.vocabulary(), W,
                  R.Shape);
}

int runRank() {
  if (RankPaths.empty())
    return report(failure("rank: no report given",
                          "give files that 'culprit diagnose --format json' "
                          "wrote"));
  Expected<const Project *> P = project();
  if (!P)
    return report(P.takeError());
  Expected<KnowledgeBase> KB = openKnowledge(
      std::vector<std::string>(RankKbPaths.begin(), RankKbPaths.end()));
  if (!KB)
    return report(KB.takeError());
  report(KB->remarks());
  Expected<Weights> W = rankingWeights(WeightsPath, FittedPath, RecordedPath);
  if (!W)
    return report(W.takeError());
  int Exit = ExitDone;
  for (const std::string &Path : RankPaths) {
    Expected<std::vector<SavedReport>> Reports = SavedReport::load(Path);
    if (!Reports) {
      Exit = report(Reports.takeError());
      continue;
    }
    for (SavedReport &R : *Reports) {
      if (R.Name.empty())
        R.Name = Path;
      std::vector<Entry> Kept; // what a diagnosis points into
      Diagnosis D = rank(R, *KB, *W, Kept);
      outs() << toJson(R, D) << '\n';
    }
  }
  return Exit;
}

} // namespace culprit
