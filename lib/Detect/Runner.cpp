//===- Runner.cpp -----------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Detect/Runner.h"
#include "Detect/Options.h"
#include "Detect/Watchdog.h"
#include "llvm/ADT/STLExtras.h"
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

/// The outcome of \p D, which does not come back.
static Outcome hung(const Detector &D, const Limits &Bounds) {
  Outcome Out;
  Out.Detector = D.id();
  Out.Symptoms = D.info().Symptoms;
  Out.Kind = OutcomeKind::Failed;
  Out.Error = hangs(D.info().File, Bounds,
                    "this is a fault of culprit, not of the detector; leave "
                    "it out with --only '*,-" +
                        D.id() + "' and report it with the case");
  return Out;
}

Outcome runDetectorWatched(const Detector &D, std::shared_ptr<const Case> C,
                           std::vector<Scalar> Options, const Limits &Bounds) {
  WatchedJobs Job;
  Job.Count = 1;
  Job.Limit = hangsAfter(Bounds);
  Job.Do = [&D, C = std::move(C), Options = std::move(Options),
            Bounds](size_t) { return runDetector(D, *C, Options, Bounds); };
  Job.GiveUp = [&D, Bounds](size_t) { return hung(D, Bounds); };
  return std::move(runWatched(std::move(Job), 1).front());
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

  auto Shared = std::make_shared<const std::vector<Job>>(std::move(*Jobs));
  WatchedJobs Watched;
  Watched.Count = Shared->size();
  Watched.Limit = hangsAfter(Settings.Bounds);
  Watched.Do = [Shared, &C, Bounds = Settings.Bounds](size_t I) {
    const Job &J = (*Shared)[I];
    return runDetector(*J.What, C, J.Options, Bounds);
  };
  Watched.GiveUp = [Shared, Bounds = Settings.Bounds](size_t I) {
    return hung(*(*Shared)[I].What, Bounds);
  };
  std::vector<Outcome> Outcomes = runWatched(
      std::move(Watched),
      Settings.Threads ? Settings.Threads : std::thread::hardware_concurrency());

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

} // namespace culprit
