//===- Declaration.cpp ------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Script/Declaration.h"
#include "Script/Binding.h"
#include "Script/LuaDetector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace culprit {

namespace {

class DeclarationReader {
public:
  DeclarationReader(lua_State *L, ArrayRef<std::string> Symptoms,
                    DetectorInfo &Into)
      : L(L), Symptoms(Symptoms), Into(Into) {}

  bool read();

  std::optional<DeclarationMistake> Mistake;

private:
  // All work on the value on top of the stack, leave it there, and return
  // false once a mistake is found.
  bool readApi();
  bool readText(const char *Key, std::string &Into);
  bool readSymptoms();
  bool readRelies();
  bool readOptions();
  bool readOption(const std::string &Name);
  bool readNeeds();
  bool readAlternatives();
  bool readNeed(const std::string &TableName, std::vector<Need> &Into);
  bool readNeedColumn(const TableSchema &Schema, Need &Into);
  bool readCondition(const TableSchema &Schema, const std::string &Name,
                     Need &Into);
  bool readScalar(const std::string &What, Scalar &Into);
  std::optional<unsigned> findColumn(const TableSchema &Schema,
                                     const std::string &Name);

  bool fail(const Twine &Word, const Twine &Message, const Twine &Hint = "") {
    Mistake.emplace(DeclarationMistake{failure(Message, Hint), Word.str()});
    return false;
  }
  /// The text keys of the table on top, sorted; \p Length entries of its list
  /// part apart.
  std::optional<std::vector<std::string>> textKeys(const Twine &Where,
                                                   bool ListToo = false);

  lua_State *L;
  ArrayRef<std::string> Symptoms;
  DetectorInfo &Into;
};

} // namespace

std::optional<std::vector<std::string>>
DeclarationReader::textKeys(const Twine &Where, bool ListToo) {
  std::string Name = Where.str();
  std::vector<std::string> Keys;
  if (!lua_istable(L, -1)) {
    fail(Name, "`" + Name + "` must be a table, not " + wordFor(L, -1));
    return std::nullopt;
  }
  std::string Wrong = wrongKey(L, -1, [&](int Key) {
    return lua_type(L, Key) != LUA_TSTRING &&
           !(ListToo && lua_isinteger(L, Key));
  });
  if (!Wrong.empty()) {
    fail(Name, "`" + Name + "` must have names as keys, not " + Wrong);
    return std::nullopt;
  }
  lua_pushnil(L);
  while (lua_next(L, -2)) {
    lua_pop(L, 1);
    if (lua_type(L, -1) == LUA_TSTRING)
      Keys.push_back(lua_tostring(L, -1));
  }
  llvm::sort(Keys);
  return Keys;
}

bool DeclarationReader::readApi() {
  if (!lua_isinteger(L, -1))
    return fail("api", "`api` must be a whole number, not " + wordFor(L, -1),
                "write api = " + Twine(ScriptApiVersion));
  int64_t Version = lua_tointeger(L, -1);
  if (Version == ScriptApiVersion)
    return true;
  return fail("api",
              "written for api " + Twine(Version) +
                  ", and this culprit speaks api " + Twine(ScriptApiVersion),
              Version > ScriptApiVersion
                  ? "update culprit, or take an older version of the detector"
                  : "see docs/api.md for what changed");
}

bool DeclarationReader::readText(const char *Key, std::string &Into) {
  if (lua_type(L, -1) != LUA_TSTRING || lua_rawlen(L, -1) == 0)
    return fail(Key,
                Twine("`") + Key + "` must be a text, not " + wordFor(L, -1));
  Into = lua_tostring(L, -1);
  return true;
}

bool DeclarationReader::readSymptoms() {
  if (!lua_istable(L, -1) || lua_rawlen(L, -1) == 0)
    return fail("symptoms", "`symptoms` must be a list of symptom ids",
                "symptoms = { \"gpu-idle\" }; `culprit list symptoms` names "
                "them");
  for (lua_Integer I = 1, E = lua_rawlen(L, -1); I <= E; ++I) {
    if (lua_rawgeti(L, -1, I) != LUA_TSTRING)
      return fail("symptoms",
                  "a symptom must be a text, not " + wordFor(L, -1));
    std::string Id = lua_tostring(L, -1);
    lua_pop(L, 1);
    if (!Symptoms.empty() && !is_contained(Symptoms, Id))
      return fail(Id, "unknown symptom '" + Id + "'",
                  suggestion(Id, Symptoms) +
                      "'culprit list symptoms' has all of them; a project's "
                      "own stand in .culprit/symptoms.md");
    if (is_contained(Into.Symptoms, Id))
      return fail(Id, "symptom '" + Id + "' is declared twice");
    Into.Symptoms.push_back(std::move(Id));
  }
  return true;
}

bool DeclarationReader::readScalar(const std::string &What, Scalar &Into) {
  if (lua_isboolean(L, -1))
    Into = static_cast<bool>(lua_toboolean(L, -1));
  else if (lua_isinteger(L, -1))
    Into = static_cast<int64_t>(lua_tointeger(L, -1));
  else if (lua_type(L, -1) == LUA_TNUMBER)
    Into = static_cast<double>(lua_tonumber(L, -1));
  else if (lua_type(L, -1) == LUA_TSTRING)
    Into = std::string(lua_tostring(L, -1));
  else
    return fail(What, "the value of '" + What +
                          "' must be a number, a text or a boolean, not " +
                          wordFor(L, -1));
  return true;
}

bool DeclarationReader::readOption(const std::string &Name) {
  std::optional<std::vector<std::string>> Keys = textKeys(Name);
  if (!Keys)
    return false;
  const std::vector<std::string> Known = {"default", "doc"};
  for (const std::string &Key : *Keys)
    if (!is_contained(Known, Key))
      return fail(Key, "option '" + Name + "' has an unknown key '" + Key + "'",
                  suggestion(Key, Known) + "keys: " + join(Known, ", "));
  OptionSpec Option;
  Option.Name = Name;
  if (lua_getfield(L, -1, "default") == LUA_TNIL)
    return fail(Name, "option '" + Name + "' has no default",
                Name + " = { default = ..., doc = \"...\" }");
  if (!readScalar(Name, Option.Default))
    return false;
  lua_pop(L, 1);
  if (lua_getfield(L, -1, "doc") != LUA_TSTRING)
    return fail(Name, "option '" + Name + "' has no doc",
                "say in a sentence what it means");
  Option.Doc = lua_tostring(L, -1);
  lua_pop(L, 1);
  Into.Options.push_back(std::move(Option));
  return true;
}

bool DeclarationReader::readRelies() {
  std::vector<std::string> Known;
  for (unsigned R = 0; R != NumReliances; ++R)
    Known.push_back(toString(static_cast<Reliance>(R)).str());
  if (!lua_istable(L, -1) || lua_rawlen(L, -1) == 0)
    return fail("relies", "`relies` must be a list of aspects of a recording",
                "relies = { \"launches\" }; aspects: " + join(Known, ", "));
  for (lua_Integer I = 1, E = lua_rawlen(L, -1); I <= E; ++I) {
    if (lua_rawgeti(L, -1, I) != LUA_TSTRING)
      return fail("relies",
                  "an aspect must be a text, not " + wordFor(L, -1));
    std::string Word = lua_tostring(L, -1);
    lua_pop(L, 1);
    std::optional<Reliance> R = parseReliance(Word);
    if (!R)
      return fail(Word, "unknown aspect '" + Word + "' in `relies`",
                  suggestion(Word, Known) + "aspects: " + join(Known, ", "));
    Into.Relies.push_back(*R);
  }
  return true;
}

bool DeclarationReader::readOptions() {
  std::optional<std::vector<std::string>> Keys = textKeys("options");
  if (!Keys)
    return false;
  for (const std::string &Name : *Keys) {
    lua_getfield(L, -1, Name.c_str());
    if (!readOption(Name))
      return false;
    lua_pop(L, 1);
  }
  return true;
}

std::optional<unsigned> DeclarationReader::findColumn(const TableSchema &Schema,
                                                      const std::string &Name) {
  if (std::optional<unsigned> Found = Schema.find(Name))
    return Found;
  std::vector<std::string> Names;
  for (const ColumnSchema &Column : Schema.Columns)
    Names.push_back(Column.Name.str());
  fail(Name, "unknown column '" + Name + "' in '" + Schema.Name + "'",
       suggestion(Name, Names) + "columns: " + join(Names, ", "));
  return std::nullopt;
}

/// `"step"` in scalars = { "step", ... }.
bool DeclarationReader::readNeedColumn(const TableSchema &Schema, Need &Into) {
  if (lua_type(L, -1) != LUA_TSTRING)
    return fail(Schema.Name, "the columns needed of '" + Schema.Name +
                                 "' must be texts, not " + wordFor(L, -1));
  std::string Name = lua_tostring(L, -1);
  if (Name == "data" && Into.Table == TableId::tensors) {
    Into.Data = true;
    return true;
  }
  std::optional<unsigned> Column = findColumn(Schema, Name);
  if (!Column)
    return false;
  Into.Columns.push_back(*Column);
  return true;
}

/// `metric = { "loss" }` in scalars = { ..., metric = { "loss" } }.
bool DeclarationReader::readCondition(const TableSchema &Schema,
                                      const std::string &Name, Need &Into) {
  std::optional<unsigned> Column = findColumn(Schema, Name);
  if (!Column)
    return false;
  Need::Condition Rows{*Column, {}};
  if (!lua_istable(L, -1)) {
    Rows.AnyOf.emplace_back();
    if (!readScalar(Name, Rows.AnyOf.back()))
      return false;
  } else {
    for (lua_Integer I = 1, E = lua_rawlen(L, -1); I <= E; ++I) {
      lua_rawgeti(L, -1, I);
      Rows.AnyOf.emplace_back();
      if (!readScalar(Name, Rows.AnyOf.back()))
        return false;
      lua_pop(L, 1);
    }
    if (Rows.AnyOf.empty())
      return fail(Name, "the values needed of '" + Name +
                            "' are an empty "
                            "list");
  }
  Into.Rows.push_back(std::move(Rows));
  return true;
}

bool DeclarationReader::readNeed(const std::string &TableName,
                                 std::vector<Need> &Into) {
  std::optional<TableId> Id = findTable(TableName);
  if (!Id) {
    std::vector<std::string> Names;
    for (const TableSchema &Schema : schemas())
      Names.push_back(Schema.Name.str());
    return fail(TableName, "unknown table '" + TableName + "' in `needs`",
                suggestion(TableName, Names) + "tables: " + join(Names, ", "));
  }
  Need Out;
  Out.Table = *Id;
  std::optional<std::vector<std::string>> Conditions =
      textKeys(TableName, /*ListToo=*/true);
  if (!Conditions)
    return false;
  for (lua_Integer I = 1, E = lua_rawlen(L, -1); I <= E; ++I) {
    lua_rawgeti(L, -1, I);
    if (!readNeedColumn(schema(*Id), Out))
      return false;
    lua_pop(L, 1);
  }
  for (const std::string &Name : *Conditions) {
    lua_getfield(L, -1, Name.c_str());
    if (!readCondition(schema(*Id), Name, Out))
      return false;
    lua_pop(L, 1);
  }
  Into.push_back(std::move(Out));
  return true;
}

/// any = { scalars = {...}, tensors = {...} }
bool DeclarationReader::readAlternatives() {
  std::optional<std::vector<std::string>> Tables = textKeys("any");
  if (!Tables)
    return false;
  std::vector<Need> Alternatives;
  for (const std::string &Name : *Tables) {
    lua_getfield(L, -1, Name.c_str());
    if (!readNeed(Name, Alternatives))
      return false;
    lua_pop(L, 1);
  }
  if (Alternatives.size() < 2)
    return fail("any", "`any` must name two tables at least");
  Into.Needs.AnyOf.push_back(std::move(Alternatives));
  return true;
}

bool DeclarationReader::readNeeds() {
  std::optional<std::vector<std::string>> Tables = textKeys("needs");
  if (!Tables)
    return false;
  if (Tables->empty())
    return fail("needs", "`needs` is empty",
                "name the tables and columns that `run` reads, so that the "
                "detector is skipped and not clear where they are missing");
  for (const std::string &Name : *Tables) {
    lua_getfield(L, -1, Name.c_str());
    if (Name == "any" ? !readAlternatives() : !readNeed(Name, Into.Needs.All))
      return false;
    lua_pop(L, 1);
  }
  // In the order of the schema, which is the order people know.
  auto ByTable = [](const Need &A, const Need &B) { return A.Table < B.Table; };
  llvm::sort(Into.Needs.All, ByTable);
  for (std::vector<Need> &Alternatives : Into.Needs.AnyOf)
    llvm::sort(Alternatives, ByTable);
  return true;
}

bool DeclarationReader::read() {
  if (!lua_istable(L, -1))
    return fail("return",
                "the file must return a table, and returns " + wordFor(L, -1),
                "end it with: return { api = 1, summary = ..., run = "
                "function(case) ... end }");
  std::optional<std::vector<std::string>> Keys = textKeys("return");
  if (!Keys)
    return false;

  // A detector for another api may have other keys; say that first.
  const std::vector<std::string> Known = {
      "api", "needs", "options", "relies", "run", "summary", "symptoms"};
  if (lua_getfield(L, -1, "api") != LUA_TNIL && !readApi())
    return false;
  lua_pop(L, 1);
  for (const std::string &Key : *Keys)
    if (!is_contained(Known, Key))
      return fail(Key, "unknown key '" + Key + "'",
                  suggestion(Key, Known) + "keys: " + join(Known, ", "));
  for (const std::string &Key : Known) {
    if (lua_getfield(L, -1, Key.c_str()) == LUA_TNIL) {
      if (Key != "options" && Key != "relies")
        return fail("return", "`" + Key + "` is missing",
                    Key == "api" ? "write api = " + Twine(ScriptApiVersion)
                                 : Twine("`culprit new` writes a detector "
                                         "that has everything"));
    } else if (Key == "summary"    ? !readText("summary", Into.Summary)
               : Key == "symptoms" ? !readSymptoms()
               : Key == "options"  ? !readOptions()
               : Key == "relies"   ? !readRelies()
               : Key == "needs"    ? !readNeeds()
                                   : false) {
      return false;
    } else if (Key == "run" && !lua_isfunction(L, -1)) {
      return fail("run", "`run` must be a function, not " + wordFor(L, -1),
                  "run = function(case) ... end");
    }
    lua_pop(L, 1);
  }
  return true;
}

std::optional<DeclarationMistake>
readDeclaration(lua_State *L, ArrayRef<std::string> Symptoms,
                DetectorInfo &Into) {
  luaL_checkstack(L, 20, "declaration");
  DeclarationReader Reader(L, Symptoms, Into);
  Reader.read();
  return std::move(Reader.Mistake);
}

} // namespace culprit
