//===- Project.cpp ----------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Author/Project.h"
#include "Author/Yaml.h"
#include "Support/Glob.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

using namespace llvm;

namespace culprit {

static constexpr StringLiteral FileName = ".culprit.yaml";
static constexpr StringLiteral HelpHint =
    "'culprit help config' shows the form";

namespace {

/// Fills a Project from the tree of its settings. Every function returns the
/// first mistake.
class SettingsTree {
public:
  SettingsTree(StringRef File, Project &Into) : File(File), Into(Into) {}

  Error read(const YamlValue &Root);

private:
  Error unknown(const YamlEntry &E);
  Error paths(const YamlEntry &E, std::vector<std::string> &Into);
  Error path(StringRef Key, const YamlValue &V, std::vector<std::string> &Into);
  Error options(const YamlValue &V);
  Error option(const Twine &Id, StringRef Name, const YamlEntry &E);

  std::string place(unsigned Line) const {
    return (File + ":" + Twine(Line)).str();
  }
  Error mistake(unsigned Line, const Twine &What,
                const Twine &Hint = HelpHint) {
    return failure(place(Line) + ": " + What, Hint);
  }

  StringRef File;
  Project &Into;
  StringSet<> Seen; ///< Options that have a value.
};

} // namespace

Error SettingsTree::unknown(const YamlEntry &E) {
  static const std::vector<std::string> Known = {"kb", "options", "plugins"};
  std::string Close = closestName(E.Key, Known);
  std::string Hint = Close.empty() ? "" : "did you mean '" + Close + "'? ";
  if (StringRef(E.Key).contains('/'))
    Hint = "options of detectors stand under 'options:'; ";
  return mistake(E.Line, "unknown setting '" + E.Key + "'",
                 Hint + "settings: " + join(Known, ", "));
}

Error SettingsTree::read(const YamlValue &Root) {
  if (Root.What == YamlValue::Kind::Nothing)
    return Error::success(); // all is commented out
  if (Root.What != YamlValue::Kind::Map)
    return mistake(Root.Line, "the settings are no map of names to values");
  StringSet<> Keys;
  for (const YamlEntry &E : Root.Entries) {
    if (!Keys.insert(E.Key).second)
      return mistake(E.Line, "'" + E.Key + "' is given twice",
                     "put both into one");
    if (Error Mistake = E.Key == "plugins"   ? paths(E, Into.Plugins)
                        : E.Key == "kb"      ? paths(E, Into.Kb)
                        : E.Key == "options" ? options(E.Value)
                                             : unknown(E))
      return Mistake;
  }
  return Error::success();
}

Error SettingsTree::path(StringRef Key, const YamlValue &V,
                         std::vector<std::string> &Into) {
  if (V.What != YamlValue::Kind::Text || V.Text.empty())
    return mistake(V.Line, "'" + Key + "' wants paths, not " + V.word(),
                   Key + ": [first/path, second/path]");
  SmallString<128> Full(V.Text);
  if (!sys::path::is_absolute(V.Text)) {
    Full = sys::path::parent_path(File);
    sys::path::append(Full, V.Text);
  }
  sys::path::remove_dots(Full);
  if (!sys::fs::exists(Full))
    return mistake(V.Line,
                   "there is no '" + Full + "', which '" + Key + "' names",
                   "paths are taken from the folder of this file");
  Into.push_back(Full.str().str());
  return Error::success();
}

Error SettingsTree::paths(const YamlEntry &E, std::vector<std::string> &Into) {
  if (E.Value.What == YamlValue::Kind::Nothing)
    return Error::success();
  if (E.Value.What != YamlValue::Kind::List)
    return path(E.Key, E.Value, Into);
  for (const YamlValue &Item : E.Value.Items)
    if (Error Mistake = path(E.Key, Item, Into))
      return Mistake;
  return Error::success();
}

Error SettingsTree::options(const YamlValue &V) {
  if (V.What == YamlValue::Kind::Nothing)
    return Error::success();
  if (V.What != YamlValue::Kind::Map)
    return mistake(V.Line, "'options' wants a map, not " + V.word(),
                   "write a line each: gpu/idle.min_idle: 0.2");
  for (const YamlEntry &E : V.Entries) {
    if (E.Value.What == YamlValue::Kind::Map) {
      for (const YamlEntry &Inner : E.Value.Entries)
        if (Error Mistake = option(E.Key, Inner.Key, Inner))
          return Mistake;
      continue;
    }
    auto [Detector, Name] = StringRef(E.Key).rsplit('.');
    if (Name.empty())
      return mistake(E.Line, "'" + E.Key + "' names no option of a detector",
                     "write ID.NAME: VALUE, as in gpu/idle.min_idle: 0.2");
    if (Error Mistake = option(Detector, Name, E))
      return Mistake;
  }
  return Error::success();
}

Error SettingsTree::option(const Twine &Id, StringRef Name,
                           const YamlEntry &E) {
  std::string Full = (Id + "." + Name).str();
  if (!Seen.insert(Full).second)
    return mistake(E.Line, "'" + Full + "' is given twice",
                   "keep one of them");
  if (E.Value.What != YamlValue::Kind::Text)
    return mistake(E.Line,
                   "option '" + Full + "' wants one value, not " +
                       E.Value.word(),
                   "a number, a text, true or false");
  Into.Options.push_back({Id.str(), Name.str(), E.Value.Text, place(E.Line)});
  return Error::success();
}

Error readSettings(StringRef File, StringRef Text, Project &Into) {
  Expected<YamlValue> Root = parseYaml(File, Text);
  if (!Root)
    return Root.takeError();
  return SettingsTree(File, Into).read(*Root);
}

/// Adds what lies in \p Folder, a `.culprit`.
static void addOwn(const Twine &Folder, Project &P) {
  if (std::string Own = (Folder + "/plugins").str(); sys::fs::is_directory(Own))
    P.Plugins.push_back(std::move(Own));
  if (std::string Own = (Folder + "/symptoms.md").str(); sys::fs::exists(Own))
    P.Symptoms = std::move(Own);
}

Expected<Project> openProject(StringRef File) {
  ErrorOr<std::unique_ptr<MemoryBuffer>> Text =
      MemoryBuffer::getFile(File, /*IsText=*/true);
  if (!Text)
    return failure(File + ": " + Text.getError().message(),
                   "name a file of settings, or 'none' to go without");
  Project P;
  P.File = File.str();
  P.Folder = sys::path::parent_path(File).str();
  SmallString<128> Own(P.Folder);
  sys::path::append(Own, ".culprit");
  addOwn(Own, P);
  if (P.Folder.empty())
    P.Folder = ".";
  if (Error E = readSettings(File, (*Text)->getBuffer(), P))
    return E;
  return P;
}

std::string findCheckout(StringRef From) {
  std::string Up;
  for (StringRef Folder = From; !Folder.empty();
       Folder = sys::path::parent_path(Folder), Up += "../")
    if (sys::fs::is_directory(Folder + "/plugins") &&
        sys::fs::exists(Folder + "/kb/symptoms.md") &&
        sys::fs::is_directory(Folder + "/test/lit/detectors"))
      return Up.empty() ? "." : StringRef(Up).drop_back().str();
  return "";
}

Expected<Project> findProject(StringRef From, StringRef Home) {
  std::string Up; // from the working folder to the one looked at
  for (StringRef Folder = From; !Folder.empty();
       Folder = sys::path::parent_path(Folder), Up += "../") {
    if (sys::fs::exists(Folder + "/" + FileName))
      return openProject(Up + FileName.str());
    if (sys::fs::is_directory(Folder + "/.culprit")) {
      Project P;
      P.Folder = Up.empty() ? "." : StringRef(Up).drop_back().str();
      addOwn(Up + ".culprit", P);
      return P;
    }
    if (Folder == Home)
      break;
  }
  return Project();
}

} // namespace culprit
