//===- LogErrors.cpp --------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/LogErrors.h"
#include "Readers/ErrorLine.h"
#include "Readers/OutOfMemory.h"
#include "Readers/ScalarRows.h"
#include "Support/Text.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace culprit {

/// Longer messages, such as dumped arguments, are cut.
static constexpr size_t MaxMessage = 2000;
/// Rows of one kind, kinds, and rows in all that are kept.
static constexpr size_t MaxOfKind = 1000, MaxKinds = 256,
                        MaxRowsOfErrors = 20000;
/// Changes of the step that are remembered.
static constexpr size_t MaxSteps = 4096;
/// Lines between the note that an exception led to another and the head of
/// that one; other ranks may write in between.
static constexpr int64_t MaxChainGap = 64;
/// Innermost frames worth keeping.
static constexpr size_t MaxFramesOfError = 6;

/// The step that an error's own text names: "at iteration #12", "step 12".
static std::optional<int64_t> stepIn(StringRef Text) {
  for (StringRef Word : {"iteration ", "step ", "step="}) {
    size_t At = Text.find_insensitive(Word);
    if (At == StringRef::npos)
      continue;
    StringRef Digits = Text.drop_front(At + Word.size()).ltrim("#:= ");
    int64_t Step = 0;
    if (!Digits.take_while(isDigit).getAsInteger(10, Step))
      return Step;
  }
  return std::nullopt;
}

static std::string joinFrames(ArrayRef<std::string> Frames) {
  std::string Out;
  for (const std::string &Frame : Frames.take_back(MaxFramesOfError))
    Out += (Out.empty() ? "" : " < ") + Frame;
  return Out;
}

void LogErrors::exception(const PythonError &E, std::optional<int64_t> Step) {
  Row R;
  R.Line = E.Line;
  R.Rank = E.Rank;
  R.WallTime = E.WallTime;
  R.Type = E.Type.empty() ? "unknown" : E.Type;
  R.Message = wholeCharacters(E.Message, MaxMessage).str();
  R.Frames = joinFrames(E.Frames);
  std::string Whole = E.Type + ": " + E.Message;
  if (std::optional<ErrorMatch> Match = findError(Whole, /*Exception=*/true)) {
    R.Signature = Match->Signature.str();
    R.Code = Match->Code;
  }
  // Ctrl-C and an orderly exit are no errors.
  if (R.Type == "KeyboardInterrupt" || R.Type == "SystemExit")
    return;
  R.Step = stepIn(E.Message);
  if (!R.Step)
    R.Step = Steps.empty() ? Step : stepAt(E.Line);
  R.Device = deviceIn(E.Message);
  if (auto It = Chains.find(E.Rank.value_or(-1)); It != Chains.end()) {
    R.Chained = It->second < E.Line && E.Line - It->second <= MaxChainGap;
    if (It->second < E.Line)
      Chains.erase(It);
  }
  keep(std::move(R));
}

std::optional<int64_t> LogErrors::stepAt(int64_t Line) const {
  auto After = llvm::upper_bound(
      Steps, Line, [](int64_t L, const auto &S) { return L < S.first; });
  if (After == Steps.begin())
    return std::nullopt;
  return std::prev(After)->second;
}

void LogErrors::keep(Row R) {
  StringRef Name = R.Signature.empty() ? R.Type : R.Signature;
  // A kind in itself: the codes of a device are told apart by number.
  std::string Event;
  if (R.Type == "Xid" || R.Type == "SXid")
    Name = Event = R.Type + R.Code;
  if (Kinds.size() >= MaxKinds && !Kinds.count(Name))
    Name = "";
  Kind &K = Kinds[Name];
  if (K.Kept && (K.Kept >= MaxOfKind || Rows.size() >= MaxRowsOfErrors)) {
    ++Rows[K.Last].Repeats;
    return;
  }
  ++K.Kept;
  K.Last = Rows.size();
  Rows.push_back(std::move(R));
}

std::optional<double> LogErrors::timeOf(const LogLine &L) {
  if (L.WallTime)
    return L.WallTime;
  return stampWithoutYear(L.Text, LastTime ? yearOf(*LastTime) : 1970);
}

/// Whether \p Class is named as Python names exceptions.
static bool isErrorClass(StringRef Class) {
  return (Class.ends_with("Error") || Class.ends_with("Exception")) &&
         Class != "Error" && Class != "Exception";
}

/// A device-side assertion prints a line for each thread that fails.
bool LogErrors::repeatsLast(const Row &R) const {
  return !Rows.empty() && StringRef(R.Message).contains("thread: [") &&
         Rows.back().Signature == R.Signature &&
         StringRef(Rows.back().Message).contains("thread: [") &&
         Rows.back().Rank == R.Rank;
}

void LogErrors::line(const LogLine &L, const LineScan &Scan,
                     std::optional<int64_t> Step) {
  if (L.WallTime)
    LastTime = L.WallTime;
  if (Step && (Steps.empty() || Steps.back().second != *Step)) {
    if (Steps.size() == MaxSteps)
      Steps.pop_front();
    Steps.push_back({L.Number, *Step});
  }
  if (Scan.Chain) {
    if (Chains.size() > 1024) // ranks
      Chains.clear();
    Chains[L.Rank.value_or(-1)] = L.Number;
    return;
  }
  noteDevice(L);
  Row R;
  auto [Class, Message] = splitException(L.Body);
  bool Exception = isErrorClass(Class) && !isCountOfNone(Message);
  std::optional<ErrorMatch> Match = findError(L.Text, Scan, Exception);
  // What bash says of a process that was killed, and nothing else.
  if (!Match && L.Body == "Killed")
    Match = ErrorMatch{"host-oom", "signal", "9"};
  if (!Match && !Exception)
    return;
  R.Line = L.Number;
  R.Rank = L.Rank;
  R.WallTime = timeOf(L);
  R.Type = Exception ? Class.str() : Match->Type.str();
  if (Match) {
    R.Code = Match->Code;
    R.Signature = Match->Signature.str();
  }
  R.Message = wholeCharacters(Exception ? Message : L.Body, MaxMessage).str();
  std::optional<int64_t> Named = stepIn(R.Message);
  R.Step = Named ? Named : Step;
  R.Device = deviceIn(L.Text);
  // "NVRM: The NVIDIA GPU 0000:b3:00.0", whose sentence ends two lines below.
  if (R.Type == "Xid" && R.Device.empty() && L.Number - NamedLine <= 3)
    R.Device = NamedDevice;
  if (!repeatsLast(R))
    keep(std::move(R));
}

void LogErrors::noteDevice(const LogLine &L) {
  if (!L.Text.contains("NVRM: The NVIDIA GPU "))
    return;
  NamedDevice = deviceIn(L.Text);
  NamedLine = L.Number;
}

void LogErrors::add(const Row &R) {
  TableBuilder &T = S.table(TableId::errors);
  T.addRow();
  T.set(errors::type, StringRef(R.Type));
  if (!R.Code.empty())
    T.set(errors::code, StringRef(R.Code));
  if (!R.Signature.empty())
    T.set(errors::signature, StringRef(R.Signature));
  T.set(errors::message, StringRef(R.Message));
  if (!R.Frames.empty())
    T.set(errors::frames, StringRef(R.Frames));
  if (R.Rank)
    T.set(errors::rank, *R.Rank);
  T.set(errors::source, StringRef(S.path()));
  T.set(errors::line, R.Line);
  if (R.Step)
    T.set(errors::step, *R.Step);
  T.set(errors::place, R.Line);
  if (R.WallTime)
    T.set(errors::wall_time, *R.WallTime);
  if (!S.Run.empty())
    T.set(errors::run, StringRef(S.Run));
  if (!R.Device.empty())
    T.set(errors::device, StringRef(R.Device));
  if (R.Chained)
    T.set(errors::role, StringRef("cascade"));
  if (R.Repeats)
    T.set(errors::repeats, R.Repeats);
  if (R.Signature != "cuda-oom" && R.Signature != "host-oom")
    return;
  MemoryFigures Figures = memoryFigures(R.Message);
  if (Figures.Asked)
    T.set(errors::bytes, *Figures.Asked);
  if (Figures.Capacity)
    T.set(errors::capacity, *Figures.Capacity);
  if (Figures.ReservedUnallocated)
    T.set(errors::reserved_unallocated, *Figures.ReservedUnallocated);
}

void LogErrors::finish() {
  llvm::stable_sort(Rows,
                    [](const Row &A, const Row &B) { return A.Line < B.Line; });
  std::optional<int64_t> FileRank = rankOfPath(S.path());
  for (Row &R : Rows) {
    if (!R.Rank)
      R.Rank = FileRank;
    add(R);
  }
}

} // namespace culprit
