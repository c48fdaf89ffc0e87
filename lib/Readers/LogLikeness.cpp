//===- LogLikeness.cpp ------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/LogLikeness.h"
#include "Readers/AccessLine.h"
#include "Readers/DynamoLine.h"
#include "Readers/ErrorSignatures.h"
#include "Readers/LogDialects.h"
#include "Readers/LogSeries.h"
#include "Readers/LogLine.h"
#include "Readers/StructuredLog.h"
#include "Readers/TextLines.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace culprit {

/// Whether the bytes are text: nearly no control characters. UTF-16 and
/// binaries are full of zeros.
static bool isMostlyPrintable(StringRef Head) {
  size_t Odd = 0;
  for (unsigned char C : Head)
    Odd += C < 0x20 && C != '\n' && C != '\r' && C != '\t' && C != 0x1b &&
           C != '\b' && C != '\f' && C != '\a';
  return Odd * 200 <= Head.size();
}

/// A line as programs are written. Indented lines of a traceback are not asked.
static bool isCode(StringRef Line) {
  StringRef Body = Line.ltrim();
  for (StringRef Start :
       {"import ",  "from ",      "def ",    "class ",  "return ",
        "#include", "if (",       "for (",   "while (", "} else",
        "elif ",    "else:",      "try:",    "except ", "@",
        "//",       "/*",         "* ",      "#!",      "namespace ",
        "using ",   "template <", "static ", "const ",  "function ",
        "export ",  "set -",      "self.",   "assert ", "raise ",
        "with ",    "void ",      "int ",    "local ",  "let ",
        "--- ",     "print("})
    if (Body.starts_with(Start))
      return true;
  return Body.ends_with(";") || Body.ends_with("{") || Body == "}" ||
         Body.ends_with("):");
}

/// A JSON object that is no line of a structured log.
static bool isDataObject(StringRef Line) {
  return Line.starts_with("{\"") && !Line.contains("\"level\"") &&
         !Line.contains("\"message\"") && !Line.contains("\"msg\"");
}

/// A line of Markdown, HTML, XML or TeX.
static bool isMarkup(StringRef Line) {
  StringRef Body = Line.ltrim();
  StringRef Hashes = Body.take_while([](char C) { return C == '#'; });
  if (!Hashes.empty() && Hashes.size() <= 6 &&
      Body.drop_front(Hashes.size()).starts_with(" "))
    return true;
  for (StringRef Start : {"```", "**", "- ", "<", "| ", "> ", "\\"})
    if (Body.starts_with(Start))
      return true;
  return false;
}

/// A line in which pytest, GoogleTest, lit or CTest tell a result.
static bool isTestResult(StringRef Line) {
  StringRef Body = Line.ltrim();
  if (Body.starts_with("[       OK ] ") || Body.starts_with("[  FAILED  ] ") ||
      Body.starts_with("[ RUN      ] "))
    return true;
  if (Body.starts_with("PASS: ") || Body.starts_with("FAIL: "))
    return Body.contains(" :: ");
  if (Body.contains("::") &&
      (Body.contains(" PASSED") || Body.contains(" FAILED")))
    return true;
  return Body.contains(" Test ") && Body.contains("#") &&
         Body.ends_with(" sec");
}

/// A line of the kernel's or the driver's that has lost its stamp.
static bool isKernelLine(StringRef Line) {
  StringRef Body = Line.ltrim();
  return Body.starts_with("kernel: ") || Body.starts_with("NVRM: ");
}

static bool isErrorOrWarningName(StringRef Word) {
  if (Word.empty() || !all_of(Word, [](char C) {
        return isAlnum(C) || C == '_' || C == '.';
      }))
    return false;
  for (StringRef End : {"Error", "Exception", "Warning", "Interrupt"})
    if (Word.size() > End.size() && Word.ends_with(End))
      return true;
  return false;
}

/// The last line of a traceback or a warning as Python prints them, of which
/// somebody kept no more: `torch.OutOfMemoryError: ...`, `a.py:31: UserWarning:
/// ...`. An error of any name is one, known or not.
static bool tellsException(StringRef Line) {
  StringRef Body = Line.trim();
  if (isErrorOrWarningName(Body.split(": ").first.rtrim(':')))
    return Body.contains(':');
  auto [Place, Message] = Body.split("Warning: ");
  return !Message.empty() && Place.contains(": ") &&
         isErrorOrWarningName((Place.rsplit(' ').second + "Warning").str());
}

/// A line of Go's loggers: `time=2025-03-04T02:30:04Z level=WARN msg="..."`.
static bool isLogfmtLine(StringRef Line) {
  StringRef Body = Line.ltrim();
  if (!Body.starts_with("time=") && !Body.starts_with("ts=") &&
      !Body.starts_with("level="))
    return false;
  return Body.contains("level=") && Body.contains(" msg=");
}

namespace {
/// Counts over the lines of a head.
struct Signs {
  unsigned Lines = 0, Marked = 0, Metrics = 0, Errors = 0, Tracebacks = 0;
  unsigned Code = 0, Data = 0, Markup = 0;
  /// Heads of tracebacks of any form, and what bash says of a killed process:
  /// not enough for a text of any name.
  unsigned Heads = 0;
  unsigned Series = 0; ///< Lines that come again with a metric's new numbers.
  unsigned Told = 0;  ///< Exceptions and warnings of any name.
  unsigned Words = 0; ///< Lines of three words or more.
  /// A name and a sentence: `llm_load_vocab: missing ...`.
  unsigned Tagged = 0;
};
} // namespace

/// Three words or more, which columns of numbers have not.
static bool hasWords(StringRef Line) {
  unsigned Words = 0;
  while (!Line.empty() && Words < 3) {
    StringRef Word;
    std::tie(Word, Line) = Line.ltrim().split(' ');
    Words += count_if(Word, isAlpha) >= 2;
  }
  return Words == 3;
}

/// A message behind the name of who says it. Settings have values of a word or
/// two there.
static bool isTagged(StringRef Line) {
  auto [Name, Message] = Line.ltrim().split(": ");
  return !Name.empty() && !Name.contains(' ') && hasWords(Message);
}

static Signs countSigns(StringRef Head, bool Whole) {
  Signs Out;
  LogLineParser Parser;
  LineScan Scan;
  PrintedTable Table;
  LogSeries Series;
  LogKeys Keys;
  bool TracebackHead = false, InTraceback = false, Ruled = false;
  forEachLine(completeLines(Head, Whole), [&](StringRef Line, int64_t Number) {
    if (Line.trim().empty())
      return true;
    ++Out.Lines;
    LogLine L = Parser.parse(Line, Number);
    scanLine(L.Text, Scan);
    InTraceback = Scan.Traceback || (InTraceback && isSpace(Line[0]));
    const bool Boxed = isBoxLine(Line.trim(), Ruled);
    const bool InTable = Table.line(L.Body) != PrintedTable::Kind::Other;
    if (L.Stamped || L.Prefixed || L.Text.contains("%|") ||
        isTestResult(Line) || isStructuredLine(Line.ltrim()) ||
        parseAccessLine(Line) || parseDynamoLine(L) || isKernelLine(Line) ||
        isLogfmtLine(Line) || Boxed ||
        InTable || isBlockLine(L.Text)) {
      ++Out.Marked;
    } else if (!InTraceback) { // which quotes code
      Out.Data += isDataObject(Line);
      Out.Code += isCode(Line) || isDataObject(Line);
      Out.Markup += isMarkup(Line);
    }
    // Documents quote the head indented, or without frames.
    Out.Tracebacks += TracebackHead && L.Body.ltrim().starts_with("File \"");
    TracebackHead = Scan.Traceback && !isSpace(Line[0]);
    Out.Metrics +=
        ((Scan.Metric || Scan.Overflow) && isMetricsLine(L.Body)) ||
        isWordlessLine(L.Body);
    if (Scan.Metric)
      Series.add(L, Keys);
    Out.Errors += findError(L.Text, Scan).has_value();
    Out.Told += tellsException(L.Body);
    Out.Words += hasWords(L.Text);
    Out.Tagged += isTagged(L.Text);
    Out.Heads += (Scan.Traceback && !isSpace(Line[0])) || L.Body == "Killed";
    return Out.Lines < 1000;
  });
  Out.Series = Series.repeated();
  return Out;
}

/// What a file with the name of a log is, by what is in it: what documents and
/// programs quote is no quotation there, but its data may be that of others.
static LogLikeness likenessOfNamed(const Signs &S) {
  if (S.Data * 4 >= S.Lines)
    return LogLikeness::No;
  if (S.Errors || S.Heads || S.Told || S.Tagged * 2 >= S.Lines)
    return LogLikeness::Strong;
  // Lines that nobody knows: of anything else they would not be called a log.
  const bool Foreign = (S.Code + S.Markup) * 4 >= S.Lines || S.Data;
  return !Foreign && S.Words * 2 >= S.Lines ? LogLikeness::Weak
                                            : LogLikeness::No;
}

LogLikeness logLikeness(StringRef Head, bool Whole, bool Named) {
  if (Head.trim().empty() || !isMostlyPrintable(Head))
    return LogLikeness::No;
  Signs S = countSigns(Head, Whole);
  if (S.Lines == 0)
    return LogLikeness::No; // one line longer than the head: no log
  unsigned Good = S.Marked + S.Metrics;
  if (Good * 2 >= S.Lines)
    return LogLikeness::Strong;
  LogLikeness OfName = Named ? likenessOfNamed(S) : LogLikeness::No;
  if (OfName == LogLikeness::Strong)
    return OfName;
  // Programs and documents quote errors; a traceback's own code lines are
  // fewer than a program's.
  unsigned Foreign = S.Code + S.Markup;
  bool Document = Foreign * 4 >= S.Lines && Foreign > Good;
  if (Document && !(S.Tracebacks && S.Code * 3 < S.Lines && !S.Markup))
    return OfName;
  if (S.Tracebacks || S.Metrics >= 2 || S.Metrics == S.Lines)
    return LogLikeness::Weak;
  // An error among much else may be a sentence about it.
  if (S.Errors * 10 >= S.Lines || (S.Errors && Good * 20 >= S.Lines))
    return LogLikeness::Weak;
  if (S.Series >= (Named ? 2 : 3) && S.Series * 20 >= S.Lines &&
      S.Data * 4 < S.Lines)
    return LogLikeness::Weak;
  return Good >= 3 && Good * 20 >= S.Lines ? LogLikeness::Weak : OfName;
}

} // namespace culprit
