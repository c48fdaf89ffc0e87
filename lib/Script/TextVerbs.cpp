//===- TextVerbs.cpp - Loops and scripts of answers -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Script/Binding.h"
#include "Support/TextShape.h"
#include <limits>

using namespace llvm;

namespace culprit {

static void setField(lua_State *L, const char *Name, int64_t Value) {
  lua_pushinteger(L, Value);
  lua_setfield(L, -2, Name);
}

/// The number of turns that makes a loop, argument 1.
static size_t minRepeats(Call &C, int I) {
  size_t Repeats = C.missing(I) ? 4 : C.size(I);
  if (!C.failed() && Repeats < 2)
    C.rejectType(I, "2 or more");
  return Repeats;
}

/// Pushes what was found; places count from \p First.
static Expected<int> pushLoop(Call &C, const std::optional<TailLoop> &Loop,
                              int64_t First) {
  if (!Loop)
    return C.pushNil();
  lua_createtable(C.state(), 0, 4);
  setField(C.state(), "period", static_cast<int64_t>(Loop->Period));
  setField(C.state(), "onset", static_cast<int64_t>(Loop->Onset) + First);
  setField(C.state(), "length", static_cast<int64_t>(Loop->Length));
  setField(C.state(), "repeats",
           static_cast<int64_t>(Loop->Length / Loop->Period));
  return 1;
}

Expected<int> stringLoop(Call &C) {
  StringRef Text = C.text(1);
  size_t Repeats = minRepeats(C, 2);
  if (C.failed())
    return C.error();
  return pushLoop(C, tailLoop(Text, Repeats), 1);
}

Expected<int> columnLoop(Call &C) {
  const ColumnValue &Column = C.selfColumn();
  size_t Repeats = minRepeats(C, 1);
  if (C.failed())
    return C.error();
  ColumnType Type = Column.view().type();
  if (Type != ColumnType::Int && Type != ColumnType::String)
    return failure("loop() compares whole numbers or texts",
                   "take a column of ids or of texts");
  if (Column.rows() > std::numeric_limits<uint32_t>::max() / 2)
    return failure("loop() takes at most 2^31 rows", "choose rows first");
  std::vector<int64_t> Values(Column.rows());
  for (size_t I = 0; I != Values.size(); ++I)
    Values[I] = Type == ColumnType::Int
                    ? Column.view().getInt(I)
                    : static_cast<int64_t>(Column.view().getString(I));
  return pushLoop(C, tailLoop(Values, Repeats), 0);
}

Expected<int> stringWriting(Call &C) {
  StringRef Text = C.text(1);
  if (C.failed())
    return C.error();
  Writing W = writingOf(Text);
  lua_State *L = C.state();
  lua_createtable(L, 0, 10);
  setField(L, "characters", W.Characters);
  setField(L, "letters", W.Letters);
  setField(L, "replaced", W.Replaced);
  setField(L, "first_replaced", W.FirstReplaced);
  setField(L, "control", W.Control);
  setField(L, "words", W.Words);
  setField(L, "mixed", W.Mixed);
  setField(L, "first_mixed", W.FirstMixed);
  setField(L, "jumps", W.Jumps);
  setField(L, "scripts", W.Scripts);
  return 1;
}

} // namespace culprit
