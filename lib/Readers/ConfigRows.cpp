//===- ConfigRows.cpp -------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/ConfigRows.h"
#include "Readers/JsonRecords.h"
#include "Support/Units.h"
#include "llvm/ADT/StringExtras.h"
#include <cmath>

using namespace llvm;

namespace culprit {

using Token = LooseJson::Token;

/// Longer texts are cut. A chat template with tools is 10 KB, and what matters
/// in it stands at its end; a list of the parameters that a run freezes has
/// hundreds of names, and each of them counts.
static constexpr size_t MaxValue = 65536;

ConfigRows::ConfigRows(Source &S, StringRef Prefix, Naming Name)
    : S(S), Prefix(Prefix), Name(Name), File(S.pool().intern(S.path())),
      Run(S.pool().intern(S.Run)) {}

void ConfigRows::add(StringRef Key, StringRef Value, int64_t Line) {
  std::string Full = Name ? Name(Key) : Key.str();
  if (Full.empty() && Name)
    return;
  if (Added == MaxRows) {
    ++Dropped;
    return;
  }
  ++Added;
  TableBuilder &T = S.table(TableId::config);
  T.addRow();
  T.setId(config::source, File);
  T.setId(config::run, Run);
  T.set(config::key, StringRef(Full.insert(0, Prefix)));
  T.set(config::value, Value.take_front(MaxValue));
  if (std::optional<double> Number = parseNumber(Value))
    T.set(config::number, *Number);
  T.set(config::place, Line);
}

void ConfigRows::finish() {
  if (Dropped)
    S.warn(S.path() + ": " + formatCount(Dropped) + " settings beyond the " +
               "first " + formatCount(MaxRows) + " were left out",
           "a file of this size is hardly a configuration; leave it out of "
           "the case");
}

std::string optionName(StringRef Key) {
  std::string Out = Key.str();
  for (size_t I = 1; I + 1 < Out.size(); ++I)
    if (Out[I] == '-' && isAlnum(Out[I - 1]) && isAlnum(Out[I + 1]))
      Out[I] = '_';
  return Out;
}

std::string settingName(StringRef Key) {
  return optionName(any_of(Key, isLower) ? Key.str() : Key.lower());
}

Error brokenOff(const LooseJson &In, LineCounter &Lines, size_t Read,
                Source &Into) {
  std::string Where =
      (Into.path() + ":" + Twine(Lines.lineOf(In.offset()))).str();
  std::string What = In.error() ? In.error() : "it breaks off";
  if (Read == 0)
    return failure(Where + ": " + What, "write the file again");
  Into.warn(Where + ": " + What, "the " + utostr(Read) +
                                     " values before it were read; repair the "
                                     "file to get the rest");
  return Error::success();
}

bool isRecordList(const LooseJson &In, StringRef Text) {
  StringRef Rest = Text.drop_front(In.end()).ltrim();
  if (!Rest.starts_with("{"))
    return false;
  RecordShape Shape = shapeOf(Rest);
  return Shape.Object && Shape.Step && Shape.Numbers > 1;
}

bool readRecordList(LooseJson &In, ScalarRows &Scalars, LineCounter &Lines) {
  for (;;) {
    Token T = In.next();
    switch (T) {
    case Token::EndArray:
      return true;
    case Token::Object:
      Scalars.begin(Lines.lineOf(In.offset()));
      if (!readRecord(In, Scalars))
        return false;
      Scalars.end();
      break;
    case Token::Error:
    case Token::End:
      return false;
    default:
      if (!In.skip(T))
        return false;
    }
  }
}

/// A list of plain values as one setting: [1, 2, 3]. None when it holds
/// objects or lists.
static std::optional<StringRef> plainList(StringRef Text, size_t Begin) {
  size_t End = Text.find_first_of("[]{}", Begin + 1);
  if (End == StringRef::npos || Text[End] != ']')
    return std::nullopt;
  return Text.slice(Begin, End + 1);
}

namespace {
/// The key path through objects and lists.
class Walker {
public:
  Walker(LooseJson &In, StringRef Text, ConfigRows &Config, ScalarRows &Scalars,
         LineCounter &Lines)
      : In(In), Text(Text), Config(Config), Scalars(Scalars), Lines(Lines) {}

  bool run();

private:
  struct Level {
    size_t Path;   ///< Length of the path outside.
    int64_t Index; ///< Of the next element of a list; -1 in an object.
  };

  void enterElement();
  bool openList();

  LooseJson &In;
  StringRef Text;
  ConfigRows &Config;
  ScalarRows &Scalars;
  LineCounter &Lines;
  SmallVector<Level, 8> Levels;
  std::string Path;
  size_t Before = 0;
};
} // namespace

static void appendKey(std::string &Path, StringRef Key) {
  if (!Path.empty())
    Path += '.';
  Path += Key;
}

/// In a list, an element's number is its key.
void Walker::enterElement() {
  if (Levels.empty() || Levels.back().Index < 0)
    return;
  Before = Path.size();
  appendKey(Path, itostr(Levels.back().Index++));
}

bool Walker::openList() {
  if (isRecordList(In, Text))
    return readRecordList(In, Scalars, Lines);
  if (std::optional<StringRef> Plain = plainList(Text, In.offset())) {
    int64_t Line = Lines.lineOf(In.offset());
    if (!In.skip(Token::Array))
      return false;
    std::string Value;
    for (char C : *Plain)
      if (C != '\n' && C != '\r' &&
          !(C == ' ' && StringRef(Value).ends_with(" ")))
        Value += C;
    Config.add(Path, Value, Line);
    return true;
  }
  Levels.push_back({Before, 0});
  return true;
}

bool Walker::run() {
  Levels.push_back({0, -1});
  for (;;) {
    Token T = In.next();
    if (T != Token::Key && T != Token::EndObject && T != Token::EndArray)
      enterElement();
    switch (T) {
    case Token::Key:
      Before = Path.size();
      appendKey(Path, In.text());
      continue;
    case Token::Object:
      Levels.push_back({Before, -1});
      continue;
    case Token::Array: {
      size_t Open = Levels.size();
      if (!openList())
        return false;
      if (Levels.size() > Open)
        continue;
      break;
    }
    case Token::EndObject:
    case Token::EndArray:
      Path.resize(Levels.pop_back_val().Path);
      if (Levels.empty())
        return true;
      continue;
    case Token::Error:
    case Token::End:
      return false;
    case Token::Null:
      Config.add(Path, "null", Lines.lineOf(In.offset()));
      break;
    default:
      Config.add(Path, In.text(), Lines.lineOf(In.offset()));
    }
    Path.resize(Before);
  }
}

bool readSettings(LooseJson &In, StringRef Text, ConfigRows &Config,
                  ScalarRows &Scalars, LineCounter &Lines) {
  return Walker(In, Text, Config, Scalars, Lines).run();
}

} // namespace culprit
