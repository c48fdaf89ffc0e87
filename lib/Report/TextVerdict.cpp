//===- TextVerdict.cpp - What a diagnosis comes to --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Where no cause is certain: the layer that stands out, the cause that no entry
// knows, and the sentence of a run without a cause.
//
//===----------------------------------------------------------------------===//

#include "KB/TextWrap.h"
#include "Report/TextHypothesis.h"
#include "Report/TextParts.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace llvm;

namespace culprit {

/// From this probability that no entry has the cause, the report says so.
static constexpr double UnknownToldFrom = 0.2;

void printLayers(raw_ostream &OS, const RunReport &R, unsigned Width) {
  const Diagnosis &D = R.Result;
  // One cause that is likely enough says its layer itself.
  const bool Alone = D.Hypotheses.size() == 1 && D.Leads.empty();
  if (D.Result != Verdict::Uncertain || Alone)
    return;
  std::vector<std::string> Parts;
  unsigned Suspected = 0;
  for (const LayerShare &L : D.Layers) {
    Suspected += L.Probability >= SuspectedFrom;
    if (L.Probability >= 0.05)
      Parts.push_back(L.Layer + " " + percentText(L.Probability));
  }
  if (Parts.empty())
    return;
  std::string Line = "no cause stands out; by layer of what is suspected: " +
                     join(Parts, ", ");
  if (Suspected > ManyLayers)
    Line += ". More than three layers fit: take parts out first (fixed "
            "batch, one device, plain kernels) and see with which the "
            "symptom goes";
  printWrapped(OS, Line, "layer  ", "       ", Width);
  OS << '\n';
}

void printUnknownCause(raw_ostream &OS, const RunReport &R, unsigned Width) {
  if (R.Result.Unknown < UnknownToldFrom ||
      R.Result.Result != Verdict::Uncertain)
    return;
  printWrapped(OS,
               "a cause that no entry knows: " +
                   percentText(R.Result.Unknown) + "; " +
                   (R.Result.Hypotheses.empty()
                        ? "what was seen fits no cause that has one"
                        : "what was seen fits the causes above only in part"),
               " ?  ", "    ", Width);
  OS << '\n';
}

/// What recorded runs say for it that nothing is wrong.
static std::string soundText(const RunReport &R) {
  if (R.Result.Sound.value_or(0) < 0.5)
    return "";
  return "; of recorded runs that look like this one " +
         percentText(*R.Result.Sound) + " were sound";
}

static bool anyPresent(const RunReport &R) {
  return llvm::any_of(R.Symptoms, [](const SymptomEvidence &S) {
    return S.State == Presence::Present && !S.Informational;
  });
}

static bool anyFailed(const RunReport &R) {
  return llvm::any_of(R.Outcomes, [](const Outcome &O) {
    return O.Kind == OutcomeKind::Failed;
  });
}

void printNothingFound(raw_ostream &OS, const RunReport &R, unsigned Width) {
  size_t Clear = 0;
  for (const SymptomEvidence &S : R.Symptoms)
    Clear += S.State == Presence::Absent;
  const uint64_t Alone = linesAlone(R.Evidence);
  switch (R.Result.Result) {
  case Verdict::Healthy:
    printWrapped(OS,
                 formatv("healthy as far as these files can show: {0} "
                         "checked, none a sign of a fault",
                         plural(Clear, "symptom"))
                     .str(),
                 "", "", Width);
    break;
  case Verdict::Insufficient:
    printWrapped(OS,
                 anyFailed(R) ? "insufficient: detectors failed (below), and "
                                "the others found nothing to decide on"
                 : Alone ? formatv("insufficient: {0}, and no metric found "
                                   "in them",
                                   plural(Alone, "log line"))
                               .str()
                 : Clear ? formatv("insufficient: {0} checked, none a sign "
                                   "of a fault, but not all of the input "
                                   "could be read as it stands (see the "
                                   "warnings)",
                                   plural(Clear, "symptom"))
                               .str()
                         : "insufficient: these files hold nothing that "
                           "a detector can decide on",
                 "", "", Width);
    break;
  default:
    printWrapped(OS,
                 (!anyPresent(R)
                      ? "uncertain: no symptom of a known fault was seen, but "
                        "the curves are those of runs with other faults"
                  : R.Result.Rest.Symptoms.empty()
                      ? "uncertain: symptoms were seen, but no known cause "
                        "explains them well enough to name it"
                      : "uncertain: the run shows that something is wrong, "
                        "and not why") +
                     soundText(R),
                 "", "", Width);
  }
  OS << '\n';
}

} // namespace culprit
