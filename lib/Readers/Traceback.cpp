//===- Traceback.cpp --------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/Traceback.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace culprit {

/// Lines that a message may have, and foreign lines that may come between two
/// of a traceback's own.
static constexpr unsigned MaxMessageLines = 20, MaxForeign = 400;
/// Tracebacks open at once: one a rank of a large node.
static constexpr size_t MaxOpenTracebacks = 64;

std::pair<StringRef, StringRef> splitException(StringRef Text) {
  StringRef Class = Text.take_while(
      [](char C) { return isAlnum(C) || C == '_' || C == '.'; });
  StringRef Rest = Text.drop_front(Class.size());
  size_t Dot = Class.rfind('.');
  StringRef Last = Class.drop_front(Dot == StringRef::npos ? 0 : Dot + 1);
  if (Last.empty() || !isAlpha(Last[0]) || Class.starts_with("."))
    return {};
  if (!Rest.empty() && !Rest.starts_with(": ") && Rest != ":")
    return {};
  return {Class, Rest.ltrim(": ")};
}

/// Whether \p Class is named as exceptions are; needed where no traceback
/// stands before it, since "Step: 12" has the form as well.
static bool isExceptionName(StringRef Class) {
  for (StringRef End : {"Error", "Exception", "Interrupt", "Exit", "Warning",
                        "Timeout", "Failure", "Abort", "Stop"})
    if (Class.ends_with(End))
      return true;
  return false;
}

/// "  File "/a/train.py", line 3, in main" as "/a/train.py:3 main".
static std::optional<std::string> parseFrame(StringRef Text) {
  if (!Text.consume_front("File \""))
    return std::nullopt;
  auto [File, Rest] = Text.split('"');
  if (!Rest.consume_front(", line "))
    return std::nullopt;
  StringRef Line = Rest.take_while(isDigit);
  Rest = Rest.drop_front(Line.size());
  if (Line.empty())
    return std::nullopt;
  std::string Out = (File + ":" + Line).str();
  if (Rest.consume_front(", in "))
    Out += " " + Rest.str();
  return Out;
}

/// "step 100 val_loss 0.93", "Epoch: [3] ...": a row of the log that goes on,
/// and no line of a message.
static bool isRow(StringRef Text) {
  for (StringRef Word : {"step", "epoch", "iteration", "iter"}) {
    StringRef Rest = Text;
    if (!Rest.consume_front_insensitive(Word))
      continue;
    StringRef Number = Rest.ltrim(" :=[#");
    return Number.size() != Rest.size() && !Number.empty() &&
           isDigit(Number.front());
  }
  return false;
}

TracebackReader::Step TracebackReader::advanceMessage(Traceback &T,
                                                      const LogLine &L,
                                                      StringRef Rest) {
  // A blank line ends a message, but PyTorch's have blank lines inside; what
  // follows them is advice and C++ frames that nobody misses.
  // A stamp inside a common prefix is that of each line of one record.
  bool OwnStamp = L.Unstamped.size() != L.Text.size();
  bool Ends = Rest.trim().empty() || ++T.MessageLines >= MaxMessageLines ||
              OwnStamp || Rest.contains("%|") || isRow(Rest) ||
              Rest.starts_with("During handling of") ||
              Rest.starts_with("The above exception") ||
              Rest.starts_with("terminate called") ||
              Rest.starts_with("srun:") || Rest.starts_with("slurmstepd:") ||
              Rest.starts_with("{'") || Rest.starts_with("{\"");
  // Loggers and other ranks write prefixes of their own.
  if (T.Prefix.empty())
    Ends |= L.Prefixed;
  if (Ends)
    return Step::Ended;
  T.Error.Message += ("\n" + Rest.rtrim()).str();
  return Step::OwnMessage;
}

TracebackReader::Step TracebackReader::advance(Traceback &T, const LogLine &L,
                                               StringRef Rest) {
  if (T.InMessage)
    return advanceMessage(T, L, Rest);
  if (std::optional<std::string> Frame = parseFrame(Rest.ltrim(" |"))) {
    T.Error.Frames.push_back(std::move(*Frame));
    return Step::Own;
  }
  // Code, carets and "[Previous line repeated 996 more times]".
  if (Rest.empty() || Rest[0] == ' ' || Rest[0] == '\t')
    return Step::Own;
  auto [Class, Message] = splitException(Rest);
  bool Plausible = isExceptionName(Class) || !T.Error.Frames.empty();
  if (Class.empty() || !Plausible)
    return ++T.Foreign > MaxForeign ? Step::Ended : Step::Foreign;
  T.Error.Type = Class.str();
  T.Error.Message = Message.str();
  T.InMessage = true;
  return Step::Own;
}

/// Whether \p Prefix ends as a sentence or a progress bar does.
static bool endsWithWords(StringRef Prefix) {
  return Prefix.ends_with(":") || Prefix.ends_with("it/s]") ||
         Prefix.ends_with("s/it]");
}

/// "Scheduler hit an exception: Traceback (...)": the head has words in front
/// that the lines below it lack; their first frame shows what the prefix is.
void TracebackReader::adoptPrefix(StringRef Text) {
  size_t At = Text.find("  File \"");
  if (At == StringRef::npos || Open.empty())
    return;
  StringRef Base = Text.take_front(At);
  Traceback *Fresh = nullptr;
  for (Traceback &T : Open) {
    if (T.Prefix == Base)
      return; // its own
    StringRef Words = T.Prefix;
    if (T.Error.Frames.empty() && !T.InMessage && Words.consume_front(Base) &&
        endsWithWords(Words.rtrim()) && !Words.starts_with("[rank"))
      Fresh = &T;
  }
  if (Fresh)
    Fresh->Prefix = Base.str();
}

TracebackReader::Use TracebackReader::line(const LogLine &L, bool Head,
                                           Sink Done) {
  // Time stamps differ from line to line and are no part of a prefix.
  StringRef Text = L.Unstamped;
  if (Head) {
    size_t At = Text.find("Traceback (most recent call last)");
    StringRef Prefix = Text.take_front(At == StringRef::npos ? 0 : At);
    // "  + Exception Group Traceback", whose lines begin with "  | ".
    // Rich draws a box and IPython writes the class in front; their frames
    // have other forms, and the exception's own line below them says enough.
    if (Prefix.contains("\xe2\x94\x80") ||
        (Prefix.ends_with("    ") && isExceptionName(Prefix.trim())))
      return Use::Part;
    std::string Own = Prefix.str();
    if (size_t Plus = Prefix.find("+ Exception Group ");
        Plus != StringRef::npos)
      Own = (Prefix.take_front(Plus) + "| ").str();
    // A new head closes what was open under the same prefix.
    for (size_t I = 0; I != Open.size(); ++I)
      if (Open[I].Prefix == Own || Open.size() >= MaxOpenTracebacks) {
        Done(Open[I].Error);
        Open.erase(Open.begin() + I);
        break;
      }
    Traceback T;
    T.Prefix = Own;
    T.Error.Line = L.Number;
    T.Error.Rank = L.Rank;
    T.Error.WallTime = L.WallTime;
    Open.push_back(std::move(T));
    return Use::Part;
  }
  adoptPrefix(Text);
  // The longest prefix owns the line; the empty one is everybody's.
  size_t Best = Open.size();
  for (size_t I = 0; I != Open.size(); ++I)
    if ((Text.starts_with(Open[I].Prefix) ||
         Text.rtrim() == StringRef(Open[I].Prefix).rtrim()) &&
        (Best == Open.size() ||
         Open[I].Prefix.size() > Open[Best].Prefix.size()))
      Best = I;
  if (Best == Open.size())
    return Use::None;
  Traceback &T = Open[Best];
  StringRef Rest = Text.drop_front(std::min(T.Prefix.size(), Text.size()));
  switch (advance(T, L, Rest)) {
  case Step::Own:
    return Use::Part;
  case Step::OwnMessage:
    return Use::Message;
  case Step::Foreign:
    return Use::None;
  case Step::Ended:
    break;
  }
  Done(T.Error);
  Open.erase(Open.begin() + Best);
  return Rest.trim().empty() ? Use::Part : Use::None;
}

void TracebackReader::finish(Sink Done) {
  for (const Traceback &T : Open)
    Done(T.Error);
  Open.clear();
}

} // namespace culprit
