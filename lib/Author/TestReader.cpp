//===- TestReader.cpp -------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Author/TestReader.h"
#include "Support/Glob.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace culprit {

using Kind = YamlValue::Kind;

ArrayRef<std::string> expectedReportKeys() {
  static const std::vector<std::string> Keys = {
      "symptom", "at",          "message",  "score", "severity",
      "share",   "recoverable", "evidence", "doubt"};
  return Keys;
}

Error TestReader::wrong(unsigned Line, const Twine &What, const Twine &Hint) {
  return failure(Path + ":" + Twine(Line) + ": " + What, Hint);
}

void TestReader::read(StringRef Document, unsigned FirstLine) {
  if (Error E = document(Document, FirstLine))
    append_range(Into.Mistakes, toDiagnostics(std::move(E)));
}

Error TestReader::document(StringRef Text, unsigned FirstLine) {
  Expected<YamlValue> Map = parseYaml(Path, Text, FirstLine);
  if (!Map)
    return Map.takeError();
  if (Map->What != Kind::Map)
    return wrong(Map->Line, "a case must be a map, not " + Map->word(),
                 "write name: ..., case: ... and expect: ...");
  if (Error E = checkKeys(Path, *Map, "a test case",
                          {"name", "case", "options", "expect", "detector"}))
    return E;
  if (const YamlValue *Detector = Map->find("detector")) {
    if (!Into.Detector.empty())
      return wrong(Detector->Line, "'detector' is given twice",
                   "it stands in the first case alone: a test is of one "
                   "detector");
    if (Detector->What != Kind::Text)
      return wrong(Detector->Line, "'detector' must be an id such as gpu/idle");
    Into.Detector = Detector->Text;
    Into.DetectorLine = Detector->Line;
    if (Map->Entries.size() == 1)
      return Error::success();
  }
  TestCase Out;
  for (const char *Key : {"name", "case", "expect"})
    if (!Map->find(Key))
      return wrong(Map->Line, Twine("the case has no '") + Key + "'",
                   "a case has name, case and expect");
  const YamlValue &Name = *Map->find("name");
  if (Name.What != Kind::Text || Name.Text.empty())
    return wrong(Name.Line, "the name of a case must be a text, not " +
                                Name.word());
  Out.Name = Name.Text;
  Out.Line = Name.Line;
  for (const TestCase &Other : Into.Cases)
    if (Other.Name == Out.Name)
      return wrong(Out.Line, "the name '" + Out.Name + "' is taken by line " +
                                 Twine(Other.Line));
  if (Error E = caseOf(*Map, Text, Out))
    return E;
  if (const YamlValue *Options = Map->find("options"))
    if (Error E = options(*Options, Out))
      return E;
  if (Error E = expectation(*Map->find("expect"), Out.Expected))
    return E;
  Into.Cases.push_back(std::move(Out));
  return Error::success();
}

Error TestReader::caseOf(const YamlValue &Map, StringRef Text, TestCase &Out) {
  auto It = llvm::find_if(
      Map.Entries, [](const YamlEntry &E) { return E.Key == "case"; });
  const YamlValue &Value = It->Value;
  Out.PathsLine = It->Line;
  switch (Value.What) {
  case Kind::Nothing:
    return wrong(It->Line, "the case is empty",
                 "write tables, or the path of a file; {} is a case without "
                 "anything");
  case Kind::Text:
    Out.Paths.push_back(Value.Text);
    return Error::success();
  case Kind::List:
    for (const YamlValue &Item : Value.Items) {
      if (Item.What != Kind::Text)
        return wrong(Item.Line, "a case is tables, a path or a list of paths, "
                                "not a list with " +
                                    Item.word());
      Out.Paths.push_back(Item.Text);
    }
    if (Out.Paths.empty())
      return wrong(It->Line, "the list of files is empty");
    return Error::success();
  case Kind::Map:
    break;
  }
  // The tables end where the next key begins.
  size_t End =
      std::next(It) == Map.Entries.end() ? Text.size() : std::next(It)->Begin;
  size_t LineBegin = Text.rfind('\n', Value.Begin);
  LineBegin = LineBegin == StringRef::npos ? 0 : LineBegin + 1;
  Out.Tables.assign(Value.Line - 1, '\n');
  Out.Tables.append(Value.Begin - LineBegin, ' ');
  Out.Tables += Text.slice(Value.Begin, End).rtrim();
  Out.Tables += '\n';
  return Error::success();
}

Error TestReader::options(const YamlValue &Map, TestCase &Out) {
  if (Map.What != Kind::Map)
    return wrong(Map.Line, "options must be a map, not " + Map.word(),
                 "write options: {min_share: 0.3}");
  if (Error E = checkOnce(Path, Map))
    return E;
  for (const YamlEntry &E : Map.Entries) {
    if (E.Value.What != Kind::Text)
      return wrong(E.Line, "option '" + E.Key +
                               "' must be a number, a text, true or false, "
                               "not " +
                               E.Value.word());
    Out.Options.push_back({E.Key, E.Value.Text, E.Line});
  }
  return Error::success();
}

Error TestReader::expectation(const YamlValue &Value, Expectation &Out) {
  Out.Line = Value.Line;
  switch (Value.What) {
  case Kind::Nothing:
    return wrong(Value.Line, "nothing is expected",
                 "write a list of reports, or clear, which is that there are "
                 "none");
  case Kind::List:
    return reports(Value, Out);
  case Kind::Text: {
    if (Value.Text == "clear")
      Out.What = Expectation::Kind::Clear;
    else if (Value.Text == "skipped")
      Out.What = Expectation::Kind::Skipped;
    else if (Value.Text == "failed")
      Out.What = Expectation::Kind::Failed;
    else {
      std::string Close =
          closestName(Value.Text, {"clear", "skipped", "failed"});
      return wrong(Value.Line, "cannot expect " + Value.word(),
                   (Close.empty() ? "" : "did you mean '" + Close + "'? ") +
                       "write clear, skipped, failed or a list of reports");
    }
    return Error::success();
  }
  case Kind::Map:
    break;
  }
  if (Value.find("symptom"))
    return wrong(Value.Line, "reports must be a list",
                 "begin the report with a dash: - symptom: ...");
  if (Error E = checkKeys(Path, Value, "what is expected",
                          {"reports", "clear", "skipped", "failed",
                           "unjudged"}))
    return E;
  for (const YamlEntry &E : Value.Entries)
    if (Error Bad = E.Key == "unjudged" ? unjudged(E.Value, Out)
                                        : outcome(E, Out))
      return Bad;
  if (Value.Entries.empty())
    return wrong(Value.Line, "nothing is expected");
  return Error::success();
}

Error TestReader::outcome(const YamlEntry &E, Expectation &Out) {
  if (Out.What != Expectation::Kind::Any)
    return wrong(E.Line, "a case has one outcome: reports, clear, skipped or "
                         "failed");
  if (E.Key == "reports") {
    if (E.Value.What != Kind::List)
      return wrong(E.Line, "reports must be a list, not " + E.Value.word());
    return reports(E.Value, Out);
  }
  if (E.Key == "clear") {
    Out.What = Expectation::Kind::Clear;
    if (E.Value.What != Kind::Text || E.Value.Text != "true")
      return wrong(E.Line, "write clear: true");
    return Error::success();
  }
  Out.What = E.Key == "skipped" ? Expectation::Kind::Skipped
                                : Expectation::Kind::Failed;
  if (E.Value.What == Kind::Text && !E.Value.Quoted && E.Value.Text == "true")
    return Error::success();
  if (E.Value.What == Kind::Text && !E.Value.Text.empty()) {
    Out.Texts.push_back(E.Value.Text);
    return Error::success();
  }
  if (E.Key == "failed" || E.Value.What != Kind::List || E.Value.Items.empty())
    return wrong(E.Line, "'" + E.Key + "' wants a text, not " +
                             E.Value.word());
  for (const YamlValue &Item : E.Value.Items) {
    if (Item.What != Kind::Text)
      return wrong(Item.Line, "what is missing must be a text, not " +
                                  Item.word());
    Out.Texts.push_back(Item.Text);
  }
  return Error::success();
}

Error TestReader::unjudged(const YamlValue &Map, Expectation &Out) {
  if (Map.What != Kind::Map)
    return wrong(Map.Line, "unjudged must be a map, not " + Map.word(),
                 "write unjudged: {symptom: \"what is needed\"}");
  if (Error E = checkOnce(Path, Map))
    return E;
  for (const YamlEntry &E : Map.Entries) {
    if (E.Value.What != Kind::Text)
      return wrong(E.Line, "what '" + E.Key + "' needs must be a text, not " +
                               E.Value.word());
    Out.Unjudged.push_back({E.Key, E.Value.Text, E.Line});
  }
  return Error::success();
}

Error TestReader::reports(const YamlValue &List, Expectation &Out) {
  // That none is expected is said by an empty list too.
  Out.What = List.Items.empty() ? Expectation::Kind::Clear
                                : Expectation::Kind::Reports;
  for (const YamlValue &Item : List.Items) {
    if (Item.What != Kind::Map)
      return wrong(Item.Line, "a report must be a map, not " + Item.word(),
                   "write - symptom: ...");
    if (Error E = report(Item, Out.Reports.emplace_back()))
      return E;
  }
  return Error::success();
}

Error TestReader::report(const YamlValue &Map, ExpectedReport &Out) {
  Out.Line = Map.Line;
  if (Error E = checkKeys(Path, Map, "a report", expectedReportKeys()))
    return E;
  if (!Map.find("symptom"))
    return wrong(Map.Line, "the report has no symptom");
  for (const YamlEntry &E : Map.Entries) {
    if (E.Key != "at") {
      if (Error Bad = field(E, Out))
        return Bad;
      continue;
    }
    if (E.Value.What != Kind::Map)
      return wrong(E.Line, "'at' must be a map, not " + E.Value.word(),
                   "write at: {device: 0}");
    if (Error Bad = checkOnce(Path, E.Value))
      return Bad;
    for (const YamlEntry &Place : E.Value.Entries) {
      if (Place.Value.What != Kind::Text)
        return wrong(Place.Line, "at." + Place.Key +
                                     " must be a number or a text, not " +
                                     Place.Value.word());
      Out.Fields.push_back({"at." + Place.Key, Place.Value.Text, Place.Line});
    }
  }
  return Error::success();
}

Error TestReader::field(const YamlEntry &E, ExpectedReport &Out) {
  if (E.Value.What != Kind::Text)
    return wrong(E.Line, "the " + E.Key + " of a report must be one value, "
                                          "not " +
                             E.Value.word());
  StringRef Text = E.Value.Text;
  if (E.Key == "severity" && Text != "info" && Text != "warning" &&
      Text != "error")
    return wrong(E.Line, "the severity is info, warning or error, not " +
                             E.Value.word());
  uint64_t Count;
  if (E.Key == "evidence" && Text.getAsInteger(10, Count))
    return wrong(E.Line, "evidence wants how many rows there are, not " +
                             E.Value.word());
  if ((E.Key == "score" || E.Key == "share" || E.Key == "recoverable") &&
      !WrittenNumber::parse(Text))
    return wrong(E.Line, "the " + E.Key + " of a report must be a number" +
                             (E.Key == "recoverable" ? " of ns" : "") +
                             ", not " + E.Value.word());
  Out.Fields.push_back({E.Key, Text.str(), E.Line});
  return Error::success();
}

} // namespace culprit
