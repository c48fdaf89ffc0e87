//===- Binding.h - C++ functions that Lua calls -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// A binding is `Expected<int> tableTop(Call &C)`: it reads its arguments from
/// the Call, pushes results and returns their number, or an Error. It never
/// raises a Lua error itself; enter() does when its locals are gone.
///
///   Expected<int> tableTop(Call &C) {
///     int64_t N = C.integer(1);
///     llvm::StringRef Column = C.text(2);
///     if (C.failed())
///       return C.error();
///     return C.push(C.self().top(N, Column));
///   }
///
/// Arguments are numbered as the author of a script counts them, the receiver
/// being 0. An accessor that finds the wrong type returns a default and
/// remembers the first such error.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_SCRIPT_BINDING_H
#define CULPRIT_SCRIPT_BINDING_H

#include "Script/Values.h"
#include "Support/Error.h"
#include "Table/Expression.h"
#include <string>
#include <vector>

namespace culprit {

class Call {
public:
  Call(lua_State *L, bool HasSelf);

  lua_State *state() const { return L; }
  Host &host() const { return Host::of(L); }
  /// The name the function goes by: where.
  const char *name() const { return lua_tostring(L, lua_upvalueindex(1)); }
  /// Where argument \p I lies on the stack.
  int slot(int I) const { return I + Shift; }
  /// Arguments given, the receiver not counted.
  int count() const { return Count; }
  bool missing(int I) const { return lua_isnoneornil(L, slot(I)); }

  // The receiver, which enter() has checked -------------------------------//
  const Table &self() const { return *selfTable(); }
  const TableRef &selfTable() const {
    return static_cast<TableValue *>(lua_touserdata(L, 1))->T;
  }
  const RowValue &selfRow() const {
    return *static_cast<RowValue *>(lua_touserdata(L, 1));
  }
  const ColumnValue &selfColumn() const {
    return *static_cast<ColumnValue *>(lua_touserdata(L, 1));
  }

  // Arguments -------------------------------------------------------------//
  llvm::StringRef text(int I);
  llvm::StringRef text(int I, llvm::StringRef Default);
  int64_t integer(int I);
  int64_t integer(int I, int64_t Default) {
    return missing(I) ? Default : integer(I);
  }
  /// An integer that is not negative, as a size.
  size_t size(int I);
  double number(int I);
  const Table &table(int I);
  const RowValue &row(int I);
  const ColumnValue &column(int I);
  /// The texts from argument \p I on; at least one.
  std::vector<std::string> texts(int I);
  /// A text, or a list of texts.
  std::vector<std::string> textList(int I);
  /// The values from argument \p I on, for the `?` of an expression.
  std::vector<Argument> values(int I);
  /// The value at \p StackSlot, called \p What in errors.
  Argument value(int StackSlot, const llvm::Twine &What);
  /// The text keys of the Lua table in argument \p I, sorted.
  std::vector<std::string> keys(int I);

  bool failed() const { return !Problem.empty(); }
  /// The error of the first argument that was wrong.
  llvm::Error error() const { return failure(Problem, Remedy); }
  void reject(const llvm::Twine &What, const llvm::Twine &Hint = "");
  /// Rejects argument \p I, which should have been \p Wanted.
  void rejectType(int I, const llvm::Twine &Wanted);

  // Results; each returns the 1 that a binding returns --------------------//
  llvm::Expected<int> push(Table T, size_t NewColumns = 0);
  llvm::Expected<int> push(llvm::Expected<Table> T, size_t NewColumns = 0);
  llvm::Expected<int> pushRow(const TableRef &T, size_t Row);
  /// A computed column over the rows of \p Like.
  llvm::Expected<int> pushColumn(const Table &Like, llvm::StringRef Name,
                                 ColumnRef Data);
  llvm::Expected<int> push(int64_t Value);
  llvm::Expected<int> push(double Value);
  llvm::Expected<int> push(bool Value);
  llvm::Expected<int> push(llvm::StringRef Value);
  llvm::Expected<int> push(const std::string &Value) {
    return push(llvm::StringRef(Value));
  }
  llvm::Expected<int> push(const char *Value) = delete;
  /// The value, or nil.
  llvm::Expected<int> push(std::optional<double> Value);
  llvm::Expected<int> pushNil();

private:
  lua_State *L;
  int Shift; ///< 1 with a receiver, 0 without.
  int Count;
  std::string Problem, Remedy;
};

using Binding = llvm::Expected<int> (*)(Call &);

/// Calls \p Function: checks the time and that the receiver is \p SelfType,
/// if that is not null.
int enter(lua_State *L, Binding Function, const char *SelfType);

template <Binding Function> int enterFree(lua_State *L) {
  return enter(L, Function, nullptr);
}
template <Binding Function, typename Self> int enterMethod(lua_State *L) {
  return enter(L, Function, Self::TypeName);
}

/// Pushes \p Function under \p Name, with the \p Upvalues values on top of the
/// stack as its upvalues from the second on.
void pushFunction(lua_State *L, const char *Name, lua_CFunction Function,
                  int Upvalues = 0);

/// "did you mean 'stop'? ", "near it: gpu-idle, idle-unresolved; ", or empty.
std::string suggestion(llvm::StringRef Unknown,
                       llvm::ArrayRef<std::string> Known);

// The bindings of Api.def.
#define API(RECEIVER, NAME, FUNCTION, PARAMS, RESULT, DOC, EXAMPLE)            \
  llvm::Expected<int> FUNCTION(Call &C);
#include "Script/Api.def"

} // namespace culprit

#endif // CULPRIT_SCRIPT_BINDING_H
