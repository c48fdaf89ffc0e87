//===- TextLog.cpp ----------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/TextLog.h"
#include "Readers/CompileLines.h"
#include "Readers/LogDialects.h"
#include "Readers/LogErrors.h"
#include "Readers/LogKinds.h"
#include "Readers/LogLikeness.h"
#include "Readers/LogLine.h"
#include "Readers/LogRows.h"
#include "Readers/LogSettings.h"
#include "Readers/ServingLines.h"
#include "Readers/StackLines.h"
#include "Readers/StructuredLog.h"
#include "Readers/TextEncoding.h"
#include "Readers/TextLines.h"
#include "Readers/Traceback.h"
#include "Readers/WatchdogLines.h"
#include "Support/FindText.h"
#include "Support/Units.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Path.h"

using namespace llvm;

namespace culprit {

Match TextLogReader::matches(const InputFile &File) const {
  bool Whole = File.head().size() < InputFile::HeadBytes;
  std::string Converted;
  StringRef Path = File.path();
  if (!Path.consume_back(".gz"))
    Path.consume_back(".zst");
  StringRef Extension = sys::path::extension(Path);
  bool Named = is_contained({".log", ".out", ".err"}, Extension);
  switch (logLikeness(asUtf8(File.head(), Converted), Whole, Named)) {
  case LogLikeness::No:
    return Match::No;
  case LogLikeness::Weak:
    return Match::Possible;
  case LogLikeness::Strong:
    return Match::Likely;
  }
  return Match::No;
}

namespace {
/// The pass over one log.
class LogPass {
public:
  LogPass(Source &S, const LogOptions &Options);

  void line(StringRef Raw, int64_t Number);
  void becomeLarge() {
    Options.Large = true;
    Rows.becomeLarge();
  }
  /// The text of the lines so far goes away.
  void endPiece();
  void finish();

private:
  /// What a line was found to be.
  struct Found {
    bool Eventful = false; ///< More than text, requests apart.
    unsigned Template = LogRows::None;
    ServingLines::Part Serving = ServingLines::Part::None;
    StringRef Level;
    bool Stamped = false, Ranked = false;
  };
  Found fullLine(StringRef Raw, int64_t Number, StringRef Beginning);
  void knownLine(LogKind &K, StringRef Raw, int64_t Number);
  bool plainLine(LogKind &K, StringRef Raw, int64_t Number);
  void states(StringRef Raw, int64_t Number);
  /// Whether no text is open that a line might belong to.
  bool quiet() const {
    return Tracebacks.empty() && Stacks.idle() && !Dialects.open();
  }

  LogOptions Options;
  LogRows Rows;
  LogKinds Kinds;
  LogLineParser Parser;
  LineScan Scan;
  ScalarRows Scalars;
  LogDialects Dialects;
  TracebackReader Tracebacks;
  LogErrors Errors;
  WatchdogLines Watchdog;
  StackLines Stacks;
  ServingLines Serving;
  CompileLines Compile;
  LogSettings Settings;
};
} // namespace

LogPass::LogPass(Source &S, const LogOptions &Options)
    : Options(Options), Rows(S, Options.Large), Scalars(S),
      Dialects(S, Scalars), Errors(S), Watchdog(S), Stacks(&S),
      Serving(S, Options.Bytes), Compile(S), Settings(S) {}

/// A terminal shows the last state of a line; a bar that was drawn again and
/// again, on one line of the file, has shown a metric each time.
void LogPass::states(StringRef Raw, int64_t Number) {
  Raw = Raw.rtrim('\r');
  for (size_t End = Raw.find('\r'); End != StringRef::npos;
       Raw = Raw.drop_front(End + 1), End = Raw.find('\r')) {
    StringRef State = Raw.take_front(End);
    Dialects.state(State);
    scanLine(State, Scan);
    if (!Scan.Metric)
      continue;
    LogLine L = Parser.parse(State, Number);
    Dialects.line(L, Scan);
  }
  Dialects.state(Raw); // as a line, by the caller
}

/// Reads a line in full. With a \p Beginning the rest of it is free text.
LogPass::Found LogPass::fullLine(StringRef Raw, int64_t Number,
                                 StringRef Beginning) {
  Found Out;
  if (Options.WithMetrics)
    states(Raw, Number);
  LogLine L = Parser.parse(Raw, Number);
  Out.Level = L.Level;
  Out.Stamped = L.WallTime.has_value();
  Out.Ranked = L.Rank.has_value();
  if (!L.Text.empty())
    Out.Template = Beginning.empty() ? Rows.add(L)
                                     : Rows.addFreeText(L, Beginning);
  Out.Eventful = Raw.contains('\r') || containsText(Raw, "%|") ||
                 containsText(L.Text, "NCCL");
  Watchdog.line(L);
  Out.Eventful |= Stacks.line(L);
  Out.Serving = ServingLines::partOf(L);
  Serving.line(L, Out.Serving);
  Out.Eventful |= Compile.line(L);
  Out.Eventful |= Settings.line(L.Text, Number);
  scanLine(L.Text, Scan);
  // A word of a metric alone, "acc" in a hash, makes no metric.
  Out.Eventful |= Scan.Other;
  TracebackReader::Use Use = TracebackReader::Use::None;
  if (Scan.Traceback || !Tracebacks.empty())
    Use = Tracebacks.line(L, Scan.Traceback, [&](const PythonError &E) {
      Errors.exception(E, Scalars.lastStep());
    });
  Out.Eventful |= Use != TracebackReader::Use::None || L.Text.empty();
  if (Use == TracebackReader::Use::Part || L.Text.empty())
    return Out;
  if (Options.WithMetrics)
    Out.Eventful |= Dialects.line(L, Scan);
  // A line of a message was, or will be, looked at with its exception.
  if (Use == TracebackReader::Use::None)
    Errors.line(L, Scan, Scalars.lastStep());
  // An exception of a library may be of no known kind.
  for (StringRef Word : {"Error", "Exception", "Killed"})
    Out.Eventful |= containsText(L.Text, Word);
  return Out;
}

/// A line whose kind is known to be text, or text about requests: it is counted
/// and, if need be, its request is read.
void LogPass::knownLine(LogKind &K, StringRef Raw, int64_t Number) {
  if (K.Serving != ServingLines::Part::None)
    Serving.line(Parser.again(Raw, Number, K.Level, K.Stamped), K.Serving);
  if (K.Ranked)
    Rows.ofRank(K.Template, Parser.parse(Raw, Number).Rank);
  Kinds.count(K, Raw, Number);
}

/// Of free text only the beginning is known; whether there is nothing in the
/// rest that would make the line more than text.
bool LogPass::plainLine(LogKind &K, StringRef Raw, int64_t Number) {
  scanLine(Raw, Scan);
  if (!Scan.Hits.empty() || Raw.contains('\r') || containsText(Raw, "%|") ||
      containsText(Raw, "Error") || containsText(Raw, "Exception"))
    return false;
  knownLine(K, Raw, Number);
  return true;
}

void LogPass::line(StringRef Raw, int64_t Number) {
  if (!Options.Large) {
    fullLine(Raw, Number, "");
    return;
  }
  size_t Beginning;
  LogKind &K = Kinds.of(Raw, Beginning);
  if (K.known() && !K.Eventful && quiet()) {
    // Nobody takes what a user wrote into a prompt for an error.
    if (!K.FreeText || K.Serving != ServingLines::Part::None)
      return knownLine(K, Raw, Number);
    if (plainLine(K, Raw, Number))
      return;
  }
  Found Is = fullLine(Raw, Number,
                      K.FreeText ? Raw.take_front(Beginning) : StringRef());
  // What is left over has no beginning in common, and so no template.
  K.Template = K.FreeText && !Beginning ? LogRows::None : Is.Template;
  K.Level = Is.Level;
  K.Stamped = Is.Stamped;
  K.Ranked |= Is.Ranked;
  if (!K.FreeText) {
    K.Eventful |= Is.Eventful;
    K.Serving = Is.Serving;
  } else {
    // Whether a line is of a request stands at its beginning, or it may not.
    K.Eventful |= K.Sights && K.Serving != Is.Serving;
    K.Serving = Is.Serving;
  }
  ++K.Sights;
}

void LogPass::endPiece() {
  for (LogKind *K : Kinds.takeCounted()) {
    Rows.repeat(K->Template, K->Pending, K->LastNumber, K->LastText);
    K->Pending = 0;
  }
}

void LogPass::finish() {
  endPiece();
  Tracebacks.finish(
      [&](const PythonError &E) { Errors.exception(E, Scalars.lastStep()); });
  Errors.finish();
  Watchdog.finish();
  Stacks.finish();
  Serving.finish();
  Compile.finish();
  Settings.finish();
  Dialects.finish();
  Scalars.finish();
  Rows.finish();
}

/// Of a log beyond this not every line gets a row.
static constexpr uint64_t LargeLog = 64 << 20;

namespace {
/// Feeds the lines of a log to a pass, piece by piece.
class LogText {
public:
  LogText(Source &S, const LogOptions &Options) : Pass(S, Options) {}

  void piece(StringRef Text);
  void finish() { Pass.finish(); }

private:
  LogPass Pass;
  StructuredLog Json;
  int64_t Next = 1;
  uint64_t Read = 0;
};
} // namespace

void LogText::piece(StringRef Text) {
  // What a compressed file says of its size may be wrong by any factor.
  if ((Read += Text.size()) > LargeLog)
    Pass.becomeLarge();
  Next = forEachLine(
      Text,
      [&](StringRef Line, int64_t Number) {
        StringRef Plain = Json.plain(Line);
        if (Plain.data() == Line.data()) {
          Pass.line(Line, Number);
          return true;
        }
        // A message may be a traceback.
        forEachLine(Plain, [&](StringRef Part, int64_t) {
          Pass.line(Part, Number);
          return true;
        });
        // The text that was made of the line goes with the next one.
        Pass.endPiece();
        return true;
      },
      Next);
  Pass.endPiece();
}

void readLogText(StringRef Text, Source &Into, const LogOptions &Options) {
  LogText Log(Into, Options);
  Log.piece(Text);
  Log.finish();
}

Error TextLogReader::read(InputFile &File, Source &Into) const {
  LogOptions Options;
  Options.Bytes = File.expectedSize();
  Options.Large = Options.Bytes > LargeLog;
  LogText Log(Into, Options);
  size_t Zeros = 0;
  auto Piece = [&](StringRef Text) {
    Log.piece(Text);
    for (size_t At = Text.find('\0'); At != StringRef::npos;
         At = Text.find('\0', At + 1))
      ++Zeros;
    return true;
  };
  std::string Converted;
  StringRef Head = File.head();
  if (StringRef Plain = asUtf8(Head, Converted);
      Plain.end() != Head.end() || Plain.size() + 3 < Head.size()) {
    // UTF-16 is turned as a whole.
    Expected<StringRef> Contents = File.contents();
    if (!Contents)
      return Contents.takeError();
    Piece(asUtf8(*Contents, Converted));
  } else if (Error E = File.lines(Piece)) {
    return E;
  }
  Log.finish();
  if (Zeros)
    Into.warn(Into.path() + ": " + formatCount(Zeros) +
                  " zero bytes inside the text",
              "a disk that was full or a machine that crashed leaves them; "
              "the lines around them were read");
  return Error::success();
}

} // namespace culprit
