//===- JsonLines.cpp --------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/JsonLines.h"
#include "Readers/ConfigRows.h"
#include "Readers/JsonRecords.h"
#include "Readers/TextLines.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace culprit {

/// The object over several lines that \p Text begins with, its closing bracket
/// on a line's end; empty if there is none. LAVIS writes its settings so in
/// front of the records of a log, and again when a run is resumed.
static StringRef indentedObject(StringRef Text) {
  auto [First, Rest] = Text.split('\n');
  if (First.trim() != "{" || Rest.empty())
    return "";
  LooseJson In(Text);
  if (In.next() != LooseJson::Token::Object ||
      !In.skip(LooseJson::Token::Object))
    return "";
  StringRef Behind = Text.drop_front(In.end()).split('\n').first;
  return Behind.trim().empty() ? Text.take_front(In.end()) : "";
}

Match JsonLinesReader::matches(const InputFile &File) const {
  StringRef Head = File.head();
  Head.consume_front("\xEF\xBB\xBF");
  if (!Head.ltrim().starts_with("{"))
    return Match::No;
  if (StringRef Settings = indentedObject(Head); !Settings.empty()) {
    Head = Head.drop_front(Settings.size()).ltrim();
    if (!shapeOf(Head).isMetrics())
      return Match::No;
    // One record behind settings is no lone object.
    Head = Head.take_front(Head.rfind('\n') + 1);
    return Head.empty() ? Match::No : Match::Likely;
  }
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
  ConfigRows Config(Into, "");
  size_t Read = 0, Broken = 0;
  int64_t LastLine = 0;
  const StringRef Whole = withoutMark(*Text);
  // Names that all records have between them, or most of those of a long file.
  std::vector<std::string> Keys;
  forEachLine(Whole, [&](StringRef Line, int64_t Number) {
    collectKeys(Line, Keys);
    return Number < 1000 && Keys.size() < 500;
  });
  Rows.expect(Keys);
  size_t SettingsEnd = 0;
  forEachLine(Whole, [&](StringRef Line, int64_t Number) {
    const size_t At = Line.data() - Whole.data();
    if (At < SettingsEnd)
      return true;
    LastLine = Number;
    if (Line.starts_with("{") && Line.trim() == "{")
      if (StringRef Object = indentedObject(Whole.drop_front(At));
          !Object.empty()) {
        SettingsEnd = At + Object.size();
        LineCounter Inner(Object, Number);
        LooseJson In(Object);
        In.next();
        readSettings(In, Object, Config, Rows, Inner);
        return true;
      }
    Line = Line.trim();
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
  Config.finish();
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
