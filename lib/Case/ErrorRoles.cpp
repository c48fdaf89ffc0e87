//===- ErrorRoles.cpp -------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Case/ErrorRoles.h"
#include "Case/ErrorNature.h"
#include "Case/Schema.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include <cmath>
#include <set>

using namespace llvm;

namespace culprit {

/// A stamp of one host may be early by so much against that of another.
static constexpr double ClockSkew = 2;
/// A process that dies prints its traceback after its peers have noticed.
static constexpr double DyingPrint = 60;
/// The same in lines of one log without stamps.
static constexpr int64_t DyingLines = 200;
/// Lines that may follow the traceback that ended a log.
static constexpr int64_t LastWords = 60;

namespace {
struct Event {
  size_t Row;
  TrailPoint At;
  ErrorNature Is;
  StringRef Kind; ///< Signature, or type where there is none.
  ErrorText Text;
  int64_t Rank;
  bool OwnTime, Preset;
  std::pair<size_t, size_t> Ordinal;
  StringRef Role, Aftermath;
};

/// All errors of one run.
class RunErrors {
public:
  RunErrors(std::vector<Event> &Events, const RunTrail &Trail,
            const LogClock &Clock)
      : Events(Events), Trail(Trail), Clock(Clock) {}
  void mark();

private:
  using Failure = MutableArrayRef<Event>;
  void order();
  StringRef aftermath(const Event &E) const;
  void markFailure(Failure F) const;
  void markFollowers(Failure F, const Event &First) const;
  void markDriverNotes(Failure F) const;
  const Event *initiator(Failure F) const;
  bool tooLate(const Event &Sign, const Event &Root) const;
  bool sameFailure(const Event &A, const Event &B) const;

  std::vector<Event> &Events;
  const RunTrail &Trail;
  const LogClock &Clock;
  TrailPoints Reports; ///< Events that speak of another process.
  bool OneLog = true, Timed = true;
};
} // namespace

/// Whether the time at \p P has a year.
static bool hasDate(const TrailPoint &P) {
  return P.Time > 366 * 86400.0; // false for NaN
}

void RunErrors::order() {
  bool Dated = true, Undated = true;
  bool Own = true;
  for (const Event &E : Events) {
    OneLog &= E.At.Source == Events.front().At.Source;
    bool Known = !std::isnan(E.At.Time);
    Timed &= Known;
    Own &= E.OwnTime;
    Dated &= hasDate(E.At);
    Undated &= Known && !hasDate(E.At);
  }
  Timed &= Dated || Undated;
  // In one log lines say as much, unless each error has a stamp of its own.
  if (OneLog && !Own)
    Timed = false;
  llvm::stable_sort(Events, [&](const Event &A, const Event &B) {
    if (Timed && A.At.Time != B.At.Time)
      return A.At.Time < B.At.Time;
    if (A.At.Source == B.At.Source)
      return A.At.Line < B.At.Line;
    return A.Row < B.Row;
  });
}

StringRef RunErrors::aftermath(const Event &E) const {
  if (E.Is == ErrorNature::Advice)
    return "";
  bool Progressed = Trail.progressedAfter(E.At);
  if (Trail.restartedAfter(E.At) || Trail.retriedAfter(E.At))
    return "recovered";
  if (Progressed)
    return "progressed";
  // A warning ends nothing, and a driver's log does not end with the run.
  if (E.Is == ErrorNature::Note || E.Text.fromDriver())
    return "";
  bool LastWord = E.Text.HasFrames &&
                  Clock.lastLine(E.At.Source) - E.At.Line <= LastWords;
  bool Reported = Trail.endedAfter(E.At) || Reports.anyAfter(E.At);
  if (Reported || LastWord || Trail.progressedBefore(E.At))
    return "terminal";
  return "";
}

bool RunErrors::sameFailure(const Event &A, const Event &B) const {
  size_t Steps = std::max(A.Ordinal.first, B.Ordinal.first) -
                 std::min(A.Ordinal.first, B.Ordinal.first);
  return Steps < 2 && A.Ordinal.second == B.Ordinal.second;
}

/// Whether \p Root came too long after \p Sign to be what caused it.
bool RunErrors::tooLate(const Event &Sign, const Event &Root) const {
  bool Timeout = Sign.Kind == "nccl-timeout";
  if (Timed)
    return Root.At.Time - Sign.At.Time > (Timeout ? ClockSkew : DyingPrint);
  return OneLog && Root.At.Line - Sign.At.Line > DyingLines;
}

const Event *RunErrors::initiator(Failure F) const {
  bool Ordered = OneLog || Timed;
  const Event *Root = nullptr, *Sign = nullptr;
  // Rule 9: whoever ended the run says so, and nothing had failed before.
  for (const Event &E : F) {
    if (!Ordered || E.Is == ErrorNature::Root || E.Is == ErrorNature::Sign ||
        E.Is == ErrorNature::Report)
      break;
    if (E.Text.Signature == "terminated" && !E.Preset)
      return &E;
  }
  for (const Event &E : F) {
    if (E.Preset)
      continue;
    if (E.Is == ErrorNature::Root && !Root)
      Root = &E;
    if (E.Is == ErrorNature::Sign && !Sign)
      Sign = &E;
  }
  if (!Root && !Ordered && Sign)
    for (const Event &E : F)
      if (E.Is == ErrorNature::Sign && E.At.Source != Sign->At.Source)
        return nullptr;
  if (!Root)
    return Sign;
  if (Ordered && Sign && tooLate(*Sign, *Root))
    return Sign;
  for (const Event &E : F) {
    if (E.Is != ErrorNature::Root || E.Preset || &E == Root)
      continue;
    if (!Ordered && E.At.Source != Root->At.Source &&
        !explains(Root->Text, E.Text))
      return nullptr;
    bool SameProcess =
        E.At.Source == Root->At.Source && E.Rank == Root->Rank &&
        (!E.Text.fromDriver() || E.Text.Device == Root->Text.Device);
    if (SameProcess && !explains(Root->Text, E.Text))
      return nullptr;
  }
  return Root;
}

void RunErrors::markFollowers(Failure F, const Event &First) const {
  for (Event &E : F) {
    if (&E == &First || !E.Role.empty())
      continue;
    if (E.Text.Signature == "terminated" &&
        First.Text.Signature == "terminated")
      E.Role = "cascade";
    if (E.Is == ErrorNature::Sign || E.Is == ErrorNature::Report ||
        (E.Is == ErrorNature::Root && explains(First.Text, E.Text)))
      E.Role = "cascade";
  }
}

/// Rule 8: what the driver did after an event of the same device.
void RunErrors::markDriverNotes(Failure F) const {
  std::set<std::pair<StringId, StringRef>> Failed; // devices, by log
  for (Event &E : F)
    if (E.Text.isDriverNote()) {
      if (Failed.count({E.At.Source, E.Text.Device}))
        E.Role = "cascade";
    } else if (E.Text.fromDriver()) {
      Failed.insert({E.At.Source, E.Text.Device});
    }
}

void RunErrors::markFailure(Failure F) const {
  for (Event &E : F)
    if (E.Is == ErrorNature::Advice)
      E.Role = "advice";
    else if (E.Preset)
      E.Role = "cascade";
  markDriverNotes(F);
  bool Failed = any_of(F, [](const Event &E) {
    return E.Is == ErrorNature::Root || E.Is == ErrorNature::Sign ||
           E.Is == ErrorNature::Report;
  });
  if (Failed)
    for (Event &E : F)
      if (E.Is == ErrorNature::Stop && E.Role.empty())
        E.Role = "teardown";
  if (const Event *First = initiator(F)) {
    F[First - F.begin()].Role = "initiating";
    return markFollowers(F, *First);
  }
  // Several roots and no order: whichever it was, these came of one of them.
  bool Root = any_of(
      F, [](const Event &E) { return E.Is == ErrorNature::Root; });
  for (Event &E : F)
    if (Root && E.Role.empty() &&
        (E.Is == ErrorNature::Sign || E.Is == ErrorNature::Report))
      E.Role = "cascade";
}

void RunErrors::mark() {
  order();
  for (const Event &E : Events)
    if (E.Is == ErrorNature::Report)
      Reports.add(E.At);
  for (Event &E : Events) {
    E.Ordinal = Trail.ordinal(E.At);
    E.Aftermath = aftermath(E);
  }
  for (size_t Begin = 0, I = 1, N = Events.size(); I <= N; ++I)
    if (I == N || !sameFailure(Events[I - 1], Events[I])) {
      markFailure(Failure(Events).slice(Begin, I - Begin));
      Begin = I;
    }
}

static std::vector<Event> eventsOf(const Table &Errors, const LogClock &Clock,
                                   const StringPool &Pool) {
  ArrayRef<ColumnView> C = Errors.columns();
  const auto Text = [&](unsigned Column, size_t I) {
    return C[Column].isNull(I) ? StringRef()
                               : Pool.text(C[Column].getString(I));
  };
  std::vector<Event> Out;
  for (size_t I = 0, N = Errors.rows(); I != N; ++I) {
    Event E;
    E.Row = I;
    E.OwnTime = !C[errors::wall_time].isNull(I);
    E.At = {C[errors::source].isNull(I) ? NullString
                                        : C[errors::source].getString(I),
            C[errors::line].getInt(I),
            E.OwnTime ? C[errors::wall_time].getDouble(I) : 0,
            C[errors::step].getInt(I)};
    if (!E.OwnTime)
      E.At.Time = Clock.at(E.At.Source, E.At.Line);
    E.Text = {Text(errors::type, I), Text(errors::code, I),
              Text(errors::signature, I), Text(errors::message, I),
              Text(errors::frames, I), Text(errors::device, I),
              !C[errors::frames].isNull(I)};
    E.Is = natureOf(E.Text);
    E.Kind = E.Text.kind();
    E.Rank = C[errors::rank].getInt(I);
    E.Preset = !C[errors::role].isNull(I);
    Out.push_back(E);
  }
  return Out;
}

static ColumnRef namesOf(ArrayRef<StringRef> Names, StringPool &Pool) {
  auto Data = std::make_shared<Column>(ColumnType::String);
  for (StringRef Name : Names)
    Data->addString(Name.empty() ? NullString : Pool.intern(Name));
  return Data;
}

std::pair<bool, bool> markErrorRoles(Table &Errors,
                                     RunTrails::Segments ErrorParts,
                                     const ErrorContext &Context,
                                     ArrayRef<InputSummary> Inputs,
                                     StringPool &Pool) {
  if (Errors.empty())
    return {false, false};
  LogClock Clock(Context.Lines);
  RunTrails Trails(Clock, Inputs, Pool);
  Trails.addScalars(Context.Scalars, Context.ScalarParts);
  Trails.addRequests(Context.Requests, Context.RequestParts);
  Trails.addLines(Context.Lines, Context.LineParts);

  std::vector<Event> All = eventsOf(Errors, Clock, Pool);
  // Whether the run's own logs have dates, by run.
  std::map<std::string, bool> Dated;
  forEachRowOfRun(Errors, errors::run, ErrorParts, Inputs, Pool,
                  [&](size_t I, const InputSummary &, StringRef Run) {
                    if (!All[I].Text.fromDriver())
                      Dated[Run.str()] |= hasDate(All[I].At);
                  });
  // A driver's log whose stamps are of another kind than the run's stands by
  // itself: it may be of another day.
  std::map<std::pair<std::string, StringId>, std::vector<Event>> Runs;
  forEachRowOfRun(Errors, errors::run, ErrorParts, Inputs, Pool,
                  [&](size_t I, const InputSummary &, StringRef Run) {
                    const Event &E = All[I];
                    auto Of = Dated.find(Run.str());
                    bool Alone = E.Text.fromDriver() && Of != Dated.end() &&
                                 (std::isnan(E.At.Time) ||
                                  hasDate(E.At) != Of->second);
                    Runs[{Run.str(), Alone ? E.At.Source : NullString}]
                        .push_back(E);
                  });
  const ColumnView &Given = Errors.columns()[errors::role];
  const ColumnView &GivenAfter = Errors.columns()[errors::aftermath];
  std::vector<StringRef> Roles(Errors.rows()), Afters(Errors.rows());
  for (auto &[Key, Events] : Runs) {
    RunErrors(Events, Trails.of(Key.first), Clock).mark();
    for (const Event &E : Events) {
      Roles[E.Row] = E.Preset ? Pool.text(Given.getString(E.Row)) : E.Role;
      Afters[E.Row] = GivenAfter.isNull(E.Row)
                          ? E.Aftermath
                          : Pool.text(GivenAfter.getString(E.Row));
    }
  }
  Errors = Errors.with("role", namesOf(Roles, Pool))
               .with("aftermath", namesOf(Afters, Pool));
  const auto Known = [](StringRef Name) { return !Name.empty(); };
  return {any_of(Roles, Known), any_of(Afters, Known)};
}

} // namespace culprit
