//===- TextLog.cpp ----------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/TextLog.h"
#include "Readers/LogDialects.h"
#include "Readers/LogErrors.h"
#include "Readers/LogLikeness.h"
#include "Readers/LogLine.h"
#include "Readers/ServingLines.h"
#include "Readers/StackLines.h"
#include "Readers/StructuredLog.h"
#include "Readers/TextEncoding.h"
#include "Readers/TextLines.h"
#include "Readers/Traceback.h"
#include "Readers/WatchdogLines.h"
#include "Support/Units.h"

using namespace llvm;

namespace culprit {

Match TextLogReader::matches(const InputFile &File) const {
  bool Whole = File.head().size() < InputFile::HeadBytes;
  std::string Converted;
  switch (logLikeness(asUtf8(File.head(), Converted), Whole)) {
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
  LogPass(Source &S, bool WithMetrics);

  void line(StringRef Raw, int64_t Number);
  void finish();

private:
  void addLine(const LogLine &L);
  void states(StringRef Raw, int64_t Number);

  Source &S;
  bool WithMetrics;
  TableBuilder &Lines;
  StringId File;
  std::optional<int64_t> FileRank;
  LogLineParser Parser;
  LineScan Scan;
  std::string Template;
  ScalarRows Scalars;
  LogDialects Dialects;
  TracebackReader Tracebacks;
  LogErrors Errors;
  WatchdogLines Watchdog;
  StackLines Stacks;
  ServingLines Serving;
};
} // namespace

LogPass::LogPass(Source &S, bool WithMetrics)
    : S(S), WithMetrics(WithMetrics), Lines(S.table(TableId::log_lines)),
      File(S.pool().intern(S.path())), FileRank(rankOfPath(S.path())),
      Scalars(S), Dialects(S, Scalars), Errors(S), Watchdog(S), Stacks(&S),
      Serving(S) {}

void LogPass::addLine(const LogLine &L) {
  Lines.addRow();
  Lines.setId(log_lines::source, File);
  Lines.set(log_lines::line, L.Number);
  if (L.WallTime)
    Lines.set(log_lines::wall_time, *L.WallTime);
  if (L.Rank || FileRank)
    Lines.set(log_lines::rank, L.Rank ? *L.Rank : *FileRank);
  if (!L.Level.empty())
    Lines.set(log_lines::level, L.Level);
  // Most texts occur once; a cache in front of the pool would only copy them.
  Lines.setId(log_lines::text, S.pool().intern(L.Text));
  makeTemplate(L.Text, Template);
  Lines.set(log_lines::template_, StringRef(Template));
  Lines.set(log_lines::place, L.Number);
}

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

void LogPass::line(StringRef Raw, int64_t Number) {
  if (WithMetrics)
    states(Raw, Number);
  LogLine L = Parser.parse(Raw, Number);
  if (!L.Text.empty())
    addLine(L);
  Watchdog.line(L);
  Stacks.line(L);
  Serving.line(L);
  scanLine(L.Text, Scan);
  TracebackReader::Use Use = TracebackReader::Use::None;
  if (Scan.Traceback || !Tracebacks.empty())
    Use = Tracebacks.line(L, Scan.Traceback, [&](const PythonError &E) {
      Errors.exception(E, Scalars.lastStep());
    });
  if (Use == TracebackReader::Use::Part || L.Text.empty())
    return;
  if (WithMetrics)
    Dialects.line(L, Scan);
  // A line of a message was, or will be, looked at with its exception.
  if (Use == TracebackReader::Use::None)
    Errors.line(L, Scan, Scalars.lastStep());
}

void LogPass::finish() {
  Tracebacks.finish(
      [&](const PythonError &E) { Errors.exception(E, Scalars.lastStep()); });
  Errors.finish();
  Watchdog.finish();
  Stacks.finish();
  Serving.finish();
  Dialects.finish();
  Scalars.finish();
}

static void readLines(StringRef Text, Source &Into, bool WithMetrics) {
  LogPass Pass(Into, WithMetrics);
  StructuredLog Json;
  forEachLine(Text, [&](StringRef Line, int64_t Number) {
    StringRef Plain = Json.plain(Line);
    if (Plain.data() == Line.data())
      Pass.line(Line, Number);
    else // a message may be a traceback
      forEachLine(Plain, [&](StringRef Part, int64_t) {
        Pass.line(Part, Number);
        return true;
      });
    return true;
  });
  Pass.finish();
}

void readPrintedText(StringRef Text, Source &Into) {
  readLines(Text, Into, false);
}

Error TextLogReader::read(InputFile &File, Source &Into) const {
  Expected<StringRef> Contents = File.contents();
  if (!Contents)
    return Contents.takeError();
  std::string Converted;
  StringRef Text = asUtf8(*Contents, Converted);
  readLines(Text, Into, true);
  size_t Zeros = Text.count('\0');
  if (Zeros)
    Into.warn(Into.path() + ": " + formatCount(Zeros) +
                  " zero bytes inside the text",
              "a disk that was full or a machine that crashed leaves them; "
              "the lines around them were read");
  return Error::success();
}

} // namespace culprit
