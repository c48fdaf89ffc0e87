//===- ReportVerbs.cpp - report, skip and log -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Script/Binding.h"
#include "Support/PlainText.h"
#include "Support/Text.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include <cmath>

using namespace llvm;

namespace culprit {

/// A thousand ranks with a few reports each; more is a loop gone wild.
static constexpr size_t MaxReports = 10'000;
static constexpr size_t MaxLogLines = 1000;
static constexpr size_t MaxText = 4096;
static constexpr size_t MaxListed = 1000;

namespace {

/// Reads the table that report{} was given. Every reader works on the value
/// on top of the stack and leaves it there.
class ReportReader {
public:
  explicit ReportReader(Call &C) : C(C), L(C.state()), H(C.host()) {}

  Expected<Report> read();

private:
  Error readField(StringRef Key);
  Error readSymptom();
  Error readPlace();
  Error readEvidence();
  Error addEvidence(int Slot);
  Expected<double> readNumber(StringRef Key);
  void flushRows();

  Call &C;
  lua_State *L;
  Host &H;
  Report Out;
  /// Rows of one table that were named one by one, next to each other.
  TableRef Pending;
  RowIndex PendingRows;
};

} // namespace

static const std::vector<std::string> &reportKeys() {
  static const std::vector<std::string> Keys = {
      "at",    "evidence", "message", "recoverable",
      "score", "severity", "share",   "symptom"};
  return Keys;
}

Error ReportReader::readSymptom() {
  if (lua_type(L, -1) != LUA_TSTRING)
    return failure("the symptom of a report must be a text, not " +
                   wordFor(L, -1));
  Out.Symptom = lua_tostring(L, -1);
  const std::vector<std::string> &Declared = H.Info->Symptoms;
  if (!is_contained(Declared, Out.Symptom))
    return failure("symptom '" + Out.Symptom + "' is not declared",
                   suggestion(Out.Symptom, Declared) +
                       "declared: " + join(Declared, ", "));
  return Error::success();
}

/// The first MaxListed texts of the list on the stack; none where it is empty
/// or has anything else in it.
static std::optional<std::vector<std::string>> readTexts(lua_State *L) {
  std::vector<std::string> Out;
  const size_t Count = lua_rawlen(L, -1);
  for (size_t I = 1; I <= Count; ++I) {
    lua_rawgeti(L, -1, static_cast<lua_Integer>(I));
    bool IsText = lua_type(L, -1) == LUA_TSTRING;
    if (IsText && I <= MaxListed)
      Out.push_back(textOf(L, -1));
    lua_pop(L, 1);
    if (!IsText)
      return std::nullopt;
  }
  if (Out.empty())
    return std::nullopt;
  return Out;
}

Error ReportReader::readPlace() {
  if (!lua_istable(L, -1))
    return failure("`at` must be a table such as { step = 311 }, not " +
                   wordFor(L, -1));
  std::string Wrong = wrongKey(
      L, -1, [&](int Key) { return lua_type(L, Key) != LUA_TSTRING; });
  if (!Wrong.empty())
    return failure("`at` must have names as keys, not " + Wrong,
                   "write at = { step = row.step }");
  lua_pushnil(L);
  while (lua_next(L, -2)) {
    Coordinate Place;
    Place.Key = textOf(L, -2);
    if (lua_isinteger(L, -1))
      Place.Value = static_cast<int64_t>(lua_tointeger(L, -1));
    else if (lua_type(L, -1) == LUA_TNUMBER)
      Place.Value = static_cast<double>(lua_tonumber(L, -1));
    else if (lua_isboolean(L, -1))
      Place.Value = static_cast<bool>(lua_toboolean(L, -1));
    else if (lua_type(L, -1) == LUA_TSTRING)
      Place.Value = textOf(L, -1);
    else if (auto Texts = lua_istable(L, -1) ? readTexts(L) : std::nullopt)
      Place.Value = std::move(*Texts);
    else if (std::string Text =
                 "at." + Place.Key +
                 " must be a number, a text or a list of texts, not " +
                 wordFor(L, -1);
             Wrong.empty() || Text < Wrong)
      Wrong = std::move(Text);
    Out.At.push_back(std::move(Place));
    lua_pop(L, 1);
  }
  if (!Wrong.empty())
    return failure(Wrong);
  // Lua tables have no order of their own.
  llvm::sort(Out.At, [](const Coordinate &A, const Coordinate &B) {
    return std::make_pair(coordinateRank(A.Key), StringRef(A.Key)) <
           std::make_pair(coordinateRank(B.Key), StringRef(B.Key));
  });
  return Error::success();
}

void ReportReader::flushRows() {
  if (Pending)
    Out.Evidence.push_back(
        evidenceOf(*H.Evidence, Pending->take(std::move(PendingRows))));
  Pending = nullptr;
  PendingRows.clear();
}

Error ReportReader::addEvidence(int Slot) {
  if (RowValue *Row = valueAt<RowValue>(L, Slot)) {
    if (Pending != Row->T)
      flushRows();
    Pending = Row->T;
    PendingRows.push_back(static_cast<uint32_t>(Row->Row));
    return Error::success();
  }
  flushRows();
  if (TableValue *T = valueAt<TableValue>(L, Slot)) {
    if (!(*T)->empty())
      Out.Evidence.push_back(evidenceOf(*H.Evidence, **T));
    return Error::success();
  }
  if (ColumnValue *Column = valueAt<ColumnValue>(L, Slot)) {
    if (Column->rows())
      Out.Evidence.push_back(
          evidenceOf(*H.Evidence, *Column->T, Column->view().Name));
    return Error::success();
  }
  return failure("evidence must be rows, tables or columns, not " +
                     wordFor(L, Slot),
                 "name the rows that the message speaks of: "
                 "evidence = { gaps:top(5, \"dur\") }");
}

Error ReportReader::readEvidence() {
  if (!lua_istable(L, -1)) {
    if (Error E = addEvidence(lua_gettop(L)))
      return E;
  } else {
    // A nil among them leaves a hole, so the length tells nothing.
    std::vector<lua_Integer> Places;
    std::string Wrong = wrongKey(
        L, -1, [&](int Key) { return !lua_isinteger(L, Key); });
    if (!Wrong.empty())
      return failure("evidence must be a list, without the key " + Wrong);
    lua_pushnil(L);
    while (lua_next(L, -2)) {
      Places.push_back(lua_tointeger(L, -2));
      lua_pop(L, 1);
    }
    llvm::sort(Places);
    for (lua_Integer Place : Places) {
      lua_rawgeti(L, -1, Place);
      if (Error E = addEvidence(lua_gettop(L)))
        return E;
      lua_pop(L, 1);
    }
  }
  flushRows();
  if (Out.Evidence.empty())
    return failure("the evidence has no rows",
                   "cite what was looked at, if only to say that something "
                   "is not in it");
  return Error::success();
}

Expected<double> ReportReader::readNumber(StringRef Key) {
  if (lua_type(L, -1) != LUA_TNUMBER || std::isnan(lua_tonumber(L, -1)))
    return failure("the " + Key + " of a report must be a number, not " +
                   wordFor(L, -1));
  return lua_tonumber(L, -1);
}

Error ReportReader::readField(StringRef Key) {
  if (Key == "symptom")
    return readSymptom();
  if (Key == "at")
    return readPlace();
  if (Key == "evidence")
    return readEvidence();
  if (Key == "message") {
    if (lua_type(L, -1) != LUA_TSTRING || lua_rawlen(L, -1) == 0)
      return failure("the message of a report must be a text, not " +
                     wordFor(L, -1));
    Out.Message = StringRef(lua_tostring(L, -1)).take_front(MaxText).str();
    return Error::success();
  }
  if (Key == "severity") {
    std::string Word = textOf(L, -1);
    std::optional<Severity> Level = StringSwitch<std::optional<Severity>>(Word)
                                        .Case("info", Severity::Note)
                                        .Case("warning", Severity::Warning)
                                        .Case("error", Severity::Error)
                                        .Default(std::nullopt);
    if (!Level)
      return failure("the severity of a report is info, warning or error, "
                     "not " +
                     wordFor(L, -1));
    Out.Level = *Level;
    return Error::success();
  }
  Expected<double> Number = readNumber(Key);
  if (!Number)
    return Number.takeError();
  if (Key == "score") {
    if (*Number < 0 || *Number > 1)
      return failure("the score of a report must be from 0 to 1, not " +
                         wordFor(L, -1),
                     "math.min(1, ...) keeps it there");
    Out.Score = *Number;
  } else if (Key == "share") {
    Out.Share = *Number;
  } else {
    // What can be saved is not negative, whatever a difference gave.
    Out.RecoverableNs =
        static_cast<int64_t>(std::clamp(*Number, 0.0, 9007199254740992.0));
  }
  return Error::success();
}

Expected<Report> ReportReader::read() {
  std::vector<std::string> Given = C.keys(1);
  if (C.failed())
    return C.error();
  for (const std::string &Key : Given)
    if (!is_contained(reportKeys(), Key))
      return failure("a report has no '" + Key + "'",
                     suggestion(Key, reportKeys()) +
                         "it has: " + join(reportKeys(), ", "));
  for (const char *Key : {"symptom", "score", "message", "evidence"})
    if (!is_contained(Given, Key))
      return failure(Twine("a report needs a '") + Key + "'",
                     StringRef(Key) == "evidence"
                         ? "rows, tables or columns that show it"
                         : "");
  for (const std::string &Key : Given) {
    lua_getfield(L, C.slot(1), Key.c_str());
    if (Error E = readField(Key))
      return E;
    lua_pop(L, 1);
  }
  return std::move(Out);
}

Expected<int> globalReport(Call &C) {
  Host &H = C.host();
  if (!H.Result)
    return failure("'report' can be called in `run` alone");
  Expected<Report> Out = ReportReader(C).read();
  if (!Out)
    return Out.takeError();
  if (H.Result->Reports.size() == MaxReports)
    return failure("more than " + Twine(MaxReports) + " reports",
                   "report the worst few and say how many there are");
  H.Result->Reports.push_back(std::move(*Out));
  return 0;
}

Expected<int> globalSkip(Call &C) {
  StringRef Needed = C.text(1);
  std::vector<std::string> Symptoms;
  if (C.count() > 1)
    Symptoms = C.texts(2);
  if (C.failed())
    return C.error();
  Host &H = C.host();
  if (!H.Result)
    return failure("'skip' can be called in `run` alone");
  std::string What =
      printable(wholeCharacters(Needed, MaxText), /*KeepBreaks=*/true);
  if (Symptoms.empty())
    H.Result->Missing.push_back(What);
  for (std::string &Symptom : Symptoms) {
    if (!is_contained(H.Info->Symptoms, Symptom))
      return failure("symptom '" + Symptom + "' is not declared",
                     suggestion(Symptom, H.Info->Symptoms) +
                         "declared: " + join(H.Info->Symptoms, ", "));
    if (!H.Result->unjudged(Symptom))
      H.Result->Unjudged.push_back({std::move(Symptom), What});
  }
  return 0;
}

Expected<int> globalLog(Call &C) {
  lua_State *L = C.state();
  Host &H = C.host();
  if (!H.Result || H.Result->Log.size() == MaxLogLines)
    return 0;
  std::string Line;
  for (int I = 1; I <= C.count(); ++I)
    Line += (I == 1 ? "" : " ") + textOf(L, C.slot(I)).substr(0, MaxText);
  H.Result->Log.push_back(std::move(Line));
  return 0;
}

Expected<int> globalToString(Call &C) {
  return C.push(textOf(C.state(), C.slot(1)));
}

} // namespace culprit
