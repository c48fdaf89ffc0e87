//===- Recordings.cpp -------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Rank/Recordings.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <cmath>

using namespace llvm;

namespace culprit {

/// Enough to order checks by; thousands of sets share the rest.
static constexpr size_t MostSets = 512;

/// The table of "tensors.value|input"; of scalars, which every run has some of,
/// with the first column: "scalars.layer".
static StringRef tableOf(StringRef Need) {
  StringRef Name = Need.take_front(Need.find_first_of(" ,|"));
  return Name.starts_with("scalars.") ? Name : Name.split('.').first;
}

Recordings::Recordings(const Model &M, const Beliefs &B,
                       const Vocabulary &Words, const Weights &W)
    : M(M), Words(Words), W(W), Likely(B.likeliest(MostSets)),
      Open(entropyOf(Likely)), Tables(M.N.Symptoms.size()),
      OfSymptom(M.N.Symptoms.size(), -1) {
  NoneKnown = 1 - B.anyOf([&](unsigned C) {
    return static_cast<int>(C) != M.N.Unknown;
  });
  for (unsigned S = 0; S != Tables.size(); ++S) {
    const SymptomEvidence *E = M.evidence(S);
    if (!E || E->State != Presence::Unknown ||
        !llvm::all_of(E->Missing,
                      [&](StringRef Need) {
                        return W.priceOf(Need).has_value();
                      }))
      continue;
    for (StringRef Need : E->Missing)
      Tables[S].push_back(tableOf(Need).str());
    llvm::sort(Tables[S]);
    Tables[S].erase(llvm::unique(Tables[S]), Tables[S].end());
  }
}

double Recordings::ofSymptom(unsigned Symptom) {
  double &Out = OfSymptom[Symptom];
  if (Out < 0)
    Out = informationOf(M.N, Likely, Symptom);
  return Out;
}

double Recordings::gain(unsigned Symptom, StringRef Layer) {
  auto [It, New] = Known.try_emplace({Tables[Symptom], Layer.str()});
  if (New)
    It->second = sumOf(Tables[Symptom], Layer);
  return It->second;
}

double Recordings::minutes(unsigned Symptom) const {
  double Most = 0;
  for (StringRef Table : Tables[Symptom])
    Most = std::max(Most, W.minutesToRecord(Table));
  return Most;
}

/// Each symptom alone takes a share of what is not known of the causes that are
/// in question, and together they leave what all of them leave. As far as none
/// of these causes may be it, what is told of any other of the layer counts.
double Recordings::sumOf(const TableSet &Recorded, StringRef Layer) {
  std::vector<bool> Decided(Tables.size());
  double Left = 1;
  for (unsigned S = 0; S != Tables.size(); ++S) {
    Decided[S] = !Tables[S].empty() &&
                 std::includes(Recorded.begin(), Recorded.end(),
                               Tables[S].begin(), Tables[S].end());
    if (Decided[S] && Open > 0)
      Left *= 1 - std::min(1.0, ofSymptom(S) / Open);
  }
  return Open * (1 - Left) + NoneKnown * toldElsewhere(Decided, Layer);
}

/// Of each cause that is not in question and not ruled out, what is told by the
/// one symptom of \p Decided that tells most of it; at most which one it is.
double Recordings::toldElsewhere(const std::vector<bool> &Decided,
                                 StringRef Layer) const {
  double Sum = 0;
  unsigned Count = 0;
  for (unsigned C = 0; C != M.N.Causes.size(); ++C) {
    const CauseNode &Cause = M.N.Causes[C];
    if (layerOf(Cause.Class, Words) != Layer ||
        is_contained(Likely.Candidates, C) ||
        llvm::any_of(Cause.Links, [&](const Link &L) {
          return L.Required && M.Seen[L.Symptom].State == Presence::Absent;
        }))
      continue;
    double Most = 0;
    for (const Link &L : Cause.Links) {
      if (!Decided[L.Symptom] || L.Never)
        continue;
      double Leak = M.N.Symptoms[L.Symptom].Leak;
      double IfSo = 1 - (1 - Leak) * (1 - L.Weight);
      Most = std::max(Most, informationOf(Cause.Prior, IfSo, Leak));
    }
    Sum += Most;
    Count += Most > 0;
  }
  return std::min(Sum, std::log2(1.0 + Count));
}

} // namespace culprit
