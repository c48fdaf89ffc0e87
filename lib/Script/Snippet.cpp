//===- Snippet.cpp ----------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Script/Snippet.h"
#include "Script/Binding.h"
#include "Script/CaseValue.h"
#include "Script/Sandbox.h"
#include "Script/ShowRows.h"
#include "Support/PlainText.h"
#include "Support/Units.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"
#include <set>
#include <tuple>

using namespace llvm;

namespace culprit {

namespace {
/// Where a snippet's output goes; the second upvalue of what prints.
struct Printer {
  raw_ostream &OS;
  unsigned Width;

  static Printer &of(lua_State *L) {
    return *static_cast<Printer *>(lua_touserdata(L, lua_upvalueindex(2)));
  }
};

/// A key of a Lua table besides its list. Lua has no order of its own; numbers
/// go before texts.
struct ElementKey {
  bool IsText;
  double Number;
  std::string Text;
  lua_Integer Place = 0; ///< Of its value, in the list of firstKeys().

  bool operator<(const ElementKey &Other) const {
    return std::tie(IsText, Number, Text) <
           std::tie(Other.IsText, Other.Number, Other.Text);
  }
};
} // namespace

/// The first \p Most keys of the table at \p Table, without those of its list
/// of \p Length values. Leaves a list of their values on the stack.
static std::vector<ElementKey> firstKeys(lua_State *L, int Table,
                                         lua_Integer Length, size_t Most) {
  auto ForEach = [&](auto Do) {
    lua_pushnil(L);
    while (lua_next(L, Table)) {
      if (!lua_isinteger(L, -2) || lua_tointeger(L, -2) < 1 ||
          lua_tointeger(L, -2) > Length) {
        bool IsText = lua_type(L, -2) == LUA_TSTRING;
        std::string Key = textOf(L, -2);
        Do(ElementKey{IsText, IsText ? 0 : lua_tonumber(L, -2),
                      IsText ? Key : "[" + Key + "]"});
      }
      lua_pop(L, 1);
    }
  };
  std::set<ElementKey> First;
  ForEach([&](ElementKey Key) {
    First.insert(std::move(Key));
    if (First.size() > Most)
      First.erase(std::prev(First.end()));
  });
  lua_newtable(L);
  int Values = lua_gettop(L);
  std::vector<ElementKey> Out;
  ForEach([&](ElementKey Key) {
    if (Out.size() == Most || !First.count(Key))
      return;
    Key.Place = static_cast<lua_Integer>(Out.size()) + 1;
    lua_pushvalue(L, -1);
    lua_rawseti(L, Values, Key.Place);
    Out.push_back(std::move(Key));
  });
  llvm::sort(Out);
  return Out;
}

/// A value within a Lua table: texts with quotes, tables up to a depth. \p Left
/// is how many elements may still be written: tables that share others are
/// larger as a text than in memory.
static std::string elementText(lua_State *L, int Index, unsigned Depth,
                               size_t &Left) {
  constexpr unsigned MaxDepth = 4;
  constexpr size_t MaxElements = 100;
  Left -= Left != 0;
  if (lua_type(L, Index) == LUA_TSTRING)
    return "\"" + textOf(L, Index) + "\"";
  if (lua_type(L, Index) != LUA_TTABLE)
    return textOf(L, Index);
  if (Depth == MaxDepth || !Left)
    return "{...}";
  int Table = lua_absindex(L, Index);
  luaL_checkstack(L, 8, "too deep");
  std::vector<std::string> Parts;
  lua_Integer Length = static_cast<lua_Integer>(lua_rawlen(L, Table));
  for (lua_Integer I = 1; I <= Length && Parts.size() < MaxElements; ++I) {
    lua_rawgeti(L, Table, I);
    Parts.push_back(elementText(L, -1, Depth + 1, Left));
    lua_pop(L, 1);
  }
  for (const ElementKey &Key :
       firstKeys(L, Table, Length, MaxElements + 1)) {
    // The value, which firstKeys() left where its own order says.
    lua_rawgeti(L, -1, Key.Place);
    Parts.push_back(Key.Text + " = " + elementText(L, -1, Depth + 1, Left));
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  bool Cut = Parts.size() > MaxElements || Length > lua_Integer(MaxElements);
  if (Cut)
    Parts.resize(std::min(Parts.size(), MaxElements));
  return "{" + join(Parts, ", ") + (Cut ? ", ...}" : "}");
}

/// The value at \p Slot; with a line break at the end where it has several.
static std::string valueText(lua_State *L, int Slot, const ShowStyle &Style) {
  if (TableValue *V = valueAt<TableValue>(L, Slot))
    return showTable(**V, Style);
  if (RowValue *V = valueAt<RowValue>(L, Slot))
    return showRow(*V->T, V->Row, Style);
  if (ColumnValue *V = valueAt<ColumnValue>(L, Slot))
    return showColumn(*V->T, V->Index, Style);
  if (valueAt<CaseValue>(L, Slot))
    return showCase(*Host::of(L).Evidence);
  if (lua_type(L, Slot) == LUA_TTABLE) {
    size_t Left = 1000;
    return printable(elementText(L, Slot, 0, Left));
  }
  return printable(textOf(L, Slot), /*KeepBreaks=*/true);
}

static Expected<int> writeValues(Call &C, bool Units) {
  Printer &P = Printer::of(C.state());
  ShowStyle Style;
  Style.Width = P.Width;
  Style.Units = Units;
  bool AtBegin = true;
  for (int I = 1; I <= C.count(); ++I) {
    std::string Text = valueText(C.state(), C.slot(I), Style);
    bool Lines = StringRef(Text).ends_with("\n");
    if (!AtBegin)
      P.OS << (Lines ? "\n" : "  ");
    P.OS << Text;
    AtBegin = Lines;
  }
  if (!AtBegin)
    P.OS << '\n';
  return 0;
}

static Expected<int> snippetPrint(Call &C) { return writeValues(C, false); }
static Expected<int> snippetShow(Call &C) { return writeValues(C, true); }

static Expected<int> snippetLog(Call &C) {
  Printer::of(C.state()).OS << "log: ";
  Expected<int> Done = writeValues(C, false);
  if (Done && !C.count())
    Printer::of(C.state()).OS << '\n';
  return Done;
}

static Expected<int> snippetReport(Call &C) {
  Printer &P = Printer::of(C.state());
  Outcome &Result = *C.host().Result;
  Expected<int> Done = globalReport(C);
  if (!Done)
    return Done;
  const Report &R = Result.Reports.back();
  P.OS << "report: " << R.Symptom << " (" << severityName(R.Level)
       << ", score " << formatNumber(R.Score) << ")\n  " << R.Message << '\n';
  std::vector<std::string> Places, Rows;
  for (const Coordinate &At : R.At)
    Places.push_back(At.Key + " " + At.text());
  if (!Places.empty())
    P.OS << "  at " << join(Places, ", ") << '\n';
  if (R.RecoverableNs)
    P.OS << "  recoverable " << formatDuration(*R.RecoverableNs) << '\n';
  for (const EvidenceRef &E : R.Evidence)
    Rows.push_back(formatCount(static_cast<int64_t>(E.Total)) +
                   (E.Total == 1 ? " row" : " rows") + " of " + E.Table);
  P.OS << "  evidence: " << join(Rows, ", ") << '\n';
  return Done;
}

static Expected<int> snippetSkip(Call &C) {
  Expected<int> Done = globalSkip(C);
  if (Done)
    Printer::of(C.state()).OS << "skip: " << C.text(1) << '\n';
  return Done;
}

static void addPrinting(lua_State *L, Printer &To) {
  static constexpr std::pair<const char *, lua_CFunction> Functions[] = {
      {"print", enterFree<snippetPrint>},
      {"show", enterFree<snippetShow>},
      {"log", enterFree<snippetLog>},
      {"report", enterFree<snippetReport>},
      {"skip", enterFree<snippetSkip>}};
  for (const auto &[Name, Function] : Functions) {
    lua_pushlightuserdata(L, &To);
    pushFunction(L, Name, Function, 1);
    addGlobal(L, Name);
  }
}

/// Whether \p Code compiles.
static bool compiles(lua_State *L, const std::string &Code) {
  bool Good = luaL_loadbufferx(L, Code.data(), Code.size(), "=try", "t") ==
              LUA_OK;
  lua_pop(L, 1);
  return Good;
}

/// The code of \p What so that the expression that it is, or that its last line
/// is, is printed. Lines keep their numbers. A file is a program, which prints
/// by itself, unless it would not compile.
static std::string withPrint(lua_State *L, const Snippet &What) {
  if (!What.Typed && compiles(L, What.Code))
    return What.Code;
  // The last bracket on a line of its own is for code that ends with a
  // comment; elsewhere an error would have its line.
  StringRef Text = StringRef(What.Code).rtrim();
  size_t Last = Text.find_last_of("\n;");
  Last = Last == StringRef::npos ? 0 : Last + 1;
  for (size_t From : {size_t(0), Last})
    for (const char *End : {")", "\n)"}) {
      std::string Code = (Text.take_front(From) + "print(" +
                          Text.drop_front(From) + End)
                             .str();
      if (compiles(L, Code))
        return Code;
    }
  return What.Code;
}

std::optional<DetectorError> runSnippet(const Snippet &What, const Case &C,
                                        const SnippetSettings &Settings,
                                        raw_ostream &OS) {
  const Limits &Bounds = Settings.Load.Bounds;
  DetectorInfo Info;
  Info.Id = What.Name;
  Info.File = What.Name;
  Info.Symptoms = Settings.Load.Symptoms;
  Outcome Result;
  Printer To{OS, Settings.Width};
  Host H(What.Name, Bounds);
  H.Evidence = &C;
  H.Info = &Info;
  H.Result = &Result;
  H.Modules = Settings.Load.Modules.get();
  H.setTableLimit(Bounds.Tables + 4 * C.bytes());
  bool IsDetector = false;
  bool Done = H.run([&](lua_State *L) {
    openSandbox(L);
    pushCase(L);
    addGlobal(L, "case");
    addPrinting(L, To);
    H.loadMore(L, What.Name, withPrint(L, What));
    if (lua_isnil(L, -1))
      return;
    if (lua_istable(L, -1)) {
      IsDetector = lua_getfield(L, -1, "run") == LUA_TFUNCTION;
      lua_pop(L, 1);
    }
    if (!IsDetector) {
      lua_pushlightuserdata(L, &To);
      pushFunction(L, "print", enterFree<snippetPrint>, 1);
      lua_insert(L, -2);
      lua_call(L, 1, 0);
    }
  });
  if (Done && !IsDetector)
    return std::nullopt;
  DetectorError E = H.error();
  if (Done) {
    E.File = What.Name;
    E.Message = "this is a detector, and not a snippet";
    E.Hint = "'culprit test' runs its cases; 'culprit diagnose PATH --plugins "
             "FOLDER --only GROUP/NAME' runs it alone";
  } else if (StringRef(E.Message).ends_with("is not declared") &&
             E.Hint.size() > 300) {
    // Any symptom will do here, and the list of all is no hint.
    StringRef Close = StringRef(E.Hint);
    Close = Close.contains("? ") ? Close.take_front(Close.find("? ") + 2) : "";
    E.Hint = (Close + "'culprit list symptoms' names all").str();
  }
  return E;
}

} // namespace culprit
