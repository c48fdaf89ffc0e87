//===- DetectorStore.cpp ----------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Script/DetectorStore.h"
#include "Case/Schema.h"
#include "Script/Declaration.h"
#include "Script/LuaDetector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/xxhash.h"
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>

using namespace llvm;

namespace culprit {

static constexpr StringLiteral FirstWords = "culprit detectors 1";

static std::string hashOf(StringRef Bytes) {
  XXH128_hash_t H = xxh3_128bits(arrayRefFromStringRef(Bytes));
  return formatv("{0:x-16}{1:x-16}", H.high64, H.low64).str();
}

/// Of all that decides what is in a store.
static std::string keyOf(ArrayRef<DetectorText> Texts,
                         const ModuleSet &Modules) {
  std::string All = (Twine(LUA_RELEASE) + " " + Twine(ScriptApiVersion)).str();
  for (const TableSchema &Table : schemas()) {
    All += "\n" + Table.Name.str();
    for (const ColumnSchema &Column : Table.Columns)
      All += " " + Column.Name.str();
  }
  for (const auto &[Name, M] : Modules.all())
    All += "\n" + Name + " " + utostr(M.Number) + " " + hashOf(M.Source);
  for (const DetectorText &T : Texts)
    All += "\n" + T.Id + " " + hashOf(T.Text);
  return hashOf(All);
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

std::optional<DetectorStore>
DetectorStore::open(StringRef Path, ArrayRef<DetectorText> Texts,
                    const ModuleSet &Modules) {
  ErrorOr<std::unique_ptr<MemoryBuffer>> File =
      MemoryBuffer::getFile(Path, /*IsText=*/false,
                            /*RequiresNullTerminator=*/false);
  if (!File)
    return std::nullopt;
  DetectorStore Out;
  Out.Bytes = std::move(*File);
  auto [First, Rest] = Out.Bytes->getBuffer().split('\n');
  if (First != (FirstWords + " " + keyOf(Texts, Modules) + " " + hashOf(Rest))
                   .str())
    return std::nullopt;
  while (!Rest.empty()) {
    StringRef Head;
    std::tie(Head, Rest) = Rest.split('\n');
    auto [Name, Length] = Head.rsplit(' ');
    size_t Size;
    if (Length.getAsInteger(10, Size) || Size > Rest.size())
      return std::nullopt;
    Out.Parts[Name] = Rest.take_front(Size);
    Rest = Rest.drop_front(Size);
  }
  return Out;
}

StringRef DetectorStore::part(StringRef Kind, StringRef Name) const {
  return Parts.lookup((Kind + " " + Name).str());
}

bool DetectorStore::pushDeclaration(lua_State *L, StringRef Id) const {
  StringRef Text = part("declaration", Id);
  if (Text.empty())
    return false;
  if (luaL_loadbufferx(L, Text.data(), Text.size(), "=store", "t") != LUA_OK)
    lua_error(L);
  lua_call(L, 0, 1);
  return true;
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

static std::string quoted(StringRef Text) {
  std::string Out = "\"";
  for (unsigned char C : Text)
    if (isPrint(C) && C != '"' && C != '\\')
      Out += static_cast<char>(C);
    else
      Out += formatv("\\{0,0+3}", unsigned(C)).str();
  return Out + "\"";
}

static std::string written(double Number) {
  if (std::isnan(Number))
    return "(0/0)";
  if (std::isinf(Number))
    return Number > 0 ? "1e999" : "-1e999";
  char Digits[64];
  std::snprintf(Digits, sizeof(Digits), "%a", Number);
  return Digits;
}

/// The least of all is no literal of Lua's.
static std::string written(lua_Integer Number) {
  return Number == std::numeric_limits<lua_Integer>::min()
             ? "(-9223372036854775807-1)"
             : std::to_string(Number);
}

/// Appends the value at \p At, a part of a declaration without mistakes, as Lua
/// that makes it anew; functions do nothing.
static void append(lua_State *L, int At, std::string &Out) {
  luaL_checkstack(L, 4, "declaration");
  At = lua_absindex(L, At);
  switch (lua_type(L, At)) {
  case LUA_TTABLE: {
    // Numbers before names, so that a table is always written the same.
    std::map<std::pair<lua_Integer, std::string>, std::string> Fields;
    lua_pushnil(L);
    while (lua_next(L, At)) {
      std::string Value;
      append(L, -1, Value);
      if (lua_isinteger(L, -2))
        Fields[{lua_tointeger(L, -2), ""}] = Value;
      else if (lua_type(L, -2) == LUA_TSTRING)
        Fields[{std::numeric_limits<lua_Integer>::max(),
                quoted(lua_tostring(L, -2))}] = Value;
      lua_pop(L, 1);
    }
    Out += "{";
    for (const auto &[Key, Value] : Fields) {
      Out += "[";
      Out += Key.second.empty() ? std::to_string(Key.first) : Key.second;
      Out += "]=" + Value + ",";
    }
    Out += "}";
    break;
  }
  case LUA_TSTRING:
    Out += quoted(lua_tostring(L, At));
    break;
  case LUA_TBOOLEAN:
    Out += lua_toboolean(L, At) ? "true" : "false";
    break;
  case LUA_TNUMBER:
    Out += lua_isinteger(L, At) ? written(lua_tointeger(L, At))
                                : written(lua_tonumber(L, At));
    break;
  default:
    Out += "function()end";
  }
}

static void add(std::string &Out, StringRef Kind, StringRef Name,
                StringRef Bytes) {
  Out += (Kind + " " + Name + " " + Twine(Bytes.size()) + "\n").str();
  Out += Bytes;
}

std::string makeDetectorStore(ArrayRef<DetectorText> Texts,
                              std::shared_ptr<const ModuleSet> Modules) {
  std::string Rest;
  for (const DetectorText &T : Texts) {
    Host H(T.File, Limits());
    H.Modules = Modules.get();
    ByteCode Code;
    std::string Declaration = "return ";
    bool Right = false;
    // What has a mistake is left out: its text tells it at each start.
    bool Done = H.run([&](lua_State *L) {
      H.load(L, T.Text, Code);
      DetectorInfo Info;
      Right = !readDeclaration(L, {}, Info);
      if (Right)
        append(L, -1, Declaration);
    });
    if (!Done || !Right)
      continue;
    add(Rest, "declaration", T.Id, Declaration);
    add(Rest, "code", T.Id, Code.bytes());
  }
  // Those that a detector asked for while it was loaded: others are of runs
  // alone, and as good as none.
  for (const auto &[Name, M] : Modules->all())
    if (!M.Code->bytes().empty())
      add(Rest, "module", Name, M.Code->bytes());
  return (FirstWords + " " + keyOf(Texts, *Modules) + " " + hashOf(Rest) +
          "\n" + Rest)
      .str();
}

} // namespace culprit
