//===- JsonLines.cpp --------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/JsonLines.h"
#include "Readers/JsonRecords.h"
#include "Readers/TextLines.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace culprit {

Match JsonLinesReader::matches(const InputFile &File) const {
  StringRef Head = File.head();
  Head.consume_front("\xEF\xBB\xBF");
  if (!Head.ltrim().starts_with("{"))
    return Match::No;
  // Python's dicts without a step are what Transformers prints; the reader of
  // logs knows how to count those.
  if (Head.ltrim().starts_with("{'") && !shapeOf(Head.ltrim()).Step)
    return Match::No;
  // Records of metrics among the first lines decide. Objects of text, as in
  // structured logs and lists of requests, are not ours.
  unsigned Lines = 0, Metrics = 0, Numeric = 0;
  bool Whole = Head.size() < InputFile::HeadBytes;
  forEachLine(completeLines(Head, Whole), [&](StringRef Line, int64_t) {
    Line = Line.trim();
    if (Line.empty())
      return true;
    size_t End = 0;
    RecordShape Shape = shapeOf(Line, &End);
    if (!Shape.Object || !Line.drop_front(End).trim().empty())
      return ++Lines < 20; // broken, or no object
    Metrics += Shape.isMetrics() && Shape.Texts <= Shape.Numbers;
    Numeric += Shape.Numbers > Shape.Texts;
    return ++Lines < 20;
  });
  // A lone object without a step is a configuration, and so is one whose only
  // step is the length of the run, or a *.json that measures nothing.
  if (Lines == 1) {
    RecordShape Shape = shapeOf(Head.ltrim());
    bool Settings = Shape.Planned || (File.path().ends_with(".json") &&
                                      !Shape.LossLike);
    return Metrics && Shape.Step && !Settings ? Match::Likely : Match::No;
  }
  if (Metrics * 2 >= Lines && Metrics)
    return Match::Likely;
  return Numeric * 2 > Lines ? Match::Possible : Match::No;
}

static void warnBroken(Source &Into, int64_t Line, const char *Why, size_t Read,
                       bool Last) {
  std::string Rows = utostr(Read) + (Read == 1 ? " record" : " records");
  if (Last)
    Into.warn(Into.path() + ":" + Twine(Line) +
                  ": the last line breaks off: " + Why,
              "the run was probably killed while writing; the " + Rows +
                  " before it were read");
  else
    Into.warn(Into.path() + ":" + Twine(Line) + ": not a JSON object: " + Why,
              "the line was skipped, " + Rows +
                  " before it were read; delete it or repair it");
}

Error JsonLinesReader::read(InputFile &File, Source &Into) const {
  Expected<StringRef> Text = File.contents();
  if (!Text)
    return Text.takeError();
  ScalarRows Rows(Into);
  Rows.takeSetOfPath();
  size_t Read = 0, Broken = 0;
  int64_t LastLine = 0;
  forEachLine(*Text, [&](StringRef Line, int64_t Number) {
    Line = Line.trim();
    LastLine = Number;
    if (Line.empty())
      return true;
    LooseJson In(Line);
    Rows.begin(Number);
    if (In.next() == LooseJson::Token::Object && readRecord(In, Rows)) {
      Read += Rows.end();
      return true;
    }
    // Of a damaged file the first places tell enough.
    if (++Broken <= 3)
      warnBroken(Into, Number, In.error() ? In.error() : "something else", Read,
                 Line.end() >= Text->rtrim().end());
    return true;
  });
  if (Broken > 3)
    Into.warn(Into.path() + ": " + Twine(Broken - 3) + " more of " +
              Twine(LastLine) + " lines are not JSON objects");
  Rows.finish();
  if (Rows.rows() == 0)
    return failure(Into.path() + ": none of its lines holds a number",
                   "a line is an object such as {\"step\": 1, \"loss\": 2.5}");
  return Error::success();
}

} // namespace culprit
