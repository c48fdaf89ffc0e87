//===- Runner.cpp -----------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Detect/Runner.h"
#include "Detect/Options.h"
#include "Support/Parallel.h"
#include "Support/Units.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"
#include <algorithm>
#include <thread>

using namespace llvm;

namespace culprit {

Outcome runDetector(const Detector &D, const Case &C, ArrayRef<Scalar> Options,
                    const Limits &Bounds) {
  auto Begin = std::chrono::steady_clock::now();
  Outcome Out;
  Out.Detector = D.id();
  Out.Symptoms = D.info().Symptoms;
  Out.Missing = missingFrom(C, D.info().Needs);
  if (!Out.Missing.empty())
    Out.Kind = OutcomeKind::Skipped;
  else
    D.run(C, Options, Bounds, Out);
  applyCaptureGate(C, D.info().Relies, Out);
  withholdClearOfThinRecord(C, D.info().Needs, Out);
  Out.ElapsedNs = std::chrono::duration_cast<std::chrono::nanoseconds>(
                      std::chrono::steady_clock::now() - Begin)
                      .count();
  return Out;
}

namespace {
/// A detector that was selected, with the values of its options.
struct Job {
  const Detector *What;
  std::vector<Scalar> Options;
};
} // namespace

/// The detectors that \p Settings select.
static Expected<std::vector<Job>> select(const DetectorSet &Set,
                                         const GlobList *Only,
                                         const RunSettings &Settings) {
  for (const std::string &Text : Settings.Options) {
    Expected<OptionSetting> Setting = parseOptionSetting(Text);
    if (!Setting)
      return Setting.takeError();
    // A setting for a detector that did not load is not the user's mistake.
    if (llvm::any_of(Set.broken(), [&](const BrokenDetector &B) {
          return B.Id == Setting->Detector;
        }))
      continue;
    if (Expected<const Detector *> D = Set.get(Setting->Detector); !D)
      return D.takeError();
  }
  std::vector<Job> Jobs;
  for (const std::unique_ptr<Detector> &D : Set.all()) {
    // Options of detectors left out are checked too: a typing error there is
    // still one.
    Expected<std::vector<Scalar>> Values =
        optionValues(D->info(), Settings.Options);
    if (!Values)
      return Values.takeError();
    if (!Only || Only->contains(D->id()))
      Jobs.push_back({D.get(), std::move(*Values)});
  }
  return Jobs;
}

Expected<std::vector<Outcome>> runDetectors(const DetectorSet &Set,
                                            const Case &C,
                                            const RunSettings &Settings) {
  std::optional<GlobList> Only;
  if (!Settings.Only.empty())
    Only.emplace(Settings.Only);
  Expected<std::vector<Job>> Jobs =
      select(Set, Only ? &*Only : nullptr, Settings);
  if (!Jobs)
    return Jobs.takeError();

  std::vector<Outcome> Outcomes(Jobs->size());
  const unsigned Threads =
      Settings.Threads ? Settings.Threads : std::thread::hardware_concurrency();
  // This thread works too, so that one detector or one thread starts none.
  inParallel(Jobs->size(), Threads, [&](size_t I) {
    Outcomes[I] =
        runDetector(*(*Jobs)[I].What, C, (*Jobs)[I].Options, Settings.Bounds);
  });

  for (const BrokenDetector &B : Set.broken()) {
    if (Only && !Only->contains(B.Id))
      continue;
    Outcome Failed;
    Failed.Detector = B.Id;
    Failed.Kind = OutcomeKind::Failed;
    Failed.Error = B.Error;
    Outcomes.push_back(std::move(Failed));
  }
  if (Outcomes.empty() && Only) {
    std::string Close = closestName(Settings.Only, Set.ids());
    return failure("no detector matches '" + Settings.Only + "'",
                   Close.empty() ? "`culprit list` names all of them"
                                 : "did you mean '" + Close + "'?");
  }
  llvm::sort(Outcomes, [](const Outcome &A, const Outcome &B) {
    return A.Detector < B.Detector;
  });
  return Outcomes;
}

std::string timingTable(ArrayRef<Outcome> Outcomes) {
  std::vector<const Outcome *> Rows;
  int64_t Total = 0;
  size_t Width = 8;
  for (const Outcome &O : Outcomes) {
    Rows.push_back(&O);
    Total += O.ElapsedNs;
    Width = std::max(Width, O.Detector.size());
  }
  llvm::stable_sort(Rows, [](const Outcome *A, const Outcome *B) {
    return A->ElapsedNs > B->ElapsedNs;
  });
  std::string Out;
  raw_string_ostream OS(Out);
  auto Line = [&](StringRef Name, StringRef Kind, StringRef Time,
                  StringRef Share, StringRef Memory) {
    OS << left_justify(Name, Width) << "  " << left_justify(Kind, 7) << "  "
       << right_justify(Time, 8) << "  " << right_justify(Share, 6) << "  "
       << right_justify(Memory, 8) << '\n';
  };
  Line("detector", "outcome", "time", "share", "memory");
  for (const Outcome *O : Rows) {
    double Share = Total ? 100.0 * static_cast<double>(O->ElapsedNs) /
                               static_cast<double>(Total)
                         : 0;
    Line(O->Detector, toString(O->Kind), formatDuration(O->ElapsedNs),
         formatv("{0:f1} %", Share).str(),
         O->PeakBytes ? formatBytes(static_cast<double>(O->PeakBytes)) : "-");
  }
  Line("total", "", formatDuration(Total), "", "");
  return Out;
}

} // namespace culprit
