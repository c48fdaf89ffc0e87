//===- LogPrefix.cpp --------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/LogPrefix.h"
#include "Readers/ScalarNames.h"
#include "Readers/TimeStamp.h"
#include "Support/FindText.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace culprit {

StringRef levelOf(StringRef Word) {
  switch (Word.size()) {
  case 4:
    return Word == "INFO" ? "info" : Word == "WARN" ? "warning" : "";
  case 5:
    return Word == "ERROR"   ? "error"
           : Word == "DEBUG" ? "debug"
           : Word == "FATAL" ? "critical"
                             : "";
  case 7:
    return Word == "WARNING" ? "warning" : "";
  case 8:
    return Word == "CRITICAL" ? "critical" : "";
  default:
    return "";
  }
}

/// glog's letters, and those that PyTorch's Python adds: V (verbose), D and C.
static StringRef levelOfLetter(char C) {
  return C == 'V' || C == 'D'   ? "debug"
         : C == 'I'             ? "info"
         : C == 'W'             ? "warning"
         : C == 'E'             ? "error"
         : C == 'F' || C == 'C' ? "critical"
                                : "";
}

/// [E321 02:07:08.4 Foo.cpp:607], V1122 12:00:00.1 and [E Foo.cpp:563], as
/// glog and PyTorch's C++ and Python write them.
static StringRef glogLevel(StringRef Text) {
  if (Text.size() < 4)
    return "";
  StringRef Level = levelOfLetter(Text[0]);
  if (Level.empty())
    return "";
  StringRef Rest = Text.drop_front();
  StringRef Date = Rest.take_while(isDigit);
  Rest = Rest.drop_front(Date.size());
  if (Date.empty()) // [E ProcessGroupNCCL.cpp:563]
    return Rest.consume_front(" ") && Rest.contains(".cpp:") ? Level : "";
  if (Date.size() < 3 || Date.size() > 4 || !Rest.consume_front(" "))
    return "";
  return leadingTimeStamp(Rest) ? Level : "";
}

std::optional<int64_t> rankIn(StringRef Text) {
  Text = Text.take_front(200);
  for (size_t At = findText(Text, "ank"); At != StringRef::npos;
       At = findText(Text, "ank", At + 3)) {
    if (At == 0 || (Text[At - 1] != 'r' && Text[At - 1] != 'R'))
      continue;
    StringRef Before = Text.take_front(At - 1);
    if (!Before.empty() && (isAlnum(Before.back()) || Before.back() == '_'))
      continue;
    // What is said of another rank does not come from it.
    bool Other = false;
    for (StringRef Word : {" peer", " by", " from", " for", " to", " remote"})
      Other |= Before.rtrim().ends_with_insensitive(Word);
    if (Other)
      continue;
    StringRef Rest = Text.drop_front(At + 3).ltrim(" =:#_");
    StringRef Digits = Rest.take_while(isDigit);
    int64_t Rank = 0;
    if (!Digits.empty() && Digits.size() < 7 && !Digits.getAsInteger(10, Rank))
      return Rank;
  }
  return std::nullopt;
}

namespace {
/// Takes known prefixes off the front of a line.
class PrefixReader {
public:
  explicit PrefixReader(LogLine &L) : L(L), Rest(L.Text) {}

  void run() {
    for (unsigned I = 0; I != 8 && takeOne(); ++I)
      ;
    L.Body = skipBlanks(Rest);
  }

private:
  bool takeOne();
  bool takeStamp();
  void takeLabels();
  bool takePlace();
  bool takeBracket();
  bool takeWorker();
  bool takeRanks();
  bool takeSource();
  bool takeModule();
  void takeLogger();
  bool takeWord();
  void level(StringRef Level) {
    if (L.Level.empty())
      L.Level = Level;
    L.Prefixed = true;
  }

  LogLine &L;
  StringRef Rest;
};
} // namespace

bool PrefixReader::takeStamp() {
  std::optional<TimeStamp> Stamp = leadingTimeStamp(Rest);
  if (!Stamp)
    return false;
  if (!L.WallTime)
    L.WallTime = Stamp->Unix;
  if (!L.Stamped && Rest.begin() == L.Text.begin())
    L.Unstamped = L.Text.drop_front(Stamp->Length);
  L.Stamped = L.Prefixed = true;
  bool Open = Rest.starts_with("[") &&
              !Rest.take_front(Stamp->Length).ends_with("]");
  Rest = Rest.drop_front(Stamp->Length);
  Rest.consume_front(": "); // nnU-Net
  if (Open)
    takeLabels();
  return true;
}

/// What some servers put behind a stamp in its bracket: " TP6 PP1]" of SGLang,
/// " E 135782 135782]" of Ray.
void PrefixReader::takeLabels() {
  size_t Close = Rest.take_front(40).find(']');
  if (Close == StringRef::npos || !Rest.starts_with(" "))
    return;
  StringRef Inner = Rest.slice(1, Close);
  for (char C : Inner)
    if (!isAlnum(C) && C != ' ' && C != '_' && C != '-')
      return;
  if (Inner.size() > 2 && Inner[1] == ' ' && isDigit(Inner[2]))
    level(levelOfLetter(Inner[0]));
  Rest = Rest.drop_front(Close + 1);
}

/// "158 torch/_dynamo/convert_frame.py:1551] " or "engine.py:135] " behind a
/// stamp: process and source line.
bool PrefixReader::takePlace() {
  StringRef Probe = Rest;
  StringRef Process = Probe.take_while(isDigit);
  if (!Process.empty()) {
    Probe = Probe.drop_front(Process.size());
    if (!Probe.consume_front(" "))
      return false;
  }
  size_t Close = Probe.take_front(160).find(']');
  if (Close == StringRef::npos)
    return false;
  StringRef Place = Probe.take_front(Close);
  auto [File, Line] = Place.rsplit(':');
  if (Place.contains(' ') || Line.empty() || !all_of(Line, isDigit) ||
      !(File.ends_with(".py") || File.ends_with(".cpp") ||
        File.ends_with(".cc")))
    return false;
  Rest = Probe.drop_front(Close + 1);
  return true;
}

/// [INFO], [rank3]:, [default0]:, [titan], [E321 02:07:08 Foo.cpp:607],
/// [loss_scaler.py:183:update_scale]; anything else belongs to the message.
bool PrefixReader::takeBracket() {
  size_t Close = Rest.take_front(80).find(']');
  if (!Rest.starts_with("[") || Close == StringRef::npos)
    return false;
  StringRef Inner = Rest.slice(1, Close).trim();
  StringRef Level = levelOf(Inner);
  if (Level.empty())
    Level = glogLevel(Inner);
  bool Known = !Level.empty() || Inner.contains(".py:") ||
               Inner.contains(".cpp:") || Inner == "titan" ||
               Inner.starts_with("default") || Inner == "deepspeed" ||
               Inner == "deepscale" || leadingTimeStamp(Inner).has_value();
  if (!Level.empty())
    level(Level);
  if (std::optional<int64_t> Rank = rankIn(Inner)) {
    L.Rank = L.Rank ? L.Rank : Rank;
    L.Prefixed = Known = true;
  }
  // torchrun's label of a local rank.
  StringRef Local = Inner;
  int64_t Rank = 0;
  if (!L.Rank && Local.consume_front("default") &&
      !Local.getAsInteger(10, Rank)) {
    L.Rank = Rank;
    L.Prefixed = true;
  }
  // A logger's name in front of its level: "[flashy.solver][INFO] - ".
  StringRef Next = Rest.drop_front(Close + 1);
  if (!Known && !Inner.empty() && isAlpha(Inner[0]) &&
      Next.consume_front("[")) {
    StringRef Second = Next.take_until([](char C) { return C == ']'; });
    Known = !levelOf(Second).empty() && all_of(Inner, [](char C) {
      return isAlnum(C) || C == '_' || C == '.';
    });
  }
  if (!Known)
    return false;
  Rest = Rest.drop_front(Close + 1);
  Rest.consume_front(":");
  return true;
}

/// "(0/4) Epoch 1, ..." of icefall behind its prefix: a rank and how many there
/// are, and no part of the epoch that is named.
bool PrefixReader::takeRanks() {
  StringRef Probe = Rest.ltrim(' ');
  unsigned Rank = 0, Ranks = 0, Epoch = 0;
  if (!L.Prefixed || !Probe.consume_front("(") ||
      Probe.consumeInteger(10, Rank) || !Probe.consume_front("/") ||
      Probe.consumeInteger(10, Ranks) || !Probe.consume_front(") Epoch ") ||
      Rank >= Ranks)
    return false;
  StringRef Behind = Probe;
  if (!Behind.consumeInteger(10, Epoch) && Epoch == Rank && Epoch > 0)
    return false;
  L.Rank = L.Rank ? L.Rank : Rank;
  Rest = Rest.drop_front(Rest.find(')') + 1);
  return true;
}

/// (RayWorkerWrapper pid=4009, ip=10.0.0.1)
bool PrefixReader::takeWorker() {
  size_t Close = Rest.take_front(120).find(')');
  if (!Rest.starts_with("(") || Close == StringRef::npos ||
      !Rest.take_front(Close).contains("pid="))
    return false;
  Rest = Rest.drop_front(Close + 1);
  return true;
}

/// "(main.py 228): " of Swin, "log_hooks.py: 277: " of VISSL, behind a stamp or
/// a level.
bool PrefixReader::takeSource() {
  if (!L.Prefixed)
    return false;
  StringRef Probe = Rest;
  const bool Open = Probe.consume_front("(");
  StringRef File = Probe.take_front(80).take_while([](char C) {
    return isAlnum(C) || C == '_' || C == '.' || C == '/';
  });
  Probe = Probe.drop_front(File.size());
  if (!File.ends_with(".py") ||
      !(Probe.consume_front(":") || Probe.starts_with(" ")))
    return false;
  Probe = Probe.ltrim(' ');
  StringRef Line = Probe.take_while(isDigit);
  Probe = Probe.drop_front(Line.size());
  if (Line.empty() || Probe.consume_front(")") != Open ||
      !Probe.consume_front(":"))
    return false;
  Rest = Probe;
  return true;
}

/// Whether \p Word says what a number behind it is, and so names no logger.
static bool namesNumber(StringRef Word) {
  return fieldKind(Word) != FieldKind::Scalar || scalarName(Word).Known ||
         isLossLike(Word) || Word.equals_insensitive("epoch");
}

/// What Python's logging prints by default between level and message, joined by
/// colons: "INFO:tensorflow:loss = 2.3".
void PrefixReader::takeLogger() {
  StringRef Name = Rest.take_front(60).take_while([](char C) {
    return isAlnum(C) || C == '_' || C == '.';
  });
  StringRef After = Rest.drop_front(Name.size());
  if (!Name.empty() && isAlpha(Name[0]) && After.consume_front(":") &&
      !After.empty() && !isSpace(After[0]) && After[0] != '/' &&
      After[0] != ':' && !namesNumber(Name))
    Rest = After;
}

/// "yolox.core.trainer:270 - " and "__main__:train:12 - " of Loguru.
bool PrefixReader::takeModule() {
  StringRef Head = Rest.take_front(160);
  size_t End = Head.find(" - ");
  if (End == StringRef::npos)
    return false;
  auto [Name, Line] = Head.take_front(End).rsplit(':');
  const bool Module = Name.find_first_of(".:") != StringRef::npos;
  if (!Module || Line.empty() || !all_of(Line, isDigit) ||
      !all_of(Name, [](char C) {
        return isAlnum(C) || StringRef("_.:<>").contains(C);
      }) || namesNumber(Name.substr(Name.find_last_of(".:") + 1)))
    return false;
  Rest = Rest.drop_front(End + 3);
  return true;
}

/// INFO, ERROR:, "root - ", "- ", "| ".
bool PrefixReader::takeWord() {
  StringRef Word = Rest.take_while([](char C) { return isUpper(C); });
  if (StringRef Level = levelOf(Word); !Level.empty()) {
    StringRef After = Rest.drop_front(Word.size());
    if (!After.empty() && !StringRef(" \t:|-]").contains(After[0]))
      return false;
    level(Level);
    Rest = After.ltrim(" :|-");
    if (After.size() > 1 && After[0] == ':' && isAlpha(After[1]))
      takeLogger();
    return true;
  }
  if (StringRef Level = glogLevel(Rest); !Level.empty() && isDigit(Rest[1])) {
    level(Level);
    L.Stamped = true;
    Rest = Rest.drop_front(Rest.find(' ')).ltrim();
    return true;
  }
  if (!L.Stamped)
    return false;
  if (takePlace() || takeModule())
    return true;
  if (Rest.starts_with("- ") || Rest.starts_with("| ")) {
    Rest = Rest.drop_front(2);
    return true;
  }
  // A logger's name before its level: "root - INFO - step: 1".
  auto [Name, After] = Rest.split(" - ");
  if (After.empty() || Name.size() > 60 || Name.contains(' ') ||
      Name.contains(':'))
    return false;
  Rest = After;
  return true;
}

bool PrefixReader::takeOne() {
  Rest = skipBlanks(Rest);
  if (Rest.empty())
    return false;
  return takeStamp() || takeBracket() || takeWorker() || takeRanks() ||
         takeSource() ||
         takeWord();
}

void readPrefixes(LogLine &L) { PrefixReader(L).run(); }

} // namespace culprit
