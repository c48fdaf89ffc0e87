//===- Scaffold.cpp ---------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Author/Scaffold.h"
#include "Author/Lint.h"
#include "Author/Templates.h"
#include "Case/Schema.h"
#include "Support/Glob.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/Path.h"

using namespace llvm;

namespace culprit {

std::vector<std::string> scaffoldTables() {
  std::vector<std::string> Out;
  for (const DetectorTemplate &T : detectorTemplates().drop_front())
    Out.push_back(T.Table.str());
  return Out;
}

/// What is wrong with \p Word as a part of an id; empty when nothing is.
static std::string wrongWith(StringRef Word) {
  if (Word.empty())
    return "is empty";
  if (!llvm::all_of(Word, [](char C) {
        return isLower(C) || isDigit(C) || C == '-' || C == '_';
      }))
    return "has other characters than a-z, 0-9, - and _";
  if (!isLower(Word.front()) || !isAlnum(Word.back()))
    return "does not begin with a letter and end with a letter or digit";
  return "";
}

/// \p Word as it could be: "GPU Idle" as gpu-idle.
static std::string mended(StringRef Word) {
  std::string Out;
  for (char C : Word) {
    if (isAlnum(C))
      Out += toLower(C);
    else if (!Out.empty() && Out.back() != '-')
      Out += '-';
  }
  while (!Out.empty() && (Out.back() == '-' || Out.back() == '_'))
    Out.pop_back();
  return StringRef(Out).ltrim("0123456789-").str();
}

Error checkDetectorId(StringRef Id) {
  if (Id.contains('/') && Id.ends_with(".lua"))
    return failure("'" + Id + "' is a file name, not the id of a detector",
                   "write 'culprit new " + Id.drop_back(4) + "'");
  auto [Group, Name] = Id.split('/');
  if (!Id.contains('/') || Group.empty())
    return failure("'" + Id + "' has no group",
                   "write GROUP/NAME, as in 'culprit new my/" +
                       (mended(Id).empty() ? "idle" : mended(Id)) + "'");
  if (Name.contains('/'))
    return failure("'" + Id + "' has more than a group and a name",
                   "write GROUP/NAME, as in 'culprit new " +
                       mended(Group) + "/" +
                       mended(Name) + "'");
  for (StringRef Word : {Group, Name})
    if (std::string Wrong = wrongWith(Word); !Wrong.empty()) {
      std::string Better = mended(Group) + "/" + mended(Name);
      return failure("the " +
                         StringRef(Word.data() == Name.data() ? "name"
                                                              : "group") +
                         " '" + Word + "' " + Wrong,
                     StringRef(Better).starts_with("/") ||
                             StringRef(Better).ends_with("/")
                         ? Twine("for example my/idle")
                         : "for example " + Twine(Better));
    }
  if (Group == "lib" || Group == "meta")
    return failure("the group '" + Group + "' is taken: " +
                       (Group == "lib" ? "it holds the modules that detectors "
                                         "require"
                                       : "it holds the types for editors"),
                   "write another, as in my/" + Name);
  for (StringRef Separator : {"-", "_"})
    if (StringRef Rest = Name;
        Rest.consume_front(Group) && Rest.consume_front(Separator))
      return failure("the name '" + Name + "' repeats its group",
                     "write " + Group + "/" + Rest);
  if (Name == Group)
    return failure("the name '" + Name + "' repeats its group",
                   "say what it detects");
  return Error::success();
}

/// \p Text with what \p Words stand for.
static std::string
filled(StringRef Text,
       ArrayRef<std::pair<StringRef, std::string>> Words) {
  std::string Out;
  while (!Text.empty()) {
    auto Found = llvm::find_if(Words, [&](const auto &W) {
      return Text.starts_with(W.first);
    });
    if (Found != Words.end()) {
      Out += Found->second;
      Text = Text.drop_front(Found->first.size());
    } else {
      Out += Text.front();
      Text = Text.drop_front();
    }
  }
  return Out;
}

/// A column of \p T that a case can be written with: null where it has none.
static const ColumnSchema *plainColumn(const TableSchema &T) {
  for (const ColumnSchema &C : T.Columns)
    if (C.Type == ColumnType::String)
      return &C;
  for (const ColumnSchema &C : T.Columns)
    if (C.Type == ColumnType::Int && C.Name != "rank" && C.Name != "place")
      return &C;
  return nullptr;
}

Expected<Scaffold> makeScaffold(StringRef Id, StringRef Table,
                                StringRef Symptom, bool InCheckout) {
  auto Schema = llvm::find_if(
      schemas(), [&](const TableSchema &T) { return T.Name == Table; });
  if (Schema == schemas().end()) {
    std::vector<std::string> Names;
    for (const TableSchema &T : schemas())
      Names.push_back(T.Name.str());
    std::string Close = closestName(Table, Names);
    return failure("there is no table '" + Table + "'",
                   Close.empty() ? "'culprit list tables' names them all"
                                 : "did you mean '" + Close + "'?");
  }
  const DetectorTemplate *Template = detectorTemplates().begin();
  for (const DetectorTemplate &T : detectorTemplates())
    if (T.Table == Table)
      Template = &T;
  std::vector<std::pair<StringRef, std::string>> Words;
  if (Template->Table.empty()) {
    const ColumnSchema *Column = plainColumn(*Schema);
    if (Schema->Kind == TableSchema::Origin::Derived || !Column)
      return failure("no case can be written with '" + Table +
                         "', which is computed from other tables",
                     "begin with --table gpu_work and read case." + Table +
                         " in `run`");
    Words.push_back({"@TABLE@", Table.str()});
    Words.push_back({"@COLUMN@", Column->Name.str()});
    Words.push_back(
        {"@VALUE@", Column->Type == ColumnType::String ? "a" : "1"});
    if (Symptom.empty())
      return failure("no symptom is usual for '" + Table + "'",
                     "name one: --symptom ID; 'culprit list symptoms' has "
                     "them all");
  }
  Words.push_back(
      {"@SYMPTOM@", (Symptom.empty() ? Template->Symptom : Symptom).str()});

  Scaffold Out;
  for (const DocHeading &H : docHeadings()) {
    if (!Out.Lua.empty())
      Out.Lua += "---\n";
    Out.Lua += ("--- ## " + H.Heading + "\n--- " + H.Hint + "\n").str();
    StringRef Now = H.Heading == "What it detects"         ? Template->Detects
                    : H.Heading == "Known false positives" ? Template->Alike
                                                           : StringRef();
    if (!Now.empty())
      Out.Lua += ("--- As it is: " + Now + "\n").str();
  }
  Out.Lua += "\n---@type culprit.Detector\nreturn {\n  api      = 1,";
  Out.Lua += filled(Template->Lua, Words);
  Out.Lua += "}\n";

  if (InCheckout)
    Out.Test = "# RUN: %culprit test %s\n#\n";
  std::string Cases = filled(Template->Test, Words);
  if (InCheckout) {
    // The test lies apart from the detector: its first case names it.
    size_t At = StringRef(Cases).starts_with("name:") ? 0
                                                      : Cases.find("\nname:");
    Cases.insert(At == 0 ? 0 : At + 1, "detector: " + Id.str() + "\n");
  }
  Out.Test += Cases;
  return Out;
}

std::string editorSettings(StringRef Meta, ArrayRef<std::string> Modules) {
  // `package` stays: it has `require`, which knows the types of modules. The
  // types of culprit stand in for `string`, whose patterns there are not.
  json::Object Builtin;
  for (const char *Library : {"bit", "bit32", "coroutine", "debug", "ffi",
                              "io", "jit", "os", "string", "utf8"})
    Builtin[Library] = "disable";
  json::Array Library{Meta}, Path;
  for (const std::string &Folder : Modules) {
    Path.push_back(Folder + "/?.lua");
    if (sys::path::is_absolute(Folder)) // else a part of the workspace
      Library.push_back(Folder);
  }
  json::Object Settings{
      {"$schema", "https://raw.githubusercontent.com/LuaLS/vscode-lua/master/"
                  "setting/schema.json"},
      {"runtime.version", "Lua 5.4"},
      {"runtime.builtin", std::move(Builtin)},
      {"runtime.path", std::move(Path)},
      {"workspace.library", std::move(Library)},
      {"workspace.checkThirdParty", false},
      // A sum or a first row is nil for no rows only, and `where` and `count`
      // have seen to that in ways that the server does not follow.
      {"type.weakNilCheck", true},
      {"diagnostics.disable", json::Array{"need-check-nil"}}};
  return formatv("{0:2}\n", json::Value(std::move(Settings))).str();
}

} // namespace culprit
