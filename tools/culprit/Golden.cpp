//===- Golden.cpp - culprit golden ------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "Evidence.h"
#include "Golden/Check.h"
#include "Golden/LockFile.h"
#include "Options.h"
#include "Support/Glob.h"
#include "Support/InputFile.h"
#include "Support/Units.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>
#include <map>

using namespace llvm;

namespace culprit {

static cl::SubCommand
    GoldenCommand("golden", "Hold what a good run did in a lock file, and "
                            "check later runs against it");
static cl::list<std::string>
    GoldenWords(cl::Positional, cl::sub(GoldenCommand),
                cl::desc("record PATH... | verify LOCK "
                         "PATH..."));
static cl::opt<std::string>
    GoldenOutput("o", cl::sub(GoldenCommand), cl::init("golden.lock.yaml"),
                 cl::value_desc("FILE"),
                 cl::desc("record: the lock to write (golden.lock.yaml; - for "
                          "standard output)"));
static cl::opt<bool> GoldenForce(
    "force", cl::sub(GoldenCommand),
    cl::desc("record: write over a lock, with what was edited in it"));
static cl::opt<bool>
    Greedy("greedy", cl::sub(GoldenCommand),
           cl::desc("Answers are greedy where no file tells the temperature"));
static cl::list<std::string>
    Accept("accept", cl::sub(GoldenCommand), cl::value_desc("GLOB"),
           cl::desc("verify: take what the run has for these items into the "
                    "lock (repeatable)"));
static cl::opt<OutputFormat, false, ChoiceParser<OutputFormat>> GoldenFormat(
    "format", cl::sub(GoldenCommand), cl::init(OutputFormat::Text),
    cl::value_desc("text|json"), cl::desc("verify: form of the result"),
    cl::values(clEnumValN(OutputFormat::Text, "text", "For people"),
               clEnumValN(OutputFormat::Json, "json", "For programs")));
static cl::opt<unsigned, false, CountParser>
    GoldenJobs("jobs", cl::sub(GoldenCommand), cl::init(0), cl::value_desc("N"),
               cl::desc("Threads (one a core)"));

static Error writeLock(StringRef Path, StringRef Text) {
  if (Error E = writeToOutput(Path, [&](raw_ostream &OS) {
        OS << Text;
        return Error::success();
      }))
    return failure(Path + ": " + toString(std::move(E)),
                   "the lock was not written; check the folder and its "
                   "permissions");
  return Error::success();
}

/// What the run at \p Paths has; none after a message.
/// \p Locked: the items that are looked for.
static std::optional<GoldenRun> observeRun(ArrayRef<std::string> Paths,
                                           ArrayRef<GoldenItem> Locked) {
  if (Error E = checkPaths("golden", Paths)) {
    report(std::move(E));
    return std::nullopt;
  }
  Expected<Case> C = readEvidence(Paths, GoldenJobs);
  if (!C) {
    report(C.takeError());
    return std::nullopt;
  }
  if (!reportUnread(*C))
    return std::nullopt;
  GoldenOptions Options;
  Options.Greedy = Greedy;
  for (const GoldenItem &I : Locked)
    Options.Wanted.insert(I.Id);
  Options.Threads = threadCount(GoldenJobs);
  return observe(*C, Paths, Options);
}

/// "12 exact, 3 regression".
static std::string kindsText(ArrayRef<GoldenItem> Items) {
  std::string Out;
  for (GoldenKind K : {GoldenKind::Exact, GoldenKind::Statistical,
                       GoldenKind::Structural, GoldenKind::Regression})
    if (const auto Count = count_if(
            Items, [K](const GoldenItem &I) { return I.Kind == K; }))
      Out += (Out.empty() ? "" : ", ") + formatCount(Count) + " " +
             toString(K).str();
  return Out;
}

static int record(ArrayRef<std::string> Paths) {
  if (Paths.empty())
    return report(failure("golden record: nothing to read",
                          "give files or folders of a run that is known to "
                          "be good: culprit golden record RUN -o "
                          "golden.lock.yaml"));
  if (!Accept.empty())
    return report(failure("golden record: --accept is for verify"));
  if (GoldenOutput != "-" && !GoldenForce && sys::fs::exists(GoldenOutput))
    return report(failure(GoldenOutput + ": is there already",
                          "to renew values and keep what was edited: culprit "
                          "golden verify " + GoldenOutput + " PATH... "
                          "--accept='*'; to begin anew: --force"));
  std::optional<GoldenRun> Run = observeRun(Paths, {});
  if (!Run)
    return ExitBadUse;
  std::vector<GoldenItem> Items;
  for (Observation &O : Run->Items) {
    if (O.Item.Of == GoldenSubject::Level &&
        !std::isfinite(O.Item.number("value").value_or(0))) {
      Run->Notes.push_back(O.Item.Id + " is not finite, which is nothing to "
                                       "hold");
      continue;
    }
    Items.push_back(std::move(O.Item));
  }
  for (const std::string &Note : Run->Notes)
    report(Diagnostic{Severity::Note, Note, ""});
  if (Items.empty())
    return report(failure("golden record: the run has nothing to hold",
                          "what can be held: answers, token ids, latencies, "
                          "tensors, metrics, settings, API responses; "
                          "'culprit inspect' lists what was read"));
  if (Error E = writeLock(GoldenOutput, lockText(Items)))
    return report(std::move(E));
  if (GoldenOutput != "-")
    outs() << GoldenOutput << ": " << formatCount(int64_t(Items.size()))
           << (Items.size() == 1 ? " item: " : " items: ") << kindsText(Items)
           << "\nreview it, commit it, and let CI run: culprit golden verify "
           << GoldenOutput << " PATH...\n";
  return ExitDone;
}

/// Takes the items that --accept names from \p Run into the lock. \p Text is
/// its new text.
static Error acceptItems(const GoldenReport &Report,
                         ArrayRef<GoldenItem> Locked, const GoldenRun &Run,
                         std::string &Text,
                         std::vector<std::string> &Accepted) {
  std::map<StringRef, const GoldenItem *> Old;
  for (const GoldenItem &I : Locked)
    Old[I.Id] = &I;
  std::map<StringRef, const Observation *> Seen;
  for (const Observation &O : Run.Items)
    Seen[O.Item.Id] = &O;
  std::vector<GoldenItem> Renewed;
  std::vector<std::string> Dropped;
  std::vector<bool> Used(Accept.size(), false);
  for (const GoldenFinding &F : Report.Findings) {
    bool Chosen = false;
    for (size_t I = 0; I != Accept.size(); ++I)
      if (globMatch(Accept[I], F.Id))
        Chosen = Used[I] = true;
    if (!Chosen || (F.Is == GoldenFinding::Outcome::Holds && F.Added.empty()))
      continue;
    Accepted.push_back(F.Id);
    if (F.Is == GoldenFinding::Outcome::Missing) {
      Dropped.push_back(F.Id);
      continue;
    }
    auto It = Old.find(F.Id);
    Renewed.push_back(
        acceptedItem(It == Old.end() ? nullptr : It->second, *Seen[F.Id]));
  }
  std::vector<std::string> Ids;
  for (const GoldenFinding &F : Report.Findings)
    Ids.push_back(F.Id);
  for (size_t I = 0; I != Accept.size(); ++I)
    if (!Used[I]) {
      const std::string Close = closestName(Accept[I], Ids);
      return failure("--accept: no item is called '" + Accept[I] + "'",
                     Close.empty() ? Twine("ids are those that verify prints; "
                                           "* stands for any text")
                                   : "did you mean '" + Close + "'?");
    }
  llvm::sort(Renewed, [](const GoldenItem &A, const GoldenItem &B) {
    return A.Id < B.Id;
  });
  Text = splicedLock(Text, Locked, Renewed, Dropped);
  return Error::success();
}

static int verify(ArrayRef<std::string> Arguments) {
  if (Arguments.size() < 2)
    return report(failure(Arguments.empty() ? "golden verify: no lock named"
                                            : "golden verify: no run to check",
                          "the lock first, then the files of the run: culprit "
                          "golden verify golden.lock.yaml RUN"));
  const std::string &Path = Arguments[0];
  if (sys::fs::is_directory(Path))
    return report(failure(Path + ": is a folder, not a lock",
                          "the lock first, then the files of the run: culprit "
                          "golden verify golden.lock.yaml RUN"));
  Expected<std::unique_ptr<InputFile>> File = InputFile::open(Path);
  if (!File)
    return report(File.takeError());
  Expected<StringRef> Contents = (*File)->contents();
  if (!Contents)
    return report(Contents.takeError());
  std::string Text = Contents->str();
  Expected<std::vector<GoldenItem>> Locked = readLock(Text, Path);
  if (!Locked)
    return report(Locked.takeError());
  std::optional<GoldenRun> Run = observeRun(Arguments.drop_front(), *Locked);
  if (!Run)
    return ExitBadUse;
  GoldenReport Report = checkGolden(*Locked, *Run);
  if (!Accept.empty()) {
    std::vector<std::string> Accepted;
    if (Error E = acceptItems(Report, *Locked, *Run, Text, Accepted))
      return report(std::move(E));
    if (!Accepted.empty()) {
      if ((*File)->compression() != Compression::None)
        return report(failure(Path + ": is compressed and cannot be renewed",
                              "unpack it first"));
      Locked = readLock(Text, Path);
      if (!Locked)
        return report(Locked.takeError());
      if (Error E = writeLock(Path, Text))
        return report(std::move(E));
      Report = checkGolden(*Locked, *Run);
      Report.Accepted = std::move(Accepted);
    }
  }
  Report.Lock = Path;
  if (GoldenFormat == OutputFormat::Json)
    outs() << formatv("{0:2}", goldenJson(Report)) << '\n';
  else
    printGolden(outs(), Report, outputWidth());
  return Report.holds() ? ExitDone : ExitRefused;
}

int runGolden() {
  const StringRef Verb =
      GoldenWords.empty() ? StringRef() : StringRef(GoldenWords[0]);
  const std::vector<std::string> Rest(
      GoldenWords.begin() + (GoldenWords.empty() ? 0 : 1), GoldenWords.end());
  if (Verb == "record")
    return record(Rest);
  if (Verb == "verify")
    return verify(Rest);
  return report(failure(Verb.empty() ? "golden: say what to do"
                                     : "golden: there is no '" + Verb + "'",
                        "culprit golden record PATH... writes a lock, culprit "
                        "golden verify LOCK PATH... checks a run"));
}

} // namespace culprit
