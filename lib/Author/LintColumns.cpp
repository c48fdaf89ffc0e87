//===- LintColumns.cpp - Columns that no table has --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Follows values that are plainly rows of a table of the case:
//
//   local work = case.gpu_work:where { kind = "kernel" }
//   for row in work:top(5, "dur"):rows() do ... row.stop
//
// and checks the columns they are asked for. `with`, `join` and the like make
// another table, where it stops following.
//
//===----------------------------------------------------------------------===//

#include "Author/LintPass.h"
#include "Case/Schema.h"
#include "Script/ApiEntries.h"
#include "Table/ExpressionLexer.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

using namespace llvm;

namespace culprit {

namespace {

/// What a value is known to be.
struct Shape {
  enum KindTy { Unknown, Rows, Row, Iterator, Groups } Kind = Unknown;
  const TableSchema *Table = nullptr;
};

class ColumnCheck {
public:
  explicit ColumnCheck(LintPass &P) : P(P), Tokens(P.Tokens) {}

  void run();

private:
  void countBindings();
  /// Follows the chain that begins at \p I; \p I is beyond it afterwards.
  Shape follow(size_t &I);
  Shape base(size_t &I);
  void bind(size_t Name, Shape S);

  void checkCall(const TableSchema &T, StringRef Verb, size_t Open,
                 size_t Close);
  void checkKeys(const TableSchema &T, size_t Open, size_t Close);
  void checkExpression(const TableSchema &T, const LuaToken &Text);
  void checkColumn(const TableSchema &T, StringRef Name, unsigned Line);
  /// Whether token \p I is a text that is all of its argument.
  bool isWholeText(size_t I) const {
    return Tokens[I].Kind == LuaToken::Text &&
           (Tokens[I + 1].is(",") || Tokens[I + 1].is(")") ||
            Tokens[I + 1].is("}") || Tokens[I].Line != Tokens[I + 1].Line ||
            Tokens[I + 1].is(":") || Tokens[I + 1].Kind != LuaToken::Symbol);
  }

  LintPass &P;
  ArrayRef<LuaToken> Tokens;
  StringMap<unsigned> Bindings; ///< How often each name is given a value.
  StringMap<Shape> Known;
};

} // namespace

/// A name that is bound at several places may be several things.
void ColumnCheck::countBindings() {
  for (size_t I = 0; I + 1 < Tokens.size(); ++I) {
    const LuaToken &T = Tokens[I];
    if (T.is("local") || T.is("for") || T.is("function")) {
      size_t J = I + 1;
      if (T.is("function"))
        while (J + 1 < Tokens.size() && !Tokens[J].is("("))
          ++J;
      J += Tokens[J].is("(");
      for (; Tokens[J].Kind == LuaToken::Name; J += 2) {
        ++Bindings[Tokens[J].Source];
        if (!Tokens[J + 1].is(","))
          break;
      }
    } else if (T.Kind == LuaToken::Name && Tokens[I + 1].is("=") &&
               !P.isMember(I) && !P.isKey(I) && I > 0 &&
               !Tokens[I - 1].is("local") && !Tokens[I - 1].is("for")) {
      ++Bindings[T.Source];
    }
  }
}

void ColumnCheck::bind(size_t Name, Shape S) {
  if (Bindings.lookup(Tokens[Name].Source) == 1 && S.Kind != Shape::Unknown)
    Known[Tokens[Name].Source] = S;
}

Shape ColumnCheck::base(size_t &I) {
  if (P.isCaseField(I)) {
    for (const TableSchema &T : schemas())
      if (T.Name == Tokens[I + 2].Source) {
        I += 3;
        return {Shape::Rows, &T};
      }
    return {};
  }
  if (Tokens[I].Kind != LuaToken::Name || P.isMember(I) || P.isKey(I))
    return {};
  auto It = Known.find(Tokens[I].Source);
  if (It == Known.end())
    return {};
  ++I;
  return It->second;
}

static Shape shapeAfter(StringRef Verb, const TableSchema &T) {
  if (is_contained({"where", "sort", "top", "slice", "distinct", "around",
                    "renamed"},
                   Verb))
    return {Shape::Rows, &T};
  if (is_contained({"first", "last", "row"}, Verb))
    return {Shape::Row, &T};
  if (Verb == "rows")
    return {Shape::Iterator, &T};
  if (Verb == "group")
    return {Shape::Groups, &T};
  return {};
}

Shape ColumnCheck::follow(size_t &I) {
  Shape S = base(I);
  while (S.Kind == Shape::Rows && Tokens[I].is(":") &&
         Tokens[I + 1].Kind == LuaToken::Name) {
    size_t Open = I + 2, Close = Open;
    if (Tokens[Open].is("(") || Tokens[Open].is("{"))
      Close = closingBracket(Tokens, Open);
    else if (Tokens[Open].Kind != LuaToken::Text)
      break;
    checkCall(*S.Table, Tokens[I + 1].Source, Open, Close);
    S = shapeAfter(Tokens[I + 1].Source, *S.Table);
    I = Close + 1;
  }
  if (S.Kind == Shape::Row && Tokens[I].is(".") &&
      Tokens[I + 1].Kind == LuaToken::Name) {
    StringRef Field = Tokens[I + 1].Source;
    bool IsOfRows = llvm::any_of(apiEntries(), [&](const ApiEntry &E) {
      return E.Receiver == "row" && E.Name == Field;
    });
    if (!IsOfRows)
      checkColumn(*S.Table, Field, Tokens[I + 1].Line);
  }
  // Part of a larger expression: its value is something else.
  if (Tokens[I].is(".") || Tokens[I].is(":") || Tokens[I].is("[") ||
      Tokens[I].is("and") || Tokens[I].is("or"))
    return {};
  return S;
}

void ColumnCheck::checkColumn(const TableSchema &T, StringRef Name,
                              unsigned Line) {
  if (Name.empty() || T.find(Name))
    return;
  std::vector<std::string> Columns;
  for (const ColumnSchema &C : T.Columns)
    Columns.push_back(C.Name.str());
  P.say(Severity::Error, Line, "unknown-column",
        "unknown column '" + Name + "' of '" + T.Name + "'",
        didYouMean(Name, Columns) + "columns: " + join(Columns, ", "));
}

void ColumnCheck::checkExpression(const TableSchema &T, const LuaToken &Text) {
  ExpressionLexer Lexer(Text.Value);
  ExpressionToken Word = Lexer.next();
  while (Word.Kind != ExpressionToken::End &&
         Word.Kind != ExpressionToken::Bad) {
    ExpressionToken Next = Lexer.next();
    bool Calls = Next.Kind == ExpressionToken::Symbol && Next.Text == "(";
    static const StringSet<> Reserved = {"and", "or",   "not",  "is",
                                         "null", "true", "false"};
    if (Word.Kind == ExpressionToken::Word && !Calls &&
        (Word.Quoted || !Reserved.contains(Word.Name)))
      checkColumn(T, Word.Name, Text.Line);
    Word = std::move(Next);
  }
}

/// `{ kind = "kernel", role = "compute" }`
void ColumnCheck::checkKeys(const TableSchema &T, size_t Open, size_t Close) {
  for (size_t I = Open + 1; I < Close; ++I) {
    if (Tokens[I].is("(") || Tokens[I].is("{") || Tokens[I].is("[")) {
      I = closingBracket(Tokens, I);
      continue;
    }
    if (Tokens[I].Kind == LuaToken::Name && P.isKey(I))
      checkColumn(T, Tokens[I].Source, Tokens[I].Line);
  }
}

void ColumnCheck::checkCall(const TableSchema &T, StringRef Verb, size_t Open,
                            size_t Close) {
  size_t First = Tokens[Open].is("(") ? Open + 1 : Open;
  if (Verb == "where") {
    if (Tokens[First].is("{"))
      checkKeys(T, First, closingBracket(Tokens, First));
    else if (isWholeText(First))
      checkExpression(T, Tokens[First]);
    return;
  }
  if (Verb == "compute" && isWholeText(First))
    return checkExpression(T, Tokens[First]);
  static const StringSet<> OneColumn = {"sum", "min",    "max", "mean",
                                        "median", "std", "col", "quantile"};
  static const StringSet<> Columns = {"sort", "distinct", "select", "group",
                                      "top",  "span",     "covered", "union",
                                      "gaps", "count"};
  if (!OneColumn.contains(Verb) && !Columns.contains(Verb))
    return;
  for (size_t I = First; I <= Close; ++I) {
    if (I != First && (Tokens[I].is("(") || Tokens[I].is("{"))) {
      I = closingBracket(Tokens, I);
      continue;
    }
    if (isWholeText(I) && (I == First || Tokens[I - 1].is(","))) {
      StringRef Name = Tokens[I].Value;
      if (Verb == "sort")
        Name.consume_front("-");
      checkColumn(T, Name, Tokens[I].Line);
    }
    if (OneColumn.contains(Verb))
      return;
  }
}

void ColumnCheck::run() {
  countBindings();
  for (size_t I = 0; I + LookAhead < Tokens.size(); ++I) {
    size_t At = I;
    // local NAME = CHAIN
    if (Tokens[I].is("local") && Tokens[I + 1].Kind == LuaToken::Name &&
        Tokens[I + 2].is("=")) {
      At += 3;
      Shape S = follow(At);
      bind(I + 1, S);
      I += 2;
      if (S.Kind != Shape::Unknown)
        ++I; // the chain has been looked at; arguments of it have not
      continue;
    }
    // for NAME in CHAIN:rows() and for KEY, NAME in CHAIN:group(...)
    if (Tokens[I].is("for")) {
      size_t Name = I + 1;
      while (Tokens[Name].Kind == LuaToken::Name && Tokens[Name + 1].is(","))
        Name += 2;
      if (Tokens[Name + 1].is("in")) {
        At = Name + 2;
        Shape S = follow(At);
        if (S.Kind == Shape::Iterator)
          bind(Name, {Shape::Row, S.Table});
        else if (S.Kind == Shape::Groups)
          bind(Name, {Shape::Rows, S.Table});
        I = Name + 1;
      }
      continue;
    }
    follow(At);
  }
}

void lintColumns(LintPass &P) { ColumnCheck(P).run(); }

} // namespace culprit
