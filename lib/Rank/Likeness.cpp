//===- Likeness.cpp ---------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Rank/Likeness.h"
#include "Case/RunShape.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>
#include <cmath>
#include <map>

using namespace llvm;

namespace culprit {

/// What neither side can say by itself: that the other need not be asked.
static constexpr double LeastOfNetwork = 0.01, LeastOfRuns = 0.003,
                        MostOfEither = 0.99;

/// Names of the runs without a fault and of those whose fault is in no entry.
static constexpr StringLiteral Sound = "healthy";

Likeness::Likeness(const Model &M, ArrayRef<SymptomEvidence> Symptoms,
                   const ShapeFigures &Shape, const Weights &W)
    : M(M), W(W), Symptoms(Symptoms), Shape(Shape) {
  // A loss that is 0, negative or no number from the start goes nowhere: trees
  // grow on curves alone (scripts/benchmark/boosting.py).
  if (!W.Recorded || !Shape.count("loss_end"))
    return;
  // The medians that stand for missing figures are those of runs of any kind: a
  // log of four losses would look like what is most common among them. Of the
  // recorded runs each has a sixth.
  constexpr double LeastKnown = 1.0 / 6;
  if (W.Recorded->known(Shape) < LeastKnown)
    return;
  Answers = W.Recorded->answersOf(Symptoms, Shape);
  Shares = W.Recorded->shares(Answers);
  ArrayRef<std::string> Classes = W.Recorded->classes();
  for (unsigned I = 0; I != Classes.size(); ++I)
    if (Classes[I] != Sound && Classes[I] != UnknownClass)
      Likeliest.push_back(I);
  llvm::stable_sort(Likeliest, [this](unsigned X, unsigned Y) {
    return Shares[X] > Shares[Y];
  });
  Likeliest.resize(std::min<size_t>(Likeliest.size(), 2));
  ShownBy.resize(M.N.Symptoms.size());
  for (unsigned C = 0; C != M.N.Causes.size(); ++C)
    if (static_cast<int>(C) != M.N.Unknown)
      for (const Link &L : M.N.Causes[C].Links)
        ShownBy[L.Symptom] += isTypical(L);
}

std::optional<double> Likeness::sound() const {
  std::optional<unsigned> Place;
  if (counts())
    Place = W.Recorded->placeOf(Sound);
  return Place ? std::optional(Shares[*Place]) : std::nullopt;
}

/// Whether something is there that no recorded run tells of, and that speaks
/// for \p Cause by itself.
bool Likeness::isNews(unsigned Cause) const {
  return llvm::any_of(M.N.Causes[Cause].Links, [&](const Link &L) {
    StringRef Id = M.N.Symptoms[L.Symptom].Id;
    return !L.Never && M.isPresent(L.Symptom) && !isPossession(Id) &&
           !W.isGeneric(Id) && !W.Recorded->asksAbout(Id);
  });
}

/// Whether something is there that \p Cause alone shows more often than not.
bool Likeness::isProved(unsigned Cause) const {
  return llvm::any_of(M.N.Causes[Cause].Links, [&](const Link &L) {
    return isTypical(L) && ShownBy[L.Symptom] == 1 && isSure(L.Symptom);
  });
}

/// Whether something is there that \p Cause never shows.
bool Likeness::isRefuted(unsigned Cause) const {
  return llvm::any_of(M.N.Causes[Cause].Links, [&](const Link &L) {
    return L.Never && isSure(L.Symptom);
  });
}

bool Likeness::isTypical(const Link &L) const {
  return !L.Never && L.Weight >= W.Decisive.Weight;
}

/// Whether \p Symptom is there, as surely and as seldom without a cause of it
/// as what decides has to be.
bool Likeness::isSure(unsigned Symptom) const {
  return M.isPresent(Symptom) &&
         M.Seen[Symptom].Score >= W.Decisive.Score &&
         M.N.Symptoms[Symptom].Leak <= W.Decisive.Leak;
}

bool Likeness::stands(unsigned Cause, double Own, double Blended) const {
  // What decides goes before what is merely not on record.
  if (isProved(Cause))
    return Own >= Blended;
  if (isRefuted(Cause))
    return Own <= Blended;
  return Own >= Blended && isNews(Cause);
}

bool Likeness::isWordOfNetwork(unsigned Cause, double Network) const {
  if (!counts())
    return true;
  const double Own = W.calibrated(Network); // 0 stays 0
  return stands(Cause, Own, blended(Cause, Own));
}

double Likeness::shareOf(unsigned Cause) const {
  StringRef Class = static_cast<int>(Cause) == M.N.Unknown
                        ? StringRef(UnknownClass)
                        : StringRef(M.N.Causes[Cause].Class);
  std::optional<unsigned> Place = W.Recorded->placeOf(Class);
  return Place ? Shares[*Place] : unknown();
}

double Likeness::unknown() const {
  if (!counts())
    return 0;
  std::optional<unsigned> Place = W.Recorded->placeOf(UnknownClass);
  return Place ? Shares[*Place] : 0;
}

double Likeness::none() const { return unknown() + sound().value_or(0); }

std::optional<unsigned> Likeness::rivalOf(unsigned Cause) const {
  for (unsigned Place : Likeliest)
    if (W.Recorded->classes()[Place] != M.N.Causes[Cause].Class)
      return Place;
  return std::nullopt;
}

const Weights::Blend &Likeness::weights(unsigned Cause) const {
  bool Recorded = static_cast<int>(Cause) != M.N.Unknown &&
                  W.Recorded->placeOf(M.N.Causes[Cause].Class);
  return Recorded ? W.OfRecorded : W.OfOthers;
}

double Likeness::ofRuns(unsigned Cause) const {
  const Weights::Blend &B = weights(Cause);
  auto weighed = [](double Weight, double Share) {
    return Weight * logOddsOf(std::clamp(Share, LeastOfRuns, MostOfEither));
  };
  std::optional<unsigned> Rival = rivalOf(Cause);
  return weighed(B.Runs, shareOf(Cause)) + weighed(B.None, none()) +
         weighed(B.Rival, Rival ? Shares[*Rival] : 0);
}

double Likeness::blended(unsigned Cause, double Own) const {
  const Weights::Blend &B = weights(Cause);
  return probabilityOf(
      B.Network * logOddsOf(std::clamp(Own, LeastOfNetwork, MostOfEither)) +
      ofRuns(Cause) + B.Offset);
}

double Likeness::added(unsigned Cause, double Network) const {
  return isWordOfNetwork(Cause, Network) ? 0 : ofRuns(Cause);
}

double Likeness::probability(unsigned Cause, double Network) const {
  const double Own = W.calibrated(Network);
  if (!counts())
    return Scale * Own;
  const double Blended = blended(Cause, Own);
  return Scale * (stands(Cause, Own, Blended) ? Own : Blended);
}

void Likeness::settle(const Beliefs &B) {
  if (!counts())
    return;
  std::map<unsigned, double> Network; // what no symptom speaks for has 0
  for (unsigned C : causes())
    Network[C] = 0;
  for (const CausePosterior &P : B.Causes)
    if (static_cast<int>(P.Cause) != M.N.Unknown)
      Network[P.Cause] = P.Probability;
  double Sum = 0, Most = 0;
  for (auto [Cause, P] : Network) {
    double Now = probability(Cause, P);
    Sum += Now;
    Most = std::max(Most, Now);
  }
  if (Most < 0.5 && Sum > 1)
    Scale = 1 / Sum;
}

double Likeness::moved(const Beliefs &B, unsigned Cause, double After) const {
  double Now = W.calibrated(After);
  auto Known = llvm::find_if(
      B.Causes, [&](const CausePosterior &P) { return P.Cause == Cause; });
  if (Known == B.Causes.end() || isWordOfNetwork(Cause, Known->Probability))
    return Now;
  auto logOdds = [](double P) {
    return logOddsOf(std::clamp(P, 1e-9, 1 - 1e-9));
  };
  double LogOdds = logOdds(probability(Cause, Known->Probability)) +
                   logOdds(Now) - logOdds(W.calibrated(Known->Probability));
  return probabilityOf(LogOdds);
}

std::vector<unsigned> Likeness::causes() const {
  std::vector<unsigned> Out;
  if (!counts())
    return Out;
  for (unsigned C = 0; C != M.N.Causes.size(); ++C) {
    std::optional<unsigned> Place = W.Recorded->placeOf(M.N.Causes[C].Class);
    if (static_cast<int>(C) == M.N.Unknown || !Place ||
        Shares[*Place] < LeastOfRuns)
      continue;
    if (llvm::none_of(M.N.Causes[C].Links, [&](const Link &L) {
          return L.Required && M.Seen[L.Symptom].State == Presence::Absent;
        }))
      Out.push_back(C);
  }
  return Out;
}

/// "update-large", "no update-large", "loss at the end over the first one (0.3)"
/// (of a figure what it says and its value); empty of what nobody looked for or
/// logged.
std::string Likeness::textOf(const RecordedRuns::Reason &R) const {
  const std::string &Name = R.Asked->Name;
  if (!R.Asked->OfShape) {
    if (R.Answer > 0)
      return Name;
    bool Looked = llvm::any_of(Symptoms, [&](const SymptomEvidence &S) {
      return S.Symptom == Name && S.State == Presence::Absent;
    });
    return Looked ? "no " + Name : "";
  }
  if (!Shape.count(Name))
    return "";
  return shapeText(Name, R.Answer);
}

EvidenceItem Likeness::item(unsigned Cause, double Network) const {
  constexpr size_t MostTold = 3;
  constexpr double WorthTelling = 0.02, WorthNaming = 0.1;
  EvidenceItem I;
  I.Symptom = RecordedRunsItem;
  I.Detector = "kb/recorded-runs";
  I.Own = I.LogOdds = added(Cause, Network);
  std::optional<unsigned> Place =
      W.Recorded->placeOf(M.N.Causes[Cause].Class);
  auto percent = [](double Share) {
    return formatv("{0:F0} %", Share * 100).str();
  };
  std::string Text =
      Place ? "of recorded runs that look like this one " +
                  percent(Shares[*Place]) + " had it"
            : "no recorded run had it; of those that look like this one " +
                  percent(shareOf(Cause)) + " had a fault that no entry knows";
  if (std::optional<double> Well = sound())
    Text += ", " + percent(*Well) + " were sound";
  if (Place && unknown() >= WorthNaming)
    Text += ", " + percent(unknown()) + " had a fault that no entry knows";
  if (std::optional<unsigned> Rival = rivalOf(Cause);
      Place && Rival && Shares[*Rival] >= WorthNaming)
    Text += ", " + percent(Shares[*Rival]) + " had " +
            W.Recorded->classes()[*Rival];
  std::vector<std::string> Why;
  if (Place)
    for (const RecordedRuns::Reason &R :
         W.Recorded->reasons(Answers, *Place, Shares[*Place])) {
      if (Why.size() == MostTold || std::fabs(R.Share) < WorthTelling)
        break; // the others have less
      if (std::string Of = textOf(R); !Of.empty())
        Why.push_back(Of + formatv(" {0}{1:F0}", R.Share > 0 ? "+" : "-",
                                   std::fabs(R.Share) * 100)
                               .str());
    }
  if (!Why.empty())
    Text += "; what makes the share, in points: " + join(Why, "; ");
  I.Message = Text;
  return I;
}

} // namespace culprit
