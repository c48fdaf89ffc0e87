//===- ChromeEvents.cpp -----------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Export/ChromeEvents.h"
#include "llvm/Support/Format.h"

using namespace llvm;

namespace culprit {

void TraceEvents::quoted(StringRef Text) {
  OS << '"';
  for (char Ch : Text) {
    if (Ch == '"' || Ch == '\\')
      OS << '\\' << Ch;
    else if (static_cast<unsigned char>(Ch) < 0x20)
      OS << format("\\u%04x", unsigned(Ch));
    else
      OS << Ch;
  }
  OS << '"';
}

/// \p Ns in us without a loss.
void TraceEvents::time(int64_t Ns) {
  uint64_t Size = Ns < 0 ? 0 - static_cast<uint64_t>(Ns)
                         : static_cast<uint64_t>(Ns);
  if (Ns < 0)
    OS << '-';
  OS << Size / 1000 << format(".%03u", unsigned(Size % 1000));
}

void TraceEvents::key(StringRef Name) {
  if (!std::exchange(FirstArgument, false))
    OS << ',';
  quoted(Name);
  OS << ':';
}

void TraceEvents::argument(StringRef Name, Number Value) {
  if (!Value)
    return;
  key(Name);
  OS << *Value;
}

void TraceEvents::textArgument(StringRef Name, StringRef Value) {
  if (Value.empty())
    return;
  key(Name);
  quoted(Value);
}

void TraceEvents::listArgument(StringRef Name, ArrayRef<int64_t> Value) {
  if (Value.empty())
    return;
  key(Name);
  for (size_t I = 0; I != Value.size(); ++I)
    OS << (I ? ',' : '[') << Value[I];
  OS << ']';
}

void TraceEvents::event(StringRef Phase, StringRef Category, StringRef Name,
                        const LineId &Pid, const LineId &Tid, int64_t Start,
                        Number Length) {
  auto Line = [&](const LineId &Id) {
    if (Id.Id)
      OS << *Id.Id;
    else
      quoted(Id.Word);
  };
  line();
  OS << R"({"ph":")" << Phase << R"(","cat":")" << Category << R"(","name":)";
  quoted(Name);
  OS << R"(,"pid":)";
  Line(Pid);
  OS << R"(,"tid":)";
  Line(Tid);
  OS << R"(,"ts":)";
  time(Start);
  if (Length) {
    OS << R"(,"dur":)";
    time(*Length);
  }
  OS << R"(,"args":{)";
  FirstArgument = true;
}

void TraceEvents::flow(StringRef Phase, Number Pid, Number Tid, int64_t At,
                       int64_t Id) {
  if (!Pid || !Tid)
    return;
  line();
  OS << R"({"ph":")" << Phase << R"(","cat":"ac2g","name":"ac2g","id":)" << Id
     << R"(,"pid":)" << *Pid << R"(,"tid":)" << *Tid << R"(,"ts":)";
  time(At);
  OS << (Phase == "f" ? R"(,"bp":"e"})" : "}");
}

void TraceEvents::metadata(StringRef What, int64_t Pid, Number Tid,
                           const json::Value &Value) {
  line();
  OS << R"({"ph":"M","name":")" << What << R"(","pid":)" << Pid
     << R"(,"tid":)" << Tid.value_or(0) << R"(,"args":{")"
     << (What.ends_with("sort_index") ? "sort_index" : "name") << "\":" << Value
     << "}}";
}

} // namespace culprit
