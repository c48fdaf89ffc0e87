//===- LintPass.h - The parts of the lint -----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// What the checks of Lint.h share. Each looks at the tokens of one file.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_AUTHOR_LINTPASS_H
#define CULPRIT_AUTHOR_LINTPASS_H

#include "Author/Lint.h"
#include "Author/LuaTokens.h"
#include "llvm/ADT/StringSet.h"

namespace culprit {

struct LintPass {
  llvm::StringRef File;
  llvm::ArrayRef<LuaToken> Tokens;
  const DetectorInfo *Info; ///< Null where the file does not load.
  /// What the case is called: the parameter of `run`.
  llvm::StringRef CaseName;
  std::vector<LintRemark> &Out;
  /// What `require` finds; null where that is not known.
  const ModuleSet *Modules = nullptr;
  /// Every name and every word of a text in the modules it requires.
  llvm::StringSet<> ModuleWords = {};

  void say(Severity Level, unsigned Line, llvm::StringRef Check,
           const llvm::Twine &Text, const llvm::Twine &Hint = "") {
    Out.push_back({File.str(), std::max(Line, 1u), Level, Text.str(),
                   Hint.str(), Check.str()});
  }

  /// Whether token \p I stands behind `.` or `:`, as a member does.
  bool isMember(size_t I) const {
    return I > 0 && (Tokens[I - 1].is(".") || Tokens[I - 1].is(":"));
  }
  /// Whether token \p I is a key: `name =` in the braces of a table.
  bool isKey(size_t I) const {
    return I > 0 && Tokens[I + 1].is("=") &&
           (Tokens[I - 1].is("{") || Tokens[I - 1].is(",") ||
            Tokens[I - 1].is(";"));
  }
  /// Whether tokens \p I and the two after it are `case.NAME`.
  bool isCaseField(size_t I) const {
    return I + 2 < Tokens.size() && Tokens[I].isName(CaseName) &&
           !isMember(I) && Tokens[I + 1].is(".") &&
           Tokens[I + 2].Kind == LuaToken::Name;
  }
};

/// "did you mean 'x'? " or nothing.
std::string didYouMean(llvm::StringRef Name, llvm::ArrayRef<std::string> Known);

/// "'if' of line 14 has no 'end'": the first block or bracket of \p Source that
/// nothing closes, or what closes none; empty where all is well.
std::string unclosedBlock(llvm::ArrayRef<LuaToken> Tokens,
                          llvm::StringRef Source);

/// Fills ModuleWords of \p P from its Modules.
void readModules(LintPass &P);

/// Options, symptoms and needs that are declared and not used, or used and not
/// declared.
void lintDeclaration(LintPass &P);
/// Names that nothing defines: globals, verbs, tables of the case.
void lintNames(LintPass &P);
/// Columns that a table of the case does not have, as far as it shows which
/// table a value is.
void lintColumns(LintPass &P);

} // namespace culprit

#endif // CULPRIT_AUTHOR_LINTPASS_H
