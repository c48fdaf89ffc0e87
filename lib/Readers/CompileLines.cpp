//===- CompileLines.cpp -----------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/CompileLines.h"
#include "Readers/ScalarRows.h"
#include "Support/LooseJson.h"
#include "Support/Text.h"
#include <algorithm>
#include <cmath>

using namespace llvm;

namespace culprit {

/// Texts of rows are cut to this.
static constexpr size_t TextBytes = 300;

CompileLines::CompileLines(Source &S)
    : S(S), File(S.pool().intern(S.path())),
      Run(S.Run.empty() ? NullString : S.pool().intern(S.Run)),
      FileRank(rankOfPath(S.path())) {}

CompileLines::Voice &CompileLines::voiceOf(std::optional<int64_t> Rank) {
  ++Now;
  auto It = find_if(Voices, [&](const Voice &V) { return V.Rank == Rank; });
  if (It == Voices.end()) {
    if (Voices.size() < MaxVoices) {
      It = Voices.emplace(Voices.end());
    } else {
      It = std::min_element(Voices.begin(), Voices.end(),
                            [](const Voice &A, const Voice &B) {
                              return A.LastUsed < B.LastUsed;
                            });
      close(*It);
      closeCompile(*It);
      *It = Voice();
    }
    It->Rank = Rank;
  }
  It->LastUsed = Now;
  return *It;
}

void CompileLines::write(const Record &R, std::optional<int64_t> Rank) {
  if (NumRows == MaxRows)
    return;
  ++NumRows;
  namespace column = compilations;
  TableBuilder &Row = S.table(TableId::compilations);
  Row.addRow();
  auto Text = [&](unsigned Column, StringRef Value) {
    if (!Value.empty())
      Row.set(Column, wholeCharacters(Value, TextBytes));
  };
  Row.set(column::kind, R.Kind);
  Text(column::function, R.Function);
  Text(column::site, R.Site);
  Text(column::reason, R.Reason);
  Text(column::frame, R.Frame);
  if (Rank || FileRank)
    Row.set(column::rank, Rank ? *Rank : *FileRank);
  if (R.Seconds)
    Row.set(column::seconds, *R.Seconds);
  if (R.At)
    Row.set(column::wall_time, *R.At);
  Row.setId(column::source, File);
  Row.setId(column::run, Run);
  Row.set(column::place, R.Place);
}

CompileLines::Record &CompileLines::begin(Voice &V, StringRef Kind,
                                          const DynamoLine &Line) {
  close(V);
  V.Open.emplace();
  V.Open->Kind = Kind;
  V.Open->Frame = Line.Frame;
  V.Open->At = Line.At;
  V.Open->Place = Line.Place;
  V.Prefix = Line.Prefix;
  V.SiteGiven = V.FramesDone = false;
  return *V.Open;
}

void CompileLines::close(Voice &V) {
  if (!V.Open)
    return;
  Record R = std::move(*V.Open);
  V.Open.reset();
  if (R.Kind == "graph-break") {
    std::string Key = R.Frame + " " + R.Site;
    if ((R.Site.empty() && R.Reason.empty()) || Key == V.LastBreak)
      return;
    V.LastBreak = std::move(Key);
  }
  write(R, V.Rank);
}

void CompileLines::closeCompile(Voice &V) {
  if (V.Compile)
    write(*V.Compile, V.Rank);
  V.Compile.reset();
  V.StepAt.reset();
  V.DoneAt.reset();
}

bool CompileLines::startsBreak(const DynamoLine &Line, Voice &V) {
  StringRef M = Line.Message;
  if (!M.consume_front("Graph break"))
    return false;
  size_t At = M.find("in user code at ");
  // (details suppressed), (user stack suppressed due to duplicate graph break)
  if (At != StringRef::npos && (At == 1 || M.starts_with(" ("))) {
    Record &R = begin(V, "graph-break", Line);
    R.Site = M.drop_front(At + 16).trim();
    V.SiteGiven = true;
    return true;
  }
  if (M.consume_front(" from `")) {
    begin(V, "graph-break", Line).Reason = M.split('`').first;
    return true;
  }
  if (!M.consume_front(":"))
    return false;
  // The frames of a break whose reason was said already.
  bool Known = V.Open && V.Prefix == Line.Prefix && V.Open->Site.empty();
  StringRef Reason = M.rtrim(": ");
  if (!Reason.consume_back("from user code at"))
    return false;
  if (!Known)
    begin(V, "graph-break", Line).Reason = Reason.trim(" :");
  return true;
}

/// Reads "scale in /w/train.py:4".
static void functionAt(StringRef Text, std::string &Function,
                       std::string &Site) {
  auto [Name, Place] = Text.split(" in ");
  Function = Name.trim();
  Site = Place.trim();
}

bool CompileLines::starts(const DynamoLine &Line, Voice &V) {
  StringRef M = Line.Message;
  M.consume_front("('"); // PyTorch 2.0 prints a tuple
  if (M.consume_front("Recompiling function ")) {
    Record &R = begin(V, "recompile", Line);
    auto [Place, Reason] = M.split("', ");
    functionAt(Place, R.Function, R.Site);
    size_t Failure = Reason.find("guard failure: ");
    if (Failure != StringRef::npos)
      R.Reason = guardText(Reason.drop_front(Failure + 15).rtrim("\"')"));
    return true;
  }
  if (M.consume_front("torch._dynamo hit config.")) {
    begin(V, "limit", Line).Reason = M.trim();
    return true;
  }
  return startsBreak(Line, V);
}

void CompileLines::breakGoesOn(StringRef M, Voice &V) {
  Record &R = *V.Open;
  M.consume_front("Graph Break ");
  if (M.consume_front("Reason: ")) {
    R.Reason = M.starts_with("Encountered graph break when attempting")
                   ? StringRef()
                   : M.trim();
    return;
  }
  if (M.starts_with("Traceback (")) {
    V.FramesDone = true;
    return;
  }
  if (M.starts_with("File \"") && !V.FramesDone) {
    // File "/w/train.py", line 13, in forward
    auto [Path, Rest] = M.drop_front(6).split("\", line ");
    auto [Number, Function] = Rest.split(", in ");
    std::string Site = (Path + ":" + Number.trim()).str();
    if (!V.SiteGiven)
      R.Site = Site;
    if (R.Site == Site)
      R.Function = Function.trim();
    return;
  }
  // "Failed to trace builtin operator" does not say which.
  if (StringRef Said = M; !R.Reason.empty() && R.Reason.size() < 60 &&
                          Said.consume_front("Explanation: ")) {
    R.Reason += (": " + Said.trim()).str();
    return;
  }
  // What a version says behind a general sentence or at a traceback's end.
  if (R.Reason.empty() && !M.empty() &&
      (V.FramesDone ? M.consume_front("torch._dynamo.exc.Unsupported: ")
                    : V.SiteGiven && !M.starts_with("User code")))
    R.Reason = M.trim();
}

void CompileLines::goesOn(StringRef M, Voice &V) {
  Record &R = *V.Open;
  if (R.Kind == "graph-break")
    return breakGoesOn(M, V);
  if (R.Kind == "recompile") {
    size_t Failure = M.find("guard failure: ");
    if (R.Reason.empty() && (M.starts_with("- ") || Failure != StringRef::npos))
      R.Reason = guardText(
          Failure == StringRef::npos ? M : M.drop_front(Failure + 15));
    return;
  }
  if (M.consume_front("function: '")) {
    auto [Name, Place] = M.split("' (");
    R.Function = Name;
    R.Site = Place.rtrim(") ");
  } else if (M.consume_front("last reason: ") || M.consume_front("reasons: ")) {
    if (R.Reason.size() < TextBytes)
      R.Reason += ": " + guardText(M.ltrim());
  }
}

void CompileLines::step(const DynamoLine &Line, Voice &V) {
  StringRef M = Line.Message;
  bool Trace = M.contains(" start tracing ");
  bool Begins = Trace || M.contains(": calling compiler function ") ||
                M.contains(" torchinductor compiling ");
  bool Ends = M.contains(" done ");
  if (!Begins && !Ends)
    return;
  // An attempt that starts anew is the same compilation.
  if (Begins && (!V.Compile || V.Compile->Frame != Line.Frame)) {
    closeCompile(V);
    V.Compile.emplace();
    V.Compile->Kind = "compile";
    V.Compile->Frame = Line.Frame;
    V.Compile->At = Line.At;
    V.Compile->Place = Line.Place;
    if (!Trace)
      V.Compile->Reason = M.contains(" compiling ")
                              ? M.rsplit(" compiling ").second
                              : M.rsplit(" function ").second;
  }
  if (Trace) {
    StringRef What = M.split(" start tracing ").second;
    V.Compile->Function = What.split(' ').first;
    V.Compile->Site = What.split(' ').second.trim();
  }
  if (Begins && !V.StepAt)
    V.StepAt = Line.At;
  if (!Ends || !V.Compile || !Line.At)
    return;
  // Steps lie in each other: the end of an outer one follows that of an inner.
  std::optional<double> From = V.StepAt ? V.StepAt : V.DoneAt;
  if (From && *Line.At >= *From) // stamps are of microseconds
    V.Compile->Seconds =
        std::round((V.Compile->Seconds.value_or(0) + *Line.At - *From) * 1e6) /
        1e6;
  V.DoneAt = Line.At;
  V.StepAt.reset();
}

void CompileLines::cache(const DynamoLine &Line, const Voice &V) {
  // fx graph cache hit for key k, AOTAutograd cache miss for key k, and
  // "fx graph cache: on-disk miss for key k" of 2.1
  auto [Words, Key] = Line.Message.split(" for key ");
  if (Key.empty() || !Words.contains(" cache"))
    return;
  bool Hit = Words.ends_with(" hit");
  if (!Hit && !Words.ends_with(" miss"))
    return;
  Record R;
  R.Kind = Hit ? "cache-hit" : "cache-miss";
  R.Reason = (Words.take_front(Words.find(" cache")) + " cache, key " +
              Key.split(' ').first)
                 .str();
  R.Frame = Line.Frame;
  R.At = Line.At;
  R.Place = Line.Place;
  write(R, V.Rank);
}

/// vLLM: "Compiling a graph for dynamic shape takes 24.18 s", "Directly load
/// the compiled graph(s) for shape None from the cache, took 1.8 s".
bool CompileLines::server(const LogLine &L) {
  size_t At = L.Text.find("Compiling a graph for ");
  bool Hit = At == StringRef::npos;
  StringRef Rest;
  if (!Hit) {
    Rest = L.Text.drop_front(At + 12);
  } else {
    At = L.Text.find("Directly load the compiled graph");
    if (At == StringRef::npos)
      return false;
    Rest = L.Text.drop_front(At + 27);
  }
  auto [What, Took] =
      Hit ? Rest.split(" from the cache, took ") : Rest.split(" takes ");
  std::optional<double> Seconds = parseNumber(Took.split(' ').first);
  if (!Seconds || !(*Seconds >= 0))
    return false; // one line a graph at the level of debugging
  Record R;
  R.Kind = Hit ? "cache-hit" : "compile";
  R.Reason = What;
  R.Seconds = Seconds;
  R.At = L.WallTime;
  R.Place = L.Number;
  write(R, L.Rank);
  return true;
}

bool CompileLines::line(const LogLine &L) {
  if (L.Level == "info" && L.Text.contains(" graph") && server(L))
    return true;
  std::optional<DynamoLine> Line = parseDynamoLine(L);
  if (!Line)
    return false;
  Voice &V = voiceOf(L.Rank);
  if (starts(*Line, V))
    return true;
  if (V.Open && V.Prefix == Line->Prefix) {
    goesOn(Line->Message, V);
    return true;
  }
  close(V);
  if (Line->Message.starts_with("Step "))
    step(*Line, V);
  else
    cache(*Line, V);
  return true;
}

void CompileLines::finish() {
  for (Voice &V : Voices) {
    close(V);
    closeCompile(V);
  }
  Voices.clear();
}

} // namespace culprit
