//===- BisectCommits.cpp - Driving git bisect -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// git does the walking and the checking out; this asks it what it takes,
// starts it with our oracle, and says what came out. Nothing of the work tree
// is touched otherwise, and the way back is told.
//
//===----------------------------------------------------------------------===//

#include "Bisect.h"
#include "Bisect/Command.h"
#include "Bisect/Search.h"
#include "Commands.h"
#include "Support/Units.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"

using namespace llvm;

namespace culprit {

/// Fails outside the top of a work tree, and where a bisection is under way:
/// it is somebody's.
static Error checkIdle() {
  Expected<std::string> Inside =
      gitOutput({"rev-parse", "--is-inside-work-tree"});
  if (!Inside)
    return Inside.takeError();
  if (*Inside != "true")
    return failure("bisect: this repository has no work tree here",
                   "commits are checked out into one: use a clone");
  Expected<std::string> Up = gitOutput({"rev-parse", "--show-cdup"});
  if (!Up)
    return Up.takeError();
  if (!Up->empty())
    return failure("bisect: git bisects from the top folder of a work tree "
                   "alone",
                   "change to " + *Up + " first");
  Expected<std::string> Marker =
      gitOutput({"rev-parse", "--git-path", "BISECT_START"});
  if (!Marker)
    return Marker.takeError();
  if (sys::fs::exists(*Marker))
    return failure("bisect: a bisection is under way in this repository",
                   "finish it, or end it with 'git bisect reset'");
  return Error::success();
}

static Error checkRevision(StringRef Option, const std::string &Revision) {
  if (StringRef(Revision).starts_with("-"))
    return failure("bisect: " + Option + ": '" + Revision + "' is no commit");
  Expected<std::string> Commit = gitOutput(
      {"rev-parse", "--verify", "--quiet", Revision + "^{commit}"});
  if (Commit)
    return Error::success();
  consumeError(Commit.takeError());
  return failure("bisect: " + Option + ": '" + Revision +
                     "' is no commit of this repository",
                 "'git log --oneline' lists commits");
}

/// Commits that may be the first bad one.
static Expected<size_t> countCandidates(const std::vector<std::string> &Good,
                                        const std::string &Bad) {
  std::vector<std::string> Arguments = {"rev-list", "--count", Bad, "--not"};
  Arguments.insert(Arguments.end(), Good.begin(), Good.end());
  Expected<std::string> Text = gitOutput(Arguments);
  if (!Text)
    return Text.takeError();
  size_t Count = 0;
  if (StringRef(*Text).getAsInteger(10, Count) || Count == 0)
    return failure("bisect: no commit lies between the good and the bad one",
                   "the bad commit must come after the good one; for a fix "
                   "that is sought, give them the other way round and turn "
                   "the command's answer");
  return Count;
}

/// What git's own log says of how it ended.
static int conclude() {
  Expected<std::string> Log = gitOutput({"bisect", "log"});
  if (!Log)
    return report(Log.takeError());
  std::string First;
  std::vector<std::string> Possible;
  size_t Good = 0, Bad = 0; ///< Tested, beside those given.
  StringRef Rest = *Log;
  while (!Rest.empty()) {
    StringRef Line;
    std::tie(Line, Rest) = Rest.split('\n');
    if (Line.consume_front("# first bad commit: "))
      First = Line.str();
    else if (Line.consume_front("# possible first bad commit: "))
      Possible.push_back(Line.str());
    else if (Line.starts_with("git bisect good "))
      ++Good;
    else if (Line.starts_with("git bisect bad "))
      ++Bad;
  }
  outs() << '\n';
  if (!First.empty())
    outs() << "first bad commit: " << First << '\n';
  else if (!Possible.empty())
    outs() << "the first bad commit is one of " << Possible.size()
           << ", of which some could not be tested:\n  "
           << join(Possible, "\n  ") << '\n';
  else
    outs() << "the bisection did not come to an end\n";
  // Nobody tested the two commits that were given.
  if (!First.empty() && Good + Bad > 1 && (Good == 0 || Bad == 0))
    outs() << "note: every commit that was tested is "
           << (Good ? "good: see that the command fails on the bad one"
                    : "bad: see that the command succeeds on a good one")
           << ", or the answer means nothing\n";
  outs() << "'git bisect log' has every answer; 'git bisect reset' goes back "
            "to where you were\n";
  return First.empty() ? ExitRefused : ExitDone;
}

int runCommits(const std::vector<std::string> &Good, const std::string &Bad,
               const OracleSettings &Settings,
               const std::vector<std::string> &Forwarded) {
  if (Error E = checkIdle())
    return report(std::move(E));
  for (const std::string &Each : Good)
    if (Error E = checkRevision("--good", Each))
      return report(std::move(E));
  if (Error E = checkRevision("--bad", Bad))
    return report(std::move(E));
  Expected<size_t> Count = countCandidates(Good, Bad);
  if (!Count)
    return report(Count.takeError());
  const unsigned Tests = testsFor(*Count);
  outs() << formatv("{0} commit{1} may be the first bad one: at most {2} "
                    "test{3}",
                    formatCount(int64_t(*Count)), *Count == 1 ? "" : "s", Tests,
                    Tests == 1 ? "" : "s");
  if (Settings.Plan.Most > 1)
    outs() << formatv(" of up to {0} runs each", Settings.Plan.Most);
  if (Settings.Plan.isSequential() && Tests > 0)
    outs() << formatv("; with an error rate of {0} a test, all are right with "
                      "a probability of {1} or more",
                      formatNumber(Settings.Plan.ErrorRate, 3),
                      formatNumber(std::max(0.0, 1 - Tests *
                                                       Settings.Plan.ErrorRate),
                                   3));
  outs() << '\n';
  outs().flush();

  std::vector<std::string> Start = {"git", "bisect", "start", Bad};
  Start.insert(Start.end(), Good.begin(), Good.end());
  Start.push_back("--");
  Expected<CommandResult> Started = runCommand(Start);
  if (!Started)
    return report(Started.takeError());
  if (Started->Kind != CommandResult::End::Exited || Started->Status != 0)
    return report(failure("bisect: git could not start",
                          "git says why above; 'git bisect reset' goes back"));
  static int Anchor;
  std::vector<std::string> Run = {"git", "bisect", "run",
                                  sys::fs::getMainExecutable(nullptr, &Anchor),
                                  "bisect", "oracle"};
  Run.insert(Run.end(), Forwarded.begin(), Forwarded.end());
  Run.push_back("--");
  Run.insert(Run.end(), Settings.Command.begin(), Settings.Command.end());
  Expected<CommandResult> Ran = runCommand(Run);
  if (!Ran)
    return report(Ran.takeError());
  return conclude();
}

} // namespace culprit
