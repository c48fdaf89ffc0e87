//===- LintNames.cpp - Names that nothing defines ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Scopes are not followed: a name that is local anywhere in the file is taken
// for one everywhere. So nothing right is blamed, and what slips through is
// what the first run says.
//
//===----------------------------------------------------------------------===//

#include "Author/LintPass.h"
#include "Case/Schema.h"
#include "Script/ApiEntries.h"
#include "Script/Sandbox.h"
#include "Support/Glob.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

using namespace llvm;

namespace culprit {

namespace {

class NameCheck {
public:
  explicit NameCheck(LintPass &P) : P(P), Tokens(P.Tokens) {}

  void run();

private:
  void declare();
  void declareList(size_t I, StringRef End);
  void checkFree(size_t I);
  void checkLibrary(size_t I);
  void checkVerb(size_t I);
  void checkCase(size_t I);
  void checkModule(size_t I);

  /// The names of Api.def with one of \p Receivers, sorted.
  static std::vector<std::string> namesOf(ArrayRef<StringRef> Receivers);

  LintPass &P;
  ArrayRef<LuaToken> Tokens;
  StringSet<> Locals, Methods;
  StringMap<std::string> Modules; ///< What a local holds: `require("name")`.
};

} // namespace

std::vector<std::string> NameCheck::namesOf(ArrayRef<StringRef> Receivers) {
  std::vector<std::string> Out;
  for (const ApiEntry &E : apiEntries())
    if (is_contained(Receivers, E.Receiver))
      Out.push_back(E.Name.str());
  llvm::sort(Out);
  Out.erase(std::unique(Out.begin(), Out.end()), Out.end());
  return Out;
}

/// The names from \p I on, between commas, up to \p End: of `local`, `for` and
/// parameters.
void NameCheck::declareList(size_t I, StringRef End) {
  for (; I + 1 < Tokens.size() && !Tokens[I].is(End); ++I) {
    if (Tokens[I].is("<")) { // an attribute: local x <const>
      I += 2;
      continue;
    }
    if (Tokens[I].Kind == LuaToken::Name)
      Locals.insert(Tokens[I].Source);
    else if (!Tokens[I].is(",") && !Tokens[I].is("..."))
      return;
    else
      continue;
    if (!Tokens[I + 1].is(",") && !Tokens[I + 1].is("<"))
      return;
  }
}

void NameCheck::declare() {
  for (size_t I = 0; I + 1 < Tokens.size(); ++I) {
    if (Tokens[I].is("local") && Tokens[I + 1].is("function")) {
      Locals.insert(Tokens[I + 2].Source);
    } else if (Tokens[I].is("local")) {
      declareList(I + 1, "=");
      size_t Equals = Tokens[I + 2].is("<") ? I + 5 : I + 2; // x <const> =
      if (Equals + 3 < Tokens.size() && Tokens[Equals].is("=") &&
          Tokens[Equals + 1].isName("require"))
        Modules[Tokens[I + 1].Source] =
            Tokens[Equals + (Tokens[Equals + 2].is("(") ? 3 : 2)].Value;
    } else if (Tokens[I].is("for")) {
      declareList(I + 1, "in");
    } else if (Tokens[I].is("function")) {
      size_t Open = I + 1;
      while (Open + 1 < Tokens.size() && !Tokens[Open].is("("))
        ++Open;
      if (Open > I + 2) // function a.b:c()
        Methods.insert(Tokens[Open - 1].Source);
      declareList(Open + 1, ")");
    } else if (P.isKey(I) && Tokens[I + 2].is("function")) {
      Methods.insert(Tokens[I].Source); // a function in a table
    }
  }
}

/// A name that stands alone.
void NameCheck::checkFree(size_t I) {
  StringRef Name = Tokens[I].Source;
  static const std::vector<std::string> Known = [] {
    std::vector<std::string> Out = namesOf({"global"});
    for (const char *Library : {"math", "string", "table", "units"})
      Out.push_back(Library);
    llvm::sort(Out);
    return Out;
  }();
  if (Locals.contains(Name) || is_contained(Known, Name))
    return;
  if (I > 0 && Tokens[I - 1].is("<") && Tokens[I + 1].is(">"))
    return; // an attribute: local x <const>
  if (Tokens[I + 1].is("=")) {
    P.say(Severity::Error, Tokens[I].Line, "unknown-name",
          "assignment to the global '" + Name + "'", "write local " + Name);
    return;
  }
  if (std::string Instead = insteadOf(Name); !Instead.empty()) {
    P.say(Severity::Error, Tokens[I].Line, "unknown-name",
          "detectors have no '" + Name + "'", Instead);
    return;
  }
  std::vector<std::string> All = Known;
  for (const auto &Local : Locals)
    All.push_back(Local.getKey().str());
  llvm::sort(All);
  std::string Close = didYouMean(Name, All);
  P.say(Severity::Error, Tokens[I].Line, "unknown-name",
        "unknown name '" + Name + "'",
        Close.empty() ? "no local and nothing of docs/api.md is called so"
                      : StringRef(Close).rtrim());
}

/// `math.floor`: a library, a dot and a member.
void NameCheck::checkLibrary(size_t I) {
  StringRef Library = Tokens[I].Source, Member = Tokens[I + 2].Source;
  StringRef Receiver = Library == "table" ? "table_library" : Library;
  std::vector<std::string> Known = namesOf(Receiver);
  if (is_contained(Known, Member))
    return;
  std::string Full = (Library + "." + Member).str();
  std::string Instead = insteadOf(Full);
  P.say(Severity::Error, Tokens[I].Line, "unknown-name",
        "unknown name '" + Full + "'",
        !Instead.empty() ? Instead
                         : didYouMean(Member, Known) + "'" + Library +
                               "' has " + join(Known, ", "));
}

/// `:verb(`
void NameCheck::checkVerb(size_t I) {
  StringRef Verb = Tokens[I].Source;
  static const std::vector<std::string> Known =
      namesOf({"case", "table", "row", "column", "string"});
  if (is_contained(Known, Verb) || Methods.contains(Verb))
    return;
  if (I >= 2 && Modules.contains(Tokens[I - 2].Source))
    return;
  std::string Instead = insteadOf(("string." + Verb).str());
  std::string Close = didYouMean(Verb, Known);
  P.say(Severity::Error, Tokens[I].Line, "unknown-verb",
        "no table, row, column or text has a verb '" + Verb + "'",
        !Instead.empty() ? Instead
        : Close.empty()  ? "docs/api.md has all verbs"
                         : StringRef(Close).rtrim().str());
}

/// `case.table`
void NameCheck::checkCase(size_t I) {
  StringRef Name = Tokens[I + 2].Source;
  std::vector<std::string> Known = namesOf({"case"});
  for (const TableSchema &T : schemas())
    Known.push_back(T.Name.str());
  if (is_contained(Known, Name))
    return;
  llvm::sort(Known);
  P.say(Severity::Error, Tokens[I].Line, "unknown-table",
        "the case has no '" + Name + "'",
        didYouMean(Name, Known) + "'culprit list tables' names them all");
}

/// `statistics.median`: a module, a dot and what it should define.
void NameCheck::checkModule(size_t I) {
  const std::string &Name = Modules[Tokens[I].Source];
  const ModuleSet::Module *M = P.Modules ? P.Modules->find(Name) : nullptr;
  if (!M)
    return; // loading tells
  std::vector<LuaToken> Inner = scanLua(M->Source);
  std::vector<std::string> Members;
  for (size_t K = 1; K + LookAhead < Inner.size(); ++K)
    if (Inner[K].Kind == LuaToken::Name &&
        (Inner[K - 1].is(".") || Inner[K - 1].is(":") ||
         Inner[K + 1].is("=")))
      Members.push_back(Inner[K].Source.str());
  StringRef Member = Tokens[I + 2].Source;
  if (!is_contained(Members, Member))
    P.say(Severity::Error, Tokens[I].Line, "unknown-name",
          "module '" + Name + "' has no '" + Member + "'",
          didYouMean(Member, Members) + "it is " + M->File);
}

void NameCheck::run() {
  declare();
  // A name is blamed once, where it stands first.
  StringSet<> Blamed;
  for (size_t I = 0; I + 1 < Tokens.size(); ++I) {
    const LuaToken &T = Tokens[I];
    if (T.Kind != LuaToken::Name)
      continue;
    size_t Before = P.Out.size();
    bool Called = Tokens[I + 1].is("(") || Tokens[I + 1].is("{") ||
                  Tokens[I + 1].Kind == LuaToken::Text;
    if (P.isMember(I)) {
      if (Tokens[I - 1].is(":") && Called)
        checkVerb(I);
    } else if (P.isCaseField(I)) {
      checkCase(I);
    } else if (is_contained({"math", "string", "table", "units"}, T.Source) &&
               !Locals.contains(T.Source) && Tokens[I + 1].is(".")) {
      checkLibrary(I);
    } else if (Modules.contains(T.Source) && Tokens[I + 1].is(".") &&
               Tokens[I + 2].Kind == LuaToken::Name) {
      checkModule(I);
    } else if (!P.isKey(I) && !(I > 0 && (Tokens[I - 1].is("goto") ||
                                          Tokens[I - 1].is("::")))) {
      checkFree(I);
      if (T.isName("log") && Called && !Locals.contains("log"))
        P.say(Severity::Note, T.Line, "left-log", "log(...) is left in",
              "users never see what it writes");
    }
    if (P.Out.size() != Before && !Blamed.insert(P.Out.back().Text).second)
      P.Out.pop_back();
  }
}

std::string didYouMean(StringRef Name, ArrayRef<std::string> Known) {
  std::string Close = closestName(Name, Known);
  return Close.empty() ? "" : "did you mean '" + Close + "'? ";
}

void lintNames(LintPass &P) { NameCheck(P).run(); }

} // namespace culprit
