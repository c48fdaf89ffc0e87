//===- Binding.cpp ----------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Script/Binding.h"
#include "Support/Glob.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <new>
#include <stdexcept>

using namespace llvm;

namespace culprit {

/// Bytes of a table besides its row index, about.
static constexpr size_t TableBytes = 1024;

namespace {
/// Counts a call among the costs, where they are wanted.
class TimedCall {
public:
  TimedCall(Host &H, lua_State *L) : Into(H.costs()) {
    if (Into)
      Into->begin(H.currentLine(L), lua_tostring(L, lua_upvalueindex(1)));
  }
  ~TimedCall() {
    if (Into)
      Into->end();
  }

private:
  Costs *Into;
};
} // namespace

int enter(lua_State *L, Binding Function, const char *SelfType) {
  {
    Host &H = Host::of(L);
    Error Problem = Error::success();
    consumeError(std::move(Problem));
    try {
      if (H.expired()) {
        Problem = H.poll();
      } else if (SelfType && !luaL_testudata(L, 1, SelfType)) {
        const char *Name = lua_tostring(L, lua_upvalueindex(1));
        Problem =
            failure(Twine("'") + Name + "' was called on " + wordFor(L, 1),
                    Twine("write a colon before it: value:") + Name + "(...)");
      } else {
        Call C(L, SelfType != nullptr);
        TimedCall Timed(H, L);
        Expected<int> Results = Function(C);
        if (Results && !H.expired())
          return *Results;
        Problem = Results ? Error::success() : Results.takeError();
        if (H.expired()) { // and so it may have stopped half-way
          consumeError(std::move(Problem));
          Problem = H.poll();
        }
      }
    } catch (const std::bad_alloc &) {
      Problem = failure("the machine ran out of memory");
    } catch (const std::length_error &) {
      Problem = failure("the machine ran out of memory");
    }
    lua_settop(L, 0);
    H.fail(L, std::move(Problem));
  }
  return lua_error(L);
}

void pushFunction(lua_State *L, const char *Name, lua_CFunction Function,
                  int Upvalues) {
  lua_pushstring(L, Name);
  lua_insert(L, -1 - Upvalues);
  lua_pushcclosure(L, Function, Upvalues + 1);
}

/// The words of three letters or more that \p Name is made of.
static SmallVector<StringRef> wordsOf(StringRef Name) {
  SmallVector<StringRef> Words;
  while (!Name.empty()) {
    size_t End = std::min(Name.find_first_of("-_/. "), Name.size());
    if (End > 2)
      Words.push_back(Name.take_front(End));
    Name = Name.drop_front(std::min(End + 1, Name.size()));
  }
  return Words;
}

std::string suggestion(StringRef Unknown, ArrayRef<std::string> Known) {
  if (std::string Close = closestName(Unknown, Known); !Close.empty())
    return "did you mean '" + Close + "'? ";
  // Another word order, or one word of several: those that share most words.
  std::vector<std::pair<size_t, StringRef>> Shared;
  SmallVector<StringRef> Words = wordsOf(Unknown);
  for (StringRef Name : Known) {
    SmallVector<StringRef> Its = wordsOf(Name);
    size_t Same = llvm::count_if(
        Words, [&](StringRef Word) { return is_contained(Its, Word); });
    if (Same)
      Shared.push_back({Same, Name});
  }
  llvm::stable_sort(Shared, [](const auto &A, const auto &B) {
    return A.first > B.first;
  });
  std::string Out;
  for (const auto &[Same, Name] : ArrayRef(Shared).take_front(4))
    Out += (Out.empty() ? "near it: " : ", ") + Name.str();
  return Out.empty() ? Out : Out + "; ";
}

Call::Call(lua_State *L, bool HasSelf)
    : L(L), Shift(HasSelf ? 1 : 0), Count(lua_gettop(L) - Shift) {}

void Call::reject(const Twine &What, const Twine &Hint) {
  if (failed())
    return;
  Problem = What.str();
  Remedy = Hint.str();
}

void Call::rejectType(int I, const Twine &Wanted) {
  reject("argument " + Twine(I) + " of '" + name() + "' must be " + Wanted +
             ", not " + wordFor(L, slot(I)),
         lua_isnoneornil(L, slot(I))
             ? "a field of a row is nil where the case has no value"
             : "");
}

StringRef Call::text(int I) {
  if (lua_type(L, slot(I)) != LUA_TSTRING) {
    rejectType(I, "a text");
    return "";
  }
  size_t Length;
  const char *Text = lua_tolstring(L, slot(I), &Length);
  return StringRef(Text, Length);
}

StringRef Call::text(int I, StringRef Default) {
  return missing(I) ? Default : text(I);
}

int64_t Call::integer(int I) {
  int IsInteger = 0;
  lua_Integer Value = 0;
  if (lua_type(L, slot(I)) == LUA_TNUMBER)
    Value = lua_tointegerx(L, slot(I), &IsInteger);
  if (!IsInteger)
    rejectType(I, "a whole number");
  return Value;
}

size_t Call::size(int I) {
  int64_t Value = integer(I);
  if (Value < 0)
    rejectType(I, "0 or more");
  return Value < 0 ? 0 : static_cast<size_t>(Value);
}

double Call::number(int I) {
  if (lua_type(L, slot(I)) != LUA_TNUMBER)
    rejectType(I, "a number");
  return lua_tonumber(L, slot(I));
}

const Table &Call::table(int I) {
  static const Table Empty;
  if (TableValue *V = valueAt<TableValue>(L, slot(I)))
    return **V;
  rejectType(I, "a table of the case");
  return Empty;
}

const RowValue &Call::row(int I) {
  static const RowValue None{std::make_shared<Table>()};
  if (RowValue *V = valueAt<RowValue>(L, slot(I)))
    return *V;
  rejectType(I, "a row");
  return None;
}

const ColumnValue &Call::column(int I) {
  static const ColumnValue None;
  if (ColumnValue *V = valueAt<ColumnValue>(L, slot(I)))
    return *V;
  rejectType(I, "a column");
  return None;
}

std::vector<std::string> Call::texts(int I) {
  std::vector<std::string> Out;
  if (Count < I)
    reject(Twine("'") + name() + "' wants the name of a column at least");
  for (; I <= Count; ++I)
    Out.push_back(text(I).str());
  return Out;
}

std::vector<std::string> Call::textList(int I) {
  std::vector<std::string> Out;
  if (!lua_istable(L, slot(I)))
    return {text(I).str()};
  for (lua_Integer N = 1, E = lua_rawlen(L, slot(I)); N <= E; ++N) {
    if (lua_rawgeti(L, slot(I), N) != LUA_TSTRING)
      rejectType(I, "a list of texts");
    else
      Out.push_back(lua_tostring(L, -1));
    lua_pop(L, 1);
  }
  if (Out.empty())
    rejectType(I, "a text or a list of texts");
  return Out;
}

Argument Call::value(int StackSlot, const Twine &What) {
  switch (lua_type(L, StackSlot)) {
  case LUA_TBOOLEAN:
    return static_cast<bool>(lua_toboolean(L, StackSlot));
  case LUA_TNUMBER:
    if (lua_isinteger(L, StackSlot))
      return static_cast<int64_t>(lua_tointeger(L, StackSlot));
    return static_cast<double>(lua_tonumber(L, StackSlot));
  case LUA_TSTRING: {
    size_t Length;
    const char *Text = lua_tolstring(L, StackSlot, &Length);
    return std::string(Text, Length);
  }
  default:
    reject(What + " of '" + name() +
               "' must be a number, a text or a "
               "boolean, not " +
               wordFor(L, StackSlot),
           lua_isnoneornil(L, StackSlot)
               ? "to find rows without a value write 'is null'"
               : "");
    return int64_t(0);
  }
}

std::vector<Argument> Call::values(int I) {
  std::vector<Argument> Out;
  for (; I <= Count; ++I)
    Out.push_back(value(slot(I), "argument " + Twine(I)));
  return Out;
}

std::vector<std::string> Call::keys(int I) {
  std::vector<std::string> Out;
  if (!lua_istable(L, slot(I))) {
    rejectType(I, "a table of names and values");
    return Out;
  }
  std::string Wrong = wrongKey(
      L, slot(I), [&](int Key) { return lua_type(L, Key) != LUA_TSTRING; });
  if (!Wrong.empty()) {
    reject("argument " + Twine(I) + " of '" + name() +
           "' must have names as keys, not " + Wrong);
    return Out;
  }
  lua_pushnil(L);
  while (lua_next(L, slot(I))) {
    lua_pop(L, 1);
    Out.push_back(lua_tostring(L, -1));
  }
  llvm::sort(Out);
  return Out;
}

Expected<int> Call::push(Table T, size_t NewColumns) {
  size_t Bytes = TableBytes + T.rows() * 8 * (1 + NewColumns);
  if (Error E = host().charge(L, Bytes))
    return E;
  pushValue(L, TableValue{std::make_shared<const Table>(std::move(T)), Bytes});
  return 1;
}

Expected<int> Call::push(Expected<Table> T, size_t NewColumns) {
  if (!T)
    return T.takeError();
  return push(std::move(*T), NewColumns);
}

Expected<int> Call::pushRow(const TableRef &T, size_t Row) {
  if (Row >= T->rows())
    return pushNil();
  pushValue(L, RowValue{T, Row});
  return 1;
}

Expected<int> Call::pushColumn(const Table &Like, StringRef Name,
                               ColumnRef Data) {
  size_t Bytes = TableBytes + Data->bytes();
  if (Error E = host().charge(L, Bytes))
    return E;
  size_t Rows = Data->size();
  auto T = std::make_shared<const Table>(
      Like.name(), Like.pool(),
      std::vector<std::pair<std::string, ColumnRef>>{
          {Name.str(), std::move(Data)}},
      Rows);
  pushValue(L, ColumnValue{std::move(T), 0, Bytes});
  return 1;
}

Expected<int> Call::push(int64_t Value) {
  lua_pushinteger(L, Value);
  return 1;
}

Expected<int> Call::push(double Value) {
  lua_pushnumber(L, Value);
  return 1;
}

Expected<int> Call::push(bool Value) {
  lua_pushboolean(L, Value);
  return 1;
}

Expected<int> Call::push(StringRef Value) {
  lua_pushlstring(L, Value.data(), Value.size());
  return 1;
}

Expected<int> Call::push(std::optional<double> Value) {
  return Value ? push(*Value) : pushNil();
}

Expected<int> Call::pushNil() {
  lua_pushnil(L);
  return 1;
}

} // namespace culprit
