//===- NilNames.cpp ---------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Script/NilNames.h"
#include "Script/ApiEntries.h"
#include "Script/Values.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <vector>

using namespace llvm;

namespace culprit {

static bool inName(char C) { return isAlnum(C) || C == '_'; }

/// \p Line with blanks for what stands in quotes and comments, byte for byte.
static std::string withoutTexts(StringRef Line) {
  std::string Out = Line.str();
  for (size_t I = 0; I < Out.size(); ++I) {
    if (Out.compare(I, 2, "--") == 0) {
      Out.replace(I, Out.size() - I, Out.size() - I, ' ');
      break;
    }
    char Quote = Out[I];
    if (Quote != '"' && Quote != '\'')
      continue;
    for (++I; I < Out.size() && Out[I] != Quote; ++I) {
      if (Out[I] == '\\' && I + 1 < Out.size())
        Out[I++] = ' ';
      Out[I] = ' ';
    }
  }
  return Out;
}

/// Where the bracket opens that \p Code closes at \p Close; npos where it does
/// so on another line.
static size_t opening(StringRef Code, size_t Close) {
  int Depth = 0;
  for (size_t I = Close + 1; I-- != 0;) {
    if (Code[I] == ')' || Code[I] == ']')
      ++Depth;
    else if ((Code[I] == '(' || Code[I] == '[') && --Depth == 0)
      return I;
  }
  return StringRef::npos;
}

/// Where the name that ends before \p End begins.
static size_t nameBefore(StringRef Code, size_t End) {
  while (End != 0 && inName(Code[End - 1]))
    --End;
  return End;
}

/// Where the chain `a.b:c(...)` begins, the last name of which is at \p At.
static size_t chainBegin(StringRef Code, size_t At) {
  while (At != 0 && (Code[At - 1] == '.' || Code[At - 1] == ':')) {
    size_t Before = At - 1;
    while (Before != 0 &&
           (Code[Before - 1] == ')' || Code[Before - 1] == ']')) {
      size_t Open = opening(Code, Before - 1);
      if (Open == StringRef::npos)
        return At - 1;
      Before = Open;
    }
    size_t Name = nameBefore(Code, Before);
    if (Name == Before && Before == At - 1)
      return At - 1; // it goes on from the line above
    At = Name;
  }
  return At;
}

/// What a verb says of its result: `number?`; empty where there is none.
static StringRef resultType(StringRef Verb) {
  for (const ApiEntry &E : apiEntries())
    if (E.Kind == ApiKind::Function && E.Name == Verb &&
        E.Receiver != "global" && E.Result.ends_with("?") &&
        !E.Result.starts_with("fun("))
      return E.Result;
  return "";
}

static bool isVerb(StringRef Name) {
  return any_of(apiEntries(),
                [&](const ApiEntry &E) { return E.Name == Name; });
}

static std::string hintFor(StringRef Name, StringRef Type) {
  if (Type == "culprit.Row?")
    return (Name + "() is nil where there is no such row: test it first, as in "
                   "`if not row then return end`")
        .str();
  if (!Type.empty())
    return (Name + "() is nil where there is no value to tell it from: test it "
                   "first")
        .str();
  return (Name + "() returned nil, or nothing").str();
}

/// Whether one of \p Operators stands beside what is written from \p From to
/// \p End.
static bool isOperand(StringRef Code, size_t From, size_t End,
                      ArrayRef<StringRef> Operators) {
  StringRef Before = Code.take_front(From).rtrim();
  StringRef After = Code.drop_front(End).ltrim();
  return any_of(Operators, [&](StringRef Op) {
    return Before.ends_with(Op) || After.starts_with(Op);
  });
}

/// The operators that Lua speaks of in \p Message; none for an index or a call.
static ArrayRef<StringRef> operatorsOf(StringRef Message) {
  static constexpr StringRef Compares[] = {"<", ">", "<=", ">="};
  static constexpr StringRef Computes[] = {"+", "-", "*", "/", "%", "^"};
  static constexpr StringRef Joins[] = {".."};
  if (Message.contains("compare"))
    return Compares;
  if (Message.contains("arithmetic"))
    return Computes;
  if (Message.contains("concatenate"))
    return Joins;
  return {};
}

NilName findNil(StringRef Message, StringRef Line,
                function_ref<bool(StringRef, StringRef)> IsNil) {
  constexpr size_t MaxText = 60;
  bool Indexed = Message.contains("index");
  ArrayRef<StringRef> Operators = operatorsOf(Message);
  if (!Indexed && Operators.empty())
    return {};
  std::string Plain = withoutTexts(Line);
  StringRef Code = Plain;
  std::vector<NilName> Found;
  auto Add = [&](size_t From, size_t End, std::string Hint) {
    if (!Indexed && !isOperand(Code, From, End, Operators))
      return;
    std::string Text = Line.slice(From, End).str();
    if (Text.size() > MaxText)
      Text = "..." + Text.substr(Text.size() - MaxText);
    if (none_of(Found, [&](const NilName &F) { return F.Text == Text; }))
      Found.push_back({Text, std::move(Hint)});
  };
  for (size_t End = 1; End <= Code.size(); ++End) {
    StringRef After = Code.drop_front(End);
    bool Goes = After.starts_with("[") || After.starts_with(":") ||
                (After.starts_with(".") && !After.starts_with(".."));
    char Last = Code[End - 1];
    if (Last == ')' && Goes == Indexed) {
      size_t Open = opening(Code, End - 1);
      size_t Name = Open == StringRef::npos ? 0 : nameBefore(Code, Open);
      if (Open == StringRef::npos || Name == Open)
        continue;
      StringRef Called = Code.slice(Name, Open);
      bool OfVerb = Name != 0 && Code[Name - 1] == ':';
      StringRef Type = OfVerb ? resultType(Called) : "";
      if (OfVerb ? Type.empty() : isVerb(Called))
        continue;
      Add(chainBegin(Code, Name), End, hintFor(Called, Type));
    }
    // A variable, or a field of one, at its last letter. Lua has named it
    // where it was indexed.
    if (Indexed || Goes || !inName(Last) || After.starts_with("(") ||
        (!After.empty() && inName(After.front())))
      continue;
    size_t Name = nameBefore(Code, End);
    StringRef Word = Code.slice(Name, End);
    char Before = Name == 0 ? ' ' : Code[Name - 1];
    if (Before == '.') {
      size_t Of = nameBefore(Code, Name - 1);
      bool Alone = Of == 0 || (Code[Of - 1] != '.' && Code[Of - 1] != ':');
      if (Alone && Of != Name - 1 && IsNil(Code.slice(Of, Name - 1), Word))
        Add(Of, End, "");
    } else if (Before != ':' && IsNil(Word, "")) {
      Add(Name, End, "");
    }
  }
  return Found.size() == 1 ? Found.front() : NilName();
}

bool isNilLocal(lua_State *L, lua_Debug &Frame, StringRef Name,
                StringRef Field) {
  bool Nil = false;
  // The last of several with one name hides the others.
  for (int I = 1; const char *Local = lua_getlocal(L, &Frame, I); ++I) {
    if (Name == Local) {
      Nil = Field.empty() && lua_isnil(L, -1);
      if (const RowValue *Row = valueAt<RowValue>(L, lua_gettop(L))) {
        const ColumnView *Column = Row->T->find(Field);
        Nil = Column && Row->T->cell(Row->Row, *Column).Null;
      }
    }
    lua_pop(L, 1);
  }
  return Nil;
}

} // namespace culprit
