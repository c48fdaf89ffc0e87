//===- LintDeclaration.cpp - What is declared and what is done --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Options, symptoms and needs: declared and not used, or used and not
// declared. A detector may leave work to modules, so what stands there counts
// as used.
//
//===----------------------------------------------------------------------===//

#include "Author/LintPass.h"
#include "Case/Schema.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace culprit {

/// The key NAME of the table that the file returns, as `NAME = {`, and where
/// its braces close; {0, 0} where there is none.
static std::pair<size_t, size_t> findKey(const LintPass &P, StringRef Name) {
  for (size_t I = 1; I + LookAhead < P.Tokens.size(); ++I)
    if (P.Tokens[I].isName(Name) && P.isKey(I) && P.Tokens[I + 2].is("{"))
      return {I, closingBracket(P.Tokens, I + 2)};
  return {0, 0};
}

/// Whether `case.options` stands at \p I.
static bool isOptions(const LintPass &P, size_t I) {
  return P.isCaseField(I) && P.Tokens[I + 2].isName("options");
}

/// The names that stand for `case.options`: of `local opt = case.options`,
/// and of `local opt, n = case.options, 0`.
static StringSet<> optionAliases(const LintPass &P) {
  StringSet<> Aliases;
  for (size_t I = 0; I + LookAhead < P.Tokens.size(); ++I) {
    if (!P.Tokens[I].is("local"))
      continue;
    std::vector<StringRef> Names;
    size_t J = I + 1;
    for (; P.Tokens[J].Kind == LuaToken::Name; ++J) {
      Names.push_back(P.Tokens[J].Source);
      if (!P.Tokens[J + 1].is(","))
        break;
      ++J;
    }
    if (!P.Tokens[++J].is("="))
      continue;
    ++J;
    // Values that are more than a few words end the search.
    for (StringRef Name : Names) {
      if (isOptions(P, J) && !P.Tokens[J + 3].is(".") &&
          !P.Tokens[J + 3].is("["))
        Aliases.insert(Name);
      while (J + LookAhead < P.Tokens.size() && !P.Tokens[J].is(",") &&
             P.Tokens[J].Kind != LuaToken::Keyword)
        J = P.Tokens[J].is("(") || P.Tokens[J].is("{")
                ? closingBracket(P.Tokens, J) + 1
                : J + 1;
      if (!P.Tokens[J].is(","))
        break;
      ++J;
    }
  }
  return Aliases;
}

static void lintOptions(LintPass &P) {
  auto [Key, Close] = findKey(P, "options");
  StringSet<> Aliases = optionAliases(P);
  StringSet<> Used;
  std::vector<std::string> Names;
  for (const OptionSpec &O : P.Info->Options)
    Names.push_back(O.Name);
  for (size_t I = 0; I + LookAhead < P.Tokens.size(); ++I) {
    if (Key && I > Key && I < Close)
      continue;
    const LuaToken &T = P.Tokens[I];
    // By whatever name they are passed on, an option is read by its own.
    if (T.Kind == LuaToken::Text)
      Used.insert(T.Value);
    else if (T.Kind == LuaToken::Name && P.isMember(I))
      Used.insert(T.Source);
    size_t Dot = isOptions(P, I) ? I + 3
                 : T.Kind == LuaToken::Name && Aliases.contains(T.Source) &&
                         !P.isMember(I)
                     ? I + 1
                     : 0;
    if (!Dot || !P.Tokens[Dot].is(".") ||
        P.Tokens[Dot + 1].Kind != LuaToken::Name)
      continue;
    StringRef Name = P.Tokens[Dot + 1].Source;
    if (!is_contained(Names, Name))
      P.say(Severity::Error, P.Tokens[Dot + 1].Line, "undeclared-option",
            "option '" + Name + "' is read and not declared",
            didYouMean(Name, Names) +
                (Names.empty() ? "it declares none"
                               : "options: " + join(Names, ", ")));
  }
  for (const std::string &Name : Names) {
    if (Used.contains(Name) || P.ModuleWords.contains(Name))
      continue;
    unsigned Line = 1;
    for (size_t I = Key; I < Close; ++I)
      if (P.Tokens[I].isName(Name) && P.isKey(I))
        Line = P.Tokens[I].Line;
    P.say(Severity::Warning, Line, "unused-option",
          "option '" + Name + "' is declared and never read",
          "read it as case.options." + Name + ", or take it out");
  }
}

static void lintSymptoms(LintPass &P) {
  auto [Key, Close] = findKey(P, "symptoms");
  StringSet<> Said;
  std::vector<StringRef> Beginnings; // "log-" .. kind
  for (size_t I = 0; I + LookAhead < P.Tokens.size(); ++I) {
    const LuaToken &T = P.Tokens[I];
    if (T.Kind == LuaToken::Text && !(Key && I > Key && I < Close)) {
      Said.insert(T.Value);
      if (P.Tokens[I + 1].is("..") && !T.Value.empty())
        Beginnings.push_back(T.Value);
    }
    if (T.isName("symptom") && P.isKey(I) &&
        P.Tokens[I + 2].Kind == LuaToken::Text &&
        (P.Tokens[I + 3].is(",") || P.Tokens[I + 3].is("}")) &&
        !is_contained(P.Info->Symptoms, P.Tokens[I + 2].Value))
      P.say(Severity::Error, T.Line, "undeclared-symptom",
            "symptom '" + P.Tokens[I + 2].Value +
                "' is reported and not declared",
            didYouMean(P.Tokens[I + 2].Value, P.Info->Symptoms) +
                "add it to `symptoms`");
  }
  for (const std::string &S : P.Info->Symptoms) {
    if (Said.contains(S) || P.ModuleWords.contains(S) ||
        llvm::any_of(Beginnings,
                     [&](StringRef B) { return StringRef(S).starts_with(B); }))
      continue;
    unsigned Line = 1;
    for (size_t I = Key; I < Close; ++I)
      if (P.Tokens[I].Kind == LuaToken::Text && P.Tokens[I].Value == S)
        Line = P.Tokens[I].Line;
    P.say(Severity::Warning, Line, "unused-symptom",
          "symptom '" + S + "' is declared and never reported",
          "report it, or take it out: a symptom that stays away counts "
          "against its causes");
  }
}

/// Adds \p T's name, or the words of its text, to \p Into; for a text itself
/// too.
static void addWords(const LuaToken &T, StringSet<> &Into) {
  StringRef Rest = T.Kind == LuaToken::Text   ? StringRef(T.Value)
                   : T.Kind == LuaToken::Name ? T.Source
                                              : StringRef();
  Into.insert(Rest);
  while (!Rest.empty()) {
    StringRef Word =
        Rest.take_while([](char C) { return isAlnum(C) || C == '_'; });
    Into.insert(Word);
    Rest = Rest.drop_front(std::max<size_t>(Word.size(), 1));
  }
}

/// Adds the words of the modules that \p Tokens require, and those require.
static void addModules(ArrayRef<LuaToken> Tokens, const ModuleSet &Modules,
                       StringSet<> &Seen, StringSet<> &Into) {
  for (size_t I = 0; I + LookAhead < Tokens.size(); ++I) {
    if (!Tokens[I].isName("require"))
      continue;
    const LuaToken &Name = Tokens[I + 1].is("(") ? Tokens[I + 2]
                                                 : Tokens[I + 1];
    const ModuleSet::Module *M =
        Name.Kind == LuaToken::Text ? Modules.find(Name.Value) : nullptr;
    if (!M || !Seen.insert(Name.Value).second)
      continue;
    std::vector<LuaToken> Inner = scanLua(M->Source);
    for (const LuaToken &T : Inner)
      addWords(T, Into);
    addModules(Inner, Modules, Seen, Into);
  }
}

static void lintNeeds(LintPass &P) {
  auto [Key, Close] = findKey(P, "needs");
  if (!Key)
    return;
  StringSet<> Words = P.ModuleWords;
  for (size_t I = 0; I + LookAhead < P.Tokens.size(); ++I)
    if (I < Key || I > Close)
      addWords(P.Tokens[I], Words);
  StringSet<> Needed;
  auto Look = [&](const Need &N) {
    const TableSchema &T = schema(N.Table);
    Needed.insert(T.Name);
    for (unsigned C : N.Columns) {
      StringRef Name = T.Columns[C].Name;
      // Interval verbs read these unasked.
      if (Words.contains(Name) || Name == "start" || Name == "stop")
        continue;
      unsigned Line = 1;
      for (size_t I = Key; I < Close; ++I)
        if (P.Tokens[I].Kind == LuaToken::Text && P.Tokens[I].Value == Name)
          Line = P.Tokens[I].Line;
      P.say(Severity::Note, Line, "unused-need",
            "column '" + Name + "' of '" + T.Name +
                "' is needed and never named again");
    }
  };
  for (const Need &N : P.Info->Needs.All)
    Look(N);
  for (const auto &Alternatives : P.Info->Needs.AnyOf)
    for (const Need &N : Alternatives)
      Look(N);
  std::vector<std::string> Besides;
  unsigned Line = 1;
  for (size_t I = 0; I + LookAhead < P.Tokens.size(); ++I) {
    if (!P.isCaseField(I))
      continue;
    StringRef Name = P.Tokens[I + 2].Source;
    if (llvm::none_of(schemas(),
                      [&](const TableSchema &T) { return T.Name == Name; }) ||
        !Needed.insert(Name).second)
      continue;
    if (Besides.empty())
      Line = P.Tokens[I].Line;
    Besides.push_back(Name.str());
  }
  if (!Besides.empty())
    P.say(Severity::Note, Line, "undeclared-need",
          "`needs` does not name what is read here: " + join(Besides, ", "),
          "without it the detector runs all the same, and is clear where it "
          "could be skipped");
}

void readModules(LintPass &P) {
  StringSet<> Seen;
  addModules(P.Tokens, *P.Modules, Seen, P.ModuleWords);
}

void lintDeclaration(LintPass &P) {
  lintOptions(P);
  lintSymptoms(P);
  lintNeeds(P);
}

} // namespace culprit
