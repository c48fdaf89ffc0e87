//===- NsightHost.cpp - What threads did ------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Export/NsightWriter.h"

using namespace llvm;

namespace culprit::nsight {

int64_t Writer::threadOf(Number Rank, Number Pid, Number Tid) {
  auto It = Processes.find(Rank.value_or(0));
  bool Own = !Pid || (It != Processes.end() && It->second.Pid == *Pid);
  int64_t Id = idOf(Own ? pidOf(Rank) : *Pid, Tid.value_or(0));
  if (Tid && Id != LastThread) {
    LastThread = Id;
    Threads.insert(Id);
  }
  return Id;
}

void Writer::calls() {
  each(TableId::host_calls, host_calls::rank, [&](const ExportRow &R) {
    Number Start = R.number(host_calls::start),
           Stop = R.number(host_calls::stop);
    if (!Start || !Stop)
      return;
    widen(*Start, *Stop);
    StringRef Name = R.text(host_calls::name);
    bool Driver = Name.starts_with("cu") && Name.size() > 2 && Name[2] < 'a';
    To.add(TableOf::Call,
           {*Start, *Stop, int64_t(Driver),
            threadOf(R.number(host_calls::rank), R.number(host_calls::pid),
                     R.number(host_calls::tid)),
            R.number(host_calls::correlation), To.string(Name),
            R.number(host_calls::result).value_or(0)});
  });
}

// ENUM_NSYS_EVENT_TYPE.
enum : int64_t { Mark = 34, PushPop = 59, StartEnd = 60, Domain = 75 };

/// nsys has the text of an event either in its row or, where the program
/// registered it, among the strings. Some scripts know only one of the two.
void Writer::addNvtx(int64_t Start, Number Stop, int64_t Type, StringRef Text,
                     int64_t Thread, int64_t Domain) {
  To.add(TableOf::Nvtx, {Start, Stop, Type, Text, Thread, std::nullopt,
                         To.string(Text), Domain});
}

void Writer::annotations() {
  std::map<std::pair<int64_t, StringRef>, int64_t> Domains; // pid, name
  each(TableId::ranges, ranges::rank, [&](const ExportRow &R) {
    Number Start = R.number(ranges::start), Stop = R.number(ranges::stop),
           Tid = R.number(ranges::tid);
    if (!Start)
      return;
    int64_t Thread =
        threadOf(R.number(ranges::rank), R.number(ranges::pid), Tid);
    int64_t Id = 0;
    if (StringRef Name = R.text(ranges::domain); !Name.empty()) {
      auto [It, New] =
          Domains.try_emplace({Thread >> 24, Name},
                              static_cast<int64_t>(Domains.size()) + 1);
      Id = It->second;
      if (New)
        addNvtx(0, std::nullopt, Domain, Name, Thread, Id);
    }
    bool IsMark = Stop == Start;
    addNvtx(*Start, IsMark ? std::nullopt : Stop,
            IsMark        ? Mark
            : Tid && Stop ? PushPop
                          : StartEnd,
            R.text(ranges::name), Thread, Id);
  });
}

/// Operators as torch.autograd.profiler.emit_nvtx writes them.
void Writer::operators() {
  each(TableId::host_ops, host_ops::rank, [&](const ExportRow &R) {
    Number Start = R.number(host_ops::start), Stop = R.number(host_ops::stop),
           Id = R.number(host_ops::external);
    if (!Start || !Stop || R.text(host_ops::category) != "operator")
      return;
    std::string Text = R.text(host_ops::name).str() + ", seq = 0";
    if (Id)
      Text = R.text(host_ops::name).str() + ", op_id = " + std::to_string(*Id);
    if (StringRef Shapes = R.text(host_ops::shapes); !Shapes.empty())
      Text += ", sizes = " + Shapes.str();
    addNvtx(*Start, Stop, PushPop, Text,
            threadOf(R.number(host_ops::rank), R.number(host_ops::pid),
                     R.number(host_ops::tid)),
            0);
  });
}

/// A case has no names of threads, but scripts look for a row of each.
void Writer::threadNames() {
  for (int64_t Id : Threads)
    To.add(TableOf::Thread,
           {To.string("thread " + std::to_string(Id & 0xffffff)), Id});
}

} // namespace culprit::nsight
