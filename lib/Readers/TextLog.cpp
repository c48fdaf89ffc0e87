//===- TextLog.cpp ----------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/TextLog.h"
#include "Readers/LogDialects.h"
#include "Readers/LogErrors.h"
#include "Readers/LogLikeness.h"
#include "Readers/LogLine.h"
#include "Readers/StackLines.h"
#include "Readers/TextLines.h"
#include "Readers/Traceback.h"
#include "Readers/WatchdogLines.h"
#include "Support/Units.h"

using namespace llvm;

namespace culprit {

Match TextLogReader::matches(const InputFile &File) const {
  bool Whole = File.head().size() < InputFile::HeadBytes;
  switch (logLikeness(File.head(), Whole)) {
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
  explicit LogPass(Source &S);

  void line(StringRef Raw, int64_t Number);
  void finish();

private:
  void addLine(const LogLine &L);

  Source &S;
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
};
} // namespace

LogPass::LogPass(Source &S)
    : S(S), Lines(S.table(TableId::log_lines)), File(S.pool().intern(S.path())),
      FileRank(rankOfPath(S.path())), Scalars(S), Dialects(S, Scalars),
      Errors(S), Watchdog(S), Stacks(&S) {}

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

void LogPass::line(StringRef Raw, int64_t Number) {
  LogLine L = Parser.parse(Raw, Number);
  if (!L.Text.empty())
    addLine(L);
  Watchdog.line(L);
  Stacks.line(L);
  scanLine(L.Text, Scan);
  TracebackReader::Use Use = TracebackReader::Use::None;
  if (Scan.Traceback || !Tracebacks.empty())
    Use = Tracebacks.line(L, Scan.Traceback, [&](const PythonError &E) {
      Errors.exception(E, Scalars.lastStep());
    });
  if (Use == TracebackReader::Use::Part || L.Text.empty())
    return;
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
  Dialects.finish();
  Scalars.finish();
}

Error TextLogReader::read(InputFile &File, Source &Into) const {
  Expected<StringRef> Text = File.contents();
  if (!Text)
    return Text.takeError();
  LogPass Pass(Into);
  forEachLine(*Text, [&](StringRef Line, int64_t Number) {
    Pass.line(Line, Number);
    return true;
  });
  Pass.finish();
  size_t Zeros = Text->count('\0');
  if (Zeros)
    Into.warn(Into.path() + ": " + formatCount(Zeros) +
                  " zero bytes inside the text",
              "a disk that was full or a machine that crashed leaves them; "
              "the lines around them were read");
  return Error::success();
}

} // namespace culprit
