//===- StackLines.cpp -------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/StackLines.h"
#include "Readers/CallFrames.h"
#include "Readers/ScalarRows.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace culprit {

/// Stacks open at once: one a rank of a large node.
static constexpr size_t MaxOpenStacks = 64;
/// Frames read of one stack; those beyond are not kept either.
static constexpr size_t MaxFramesOfStack = 256;

StackLines::StackLines(Source *Into) : S(Into) {
  if (S)
    FileRank = rankOfPath(S->path());
}

/// A decimal number or one that begins with 0x.
static std::optional<int64_t> idOf(StringRef Text) {
  uint64_t Value = 0;
  if (Text.getAsInteger(0, Value) || Value > uint64_t(INT64_MAX))
    return std::nullopt;
  return Value;
}

/// Whether \p Text, without blanks in front, begins a thread.
bool StackLines::head(StringRef Text, Stack &Out) const {
  StringRef Rest = Text.rtrim();
  if (Rest == "Stack (most recent call first):") {
    Out.From = Tool::FaultHandler;
    return true;
  }
  bool Current = Rest.consume_front("Current thread ");
  if (!Current && !Rest.consume_front("Thread "))
    return false;
  StringRef Id = Rest.take_while(isAlnum);
  Rest = Rest.drop_front(Id.size()).ltrim();
  Out.Tid = idOf(Id);
  if (!Out.Tid)
    return false;
  if (Rest.consume_back("(most recent call first):")) {
    Out.From = Tool::FaultHandler;
    Out.Name = Rest.trim().trim("[]").str(); // Python 3.14
    Out.State = Current ? "active" : "";
    return true;
  }
  if (!Rest.consume_front("("))
    return false;
  // (Thread 0x7fd09a75 (LWP 3913167) "worker"): or (LWP 3913167):
  if (size_t Lwp = Rest.find("LWP "); Lwp != StringRef::npos) {
    if (!Rest.ends_with(":"))
      return false;
    Out.From = Tool::Gdb;
    Out.Tid = idOf(Rest.drop_front(Lwp + 4).take_while(isDigit));
    Out.Name = Rest.split('"').second.split('"').first.str();
    return Out.Tid.has_value();
  }
  auto [State, Name] = Rest.split(')');
  if (State != "idle" && State != "active" && State != "active+gil")
    return false;
  Out.From = Tool::PySpy;
  Out.State = State == "active+gil" ? "gil" : State.str();
  Name.consume_front(": \"");
  Name.consume_back("\"");
  Out.Name = Name.str();
  Out.Pid = Pid;
  return true;
}

/// Adds the frame that \p Text is; false when it is none.
bool StackLines::frame(StringRef Text, Stack &Into) const {
  StringRef File, Line, Function;
  Text = Text.trim();
  switch (Into.From) {
  case Tool::FaultHandler:
    // Marks that stand for frames.
    if (Text == "..." || (Text.starts_with("<") && Text.ends_with(">")) ||
        Text == "Garbage-collecting")
      return true;
    if (!Text.consume_front("File \""))
      return false;
    std::tie(File, Text) = Text.split('"');
    if (!Text.consume_front(", line "))
      return false;
    Line = Text.take_while(isDigit);
    Text = Text.drop_front(Line.size());
    if (!Text.consume_front(" in ")) // a traceback has ", in "
      return false;
    Function = Text;
    break;
  case Tool::PySpy: {
    if (Text == "Arguments:" || Text == "Locals:")
      return true;
    // name (file.py:31); arguments and locals are "name: value".
    size_t At = Text.rfind(" (");
    if (!Text.ends_with(")") || At == StringRef::npos)
      return Text.contains(": ");
    Function = Text.take_front(At);
    File = Text.drop_front(At + 2).drop_back();
    StringRef Number = File.rsplit(':').second;
    if (!Number.empty() && all_of(Number, isDigit)) {
      Line = Number;
      File = File.drop_back(Number.size() + 1);
    }
    if (Function.contains(": "))
      return true; // a local whose value ends in a bracket
    break;
  }
  case Tool::Gdb: {
    if (!Text.consume_front("#"))
      return false;
    StringRef Number = Text.take_while(isDigit);
    if (Number.empty())
      return false;
    Text = Text.drop_front(Number.size()).ltrim();
    if (Text.starts_with("0x") && Text.contains(" in "))
      Text = Text.split(" in ").second;
    Function = Text.take_front(Text.find(" ("));
    if (size_t At = Text.rfind(" at "); At != StringRef::npos)
      std::tie(File, Line) = Text.drop_front(At + 4).rsplit(':');
    else if (size_t From = Text.rfind(" from "); From != StringRef::npos)
      File = Text.drop_front(From + 6);
    break;
  }
  }
  if (Into.Frames.size() < MaxFramesOfStack)
    Into.Frames.push_back(frameText(File, Line, Function));
  return true;
}

void StackLines::write(const Stack &Done) {
  if (!S)
    return;
  TableBuilder &Row = S->table(TableId::stacks);
  Row.addRow();
  Row.set(stacks::source, StringRef(S->path()));
  if (std::optional<int64_t> Rank = Done.Rank ? Done.Rank : FileRank)
    Row.set(stacks::rank, *Rank);
  if (Done.Pid)
    Row.set(stacks::pid, *Done.Pid);
  if (Done.Tid)
    Row.set(stacks::tid, *Done.Tid);
  if (!Done.Name.empty())
    Row.set(stacks::thread, StringRef(Done.Name));
  if (!Done.State.empty())
    Row.set(stacks::state, StringRef(Done.State));
  std::vector<StringRef> Frames(Done.Frames.begin(), Done.Frames.end());
  if (!Frames.empty())
    Row.set(stacks::frames, StringRef(joinFrames(Frames)));
  Row.set(stacks::place, Done.Line);
}

bool StackLines::line(const LogLine &L) {
  // What loggers and launchers put in front, the time left out.
  StringRef Prefix =
      L.Unstamped.size() >= L.Body.size()
          ? L.Unstamped.drop_back(L.Body.size()).rtrim()
          : StringRef();
  StringRef Body = L.Body;
  size_t At = 0;
  while (At != Open.size() && Open[At].Prefix != Prefix)
    ++At;
  Stack New;
  if ((Body.starts_with("Thread ") || Body.starts_with("Current thread ") ||
       Body.starts_with("Stack (most")) &&
      head(Body, New)) {
    ++Heads;
    if (At == Open.size() && Open.size() == MaxOpenStacks)
      At = 0;
    if (At != Open.size()) {
      write(Open[At]);
      Open.erase(Open.begin() + At);
    }
    New.Line = L.Number;
    New.Prefix = Prefix.str();
    if (!Prefix.empty())
      New.Rank = L.Rank;
    Open.push_back(std::move(New));
    return true;
  }
  if (At != Open.size()) {
    if (!Body.empty() && frame(Body, Open[At]))
      return true;
    write(Open[At]);
    Open.erase(Open.begin() + At);
  }
  // py-spy: "Process 12: python train.py", "Python v3.11.2 (/usr/bin/python)".
  if (Body.starts_with("Process ")) {
    StringRef Number = Body.drop_front(8).take_while(isDigit);
    if (!Number.empty() && Body.drop_front(8 + Number.size()).starts_with(":"))
      Pid = idOf(Number);
    return Pid.has_value();
  }
  return Body.starts_with("Python v") || Body.starts_with("Parent Process ") ||
         Body.starts_with("Timeout (0:") ||
         (Body.starts_with("[Thread debugging using") || Body.empty());
}

void StackLines::finish() {
  for (const Stack &Last : Open)
    write(Last);
  Open.clear();
}

} // namespace culprit
