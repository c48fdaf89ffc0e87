//===- NsightSystemsThreads.cpp - What the scheduler did --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// SCHED_EVENTS has a row whenever a thread gets or leaves a CPU. From in to out
// the thread ran. From out to in it was runnable if the state in which it left
// says that it could have gone on (it was preempted), and blocked if it had
// begun to wait. Schemas before 2022 have no state: then nobody knows.
// Two events of the same kind in a row mean that one was lost, and what was
// between them is left out.
//
// COMPOSITE_EVENTS are samples of running threads: moments, not times. They
// are only taken, as rows without length, where there are no SCHED_EVENTS.
//
//===----------------------------------------------------------------------===//

#include "Readers/NsightSystemsIds.h"
#include "Readers/NsightSystemsParts.h"

using namespace llvm;

namespace culprit::nsys {

namespace {

enum class Why { Unknown, Runnable, Blocked, Ended };

struct Switch {
  std::optional<int64_t> Thread;
  int64_t At, Cpu, Place;
  bool In;
  Why State;
};

class StateNames {
public:
  explicit StateNames(Database &DB) : DB(DB) {}

  Why operator()(std::optional<int64_t> State) {
    if (!State)
      return Why::Unknown;
    auto [It, New] = Known.try_emplace(*State, Why::Unknown);
    if (New)
      It->second = find(*State);
    return It->second;
  }

private:
  Why find(int64_t State) {
    std::string Label = DB.label("ENUM_SAMPLING_THREAD_STATE", State).lower();
    static constexpr StringLiteral Fallback[] = {
        "unknown", "running",    "interruptible", "uninterruptible",
        "stopped", "terminated", "unscheduled",   "waiting",
        "os runtime"};
    if (Label.empty() && State >= 0 && State < int64_t(std::size(Fallback)))
      Label = Fallback[State].str();
    StringRef Text = Label;
    if (Text == "running" || Text == "runnable" || Text == "unscheduled" ||
        Text == "ready")
      return Why::Runnable;
    if (Text == "terminated")
      return Why::Ended;
    for (StringRef Wait : {"interruptible", "stopped", "waiting", "sleep",
                           "os runtime", "osruntime", "blocked"})
      if (Text.contains(Wait))
        return Why::Blocked;
    return Why::Unknown;
  }

  Database &DB;
  std::map<int64_t, Why> Known;
};

} // namespace

static void addState(Part &P, const Switch &From, int64_t Stop,
                     StringRef State) {
  TableBuilder &Row = P.Into.table(TableId::thread_states);
  Row.addRow();
  if (!State.empty())
    Row.set(thread_states::state, State);
  Row.set(thread_states::start, From.At);
  Row.set(thread_states::stop, Stop);
  Row.set(thread_states::dur, Stop - From.At);
  int64_t Pid = pidOf(From.Thread);
  set(Row, thread_states::rank, Pid);
  set(Row, thread_states::pid, Pid);
  set(Row, thread_states::tid, tidOf(From.Thread));
  set(Row, thread_states::cpu, From.Cpu);
  Row.set(thread_states::place, From.Place);
}

static void readSamples(Part &P) {
  enum : unsigned { At, Cpu, State, Thread };
  StateNames States(P.DB);
  P.DB.forEach(
      "COMPOSITE_EVENTS", {"start", "cpu", "threadState", "globalTid"},
      [&](const Row &R) {
        std::optional<int64_t> When = R.integer(At);
        if (!When || !inRange(*When)) {
          ++P.Skipped;
          return;
        }
        Why W = States(R.integer(State));
        addState(P,
                 {R.integer(Thread), *When, idOrNull(R.integer(Cpu)), R.place(),
                  true, W},
                 *When,
                 W == Why::Runnable  ? "running"
                 : W == Why::Blocked ? "blocked"
                                     : "");
      },
      1);
}

void readThreadStates(Part &P) {
  enum : unsigned { At, Cpu, In, Thread, State };
  std::vector<Switch> Switches;
  StateNames States(P.DB);
  P.DB.forEach(
      "SCHED_EVENTS", {"start", "cpu", "isSchedIn", "globalTid", "threadState"},
      [&](const Row &R) {
        std::optional<int64_t> When = R.integer(At), Enters = R.integer(In);
        if (!When || !inRange(*When) || !Enters) {
          ++P.Skipped;
          return;
        }
        Switches.push_back({R.integer(Thread), *When, idOrNull(R.integer(Cpu)),
                            R.place(), *Enters != 0, States(R.integer(State))});
      },
      3);
  if (Switches.empty())
    return readSamples(P);
  llvm::stable_sort(Switches, [](const Switch &A, const Switch &B) {
    return std::tie(A.Thread, A.At) < std::tie(B.Thread, B.At);
  });
  for (size_t I = 0; I + 1 < Switches.size(); ++I) {
    const Switch &From = Switches[I], &To = Switches[I + 1];
    if (From.Thread != To.Thread || From.In == To.In)
      continue;
    if (From.In)
      addState(P, From, To.At, "running");
    else if (From.State != Why::Ended)
      addState(P, From, To.At,
               From.State == Why::Runnable  ? "runnable"
               : From.State == Why::Blocked ? "blocked"
                                            : "");
  }
}

} // namespace culprit::nsys
