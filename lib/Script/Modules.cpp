//===- Modules.cpp - Lua that detectors share -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Script/Modules.h"
#include "Script/Binding.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

using namespace llvm;

namespace culprit {

ErrorOr<std::vector<std::string>> luaFiles(StringRef Folder) {
  std::vector<std::string> Files;
  std::error_code EC;
  sys::fs::recursive_directory_iterator I(Folder, EC), End;
  for (; I != End && !EC; I.increment(EC))
    if (sys::path::extension(I->path()) == ".lua")
      Files.push_back(I->path());
  if (EC)
    return EC;
  llvm::sort(Files);
  return Files;
}

ErrorOr<std::string> luaText(StringRef File) {
  ErrorOr<std::unique_ptr<MemoryBuffer>> Text =
      MemoryBuffer::getFile(File, /*IsText=*/true);
  if (!Text)
    return Text.getError();
  return (*Text)->getBuffer().str();
}

Error ModuleSet::addFolder(StringRef Folder) {
  if (!sys::fs::is_directory(Folder))
    return Error::success();
  ErrorOr<std::vector<std::string>> Files = luaFiles(Folder);
  if (!Files)
    return failure(Folder + ": " + Files.getError().message());
  for (const std::string &File : *Files) {
    StringRef Name = StringRef(File).drop_front(Folder.size()).ltrim('/');
    Name.consume_back(".lua");
    if (const Module *Known = find(Name); Known && Known->File == File)
      continue;
    ErrorOr<std::string> Text = luaText(File);
    if (!Text)
      return failure(File + ": " + Text.getError().message());
    add(Name, {File, std::move(*Text)});
  }
  return Error::success();
}

void ModuleSet::add(StringRef Name, Module M) {
  M.Number = End++;
  ByName[Name.str()] = std::move(M);
}

void ModuleSet::setCode(StringRef Name, std::string Ready) {
  auto It = ByName.find(Name.str());
  if (It != ByName.end() && !Ready.empty())
    It->second.Code = std::make_shared<ByteCode>(std::move(Ready));
}

const ModuleSet::Module *ModuleSet::find(StringRef Name) const {
  auto It = ByName.find(Name.str());
  return It == ByName.end() ? nullptr : &It->second;
}

std::vector<std::string> ModuleSet::names() const {
  std::vector<std::string> Names;
  for (const auto &[Name, M] : ByName)
    Names.push_back(Name);
  return Names;
}

/// Where the registry keeps the modules that were loaded: by name the value,
/// or `true` while it is being loaded.
static const char LoadedKey = 0;

static void pushLoaded(lua_State *L) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &LoadedKey) != LUA_TNIL)
    return;
  lua_pop(L, 1);
  lua_newtable(L);
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &LoadedKey);
}

Expected<int> globalRequire(Call &C) {
  lua_State *L = C.state();
  StringRef Name = C.text(1);
  if (C.failed())
    return C.error();
  Host &H = C.host();
  const ModuleSet::Module *M = H.Modules ? H.Modules->find(Name) : nullptr;
  if (!M) {
    std::vector<std::string> Known;
    if (H.Modules)
      Known = H.Modules->names();
    return failure("there is no module '" + Name + "'",
                   suggestion(Name, Known) +
                       (Known.empty() ? "a module is a file lib/" + Name.str() +
                                            ".lua beside the groups of "
                                            "detectors"
                                      : "modules: " + join(Known, ", ")));
  }
  pushLoaded(L);
  int Loaded = lua_gettop(L);
  switch (lua_getfield(L, Loaded, M->File.c_str())) {
  case LUA_TTABLE:
    return 1;
  case LUA_TBOOLEAN:
    return failure("module '" + Name + "' requires itself, by way of others "
                                       "or not",
                   "move what both need into a third module");
  default:
    lua_pop(L, 1);
  }
  lua_pushboolean(L, true);
  lua_setfield(L, Loaded, M->File.c_str());
  H.loadModule(L, *M);
  if (!lua_istable(L, -1))
    return failure("module '" + Name + "' must return a table, and returns " +
                       wordFor(L, -1),
                   "end " + M->File + " with: return { name = name, ... }");
  lua_pushvalue(L, -1);
  lua_setfield(L, Loaded, M->File.c_str());
  return 1;
}

} // namespace culprit
