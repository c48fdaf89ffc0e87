//===- Expression.cpp -------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Table/Expression.h"
#include "Support/Error.h"
#include "Table/ExpressionProgram.h"
#include "llvm/ADT/StringExtras.h"
#include <algorithm>
#include <numeric>

using namespace llvm;

namespace culprit {

static constexpr size_t BlockRows = ExpressionProgram::BlockRows;

Expected<Table> where(const Table &T, StringRef Expression,
                      ArrayRef<Argument> Arguments) {
  Expected<ExpressionProgram> Program =
      ExpressionProgram::compile(T, Expression, Arguments);
  if (!Program)
    return Program.takeError();
  const Instruction &Root = Program->root();
  if (Root.Type != ColumnType::Bool)
    return failure("in \"" + Expression + "\": expected a condition, not " +
                       toString(Root.Type),
                   "compare it, as in dur > 0");
  if (Root.Scalar)
    return *Program->run<uint8_t>(0, 0) == 1 ? T : T.take({});

  std::vector<ExpressionProgram::RowRange> Ranges =
      Program->restrict(T.rows());
  RowIndex Rows;
  for (auto [Begin, End] : Ranges) {
    if (Program->root().Scalar) { // holds in every row of them
      if (End - Begin == T.rows())
        return T;
      size_t At = Rows.size();
      Rows.resize(At + (End - Begin));
      std::iota(Rows.begin() + static_cast<ptrdiff_t>(At), Rows.end(),
                static_cast<uint32_t>(Begin));
      continue;
    }
    uint32_t Chosen[BlockRows];
    for (size_t First = Begin; First < End; First += BlockRows) {
      size_t Count = std::min(BlockRows, End - First);
      const uint8_t *Holds = Program->run<uint8_t>(First, Count);
      // No branch on the data: half the rows of a filter are mispredicted.
      size_t N = 0;
      for (size_t I = 0; I != Count; ++I) {
        Chosen[N] = static_cast<uint32_t>(First + I);
        N += Holds[I] == 1;
      }
      Rows.insert(Rows.end(), Chosen, Chosen + N);
    }
  }
  return Rows.size() == T.rows() ? T : T.take(std::move(Rows));
}

Expected<ColumnRef> compute(const Table &T, StringRef Expression,
                            ArrayRef<Argument> Arguments) {
  Expected<ExpressionProgram> Program =
      ExpressionProgram::compile(T, Expression, Arguments);
  if (!Program)
    return Program.takeError();
  const Instruction &Root = Program->root();
  if (Root.Type == ColumnType::IntList)
    return failure("in \"" + Expression + "\": column '" + Root.View->Name +
                   "' is an int list and cannot be computed with");
  if (Root.Op == NodeKind::Column && !Root.View->Rows)
    return Root.View->Data;

  auto Out = std::make_shared<Column>(Root.Type);
  Out->reserve(T.rows());
  // A text constant may not be in the pool before.
  StringId Text = Root.Scalar && Root.Type == ColumnType::String
                      ? T.pool()->intern(Root.Text)
                      : NullString;
  for (size_t First = 0; First < T.rows(); First += BlockRows) {
    size_t Count = std::min(BlockRows, T.rows() - First);
    // A constant is one value, to be repeated.
    auto each = [&](const auto *Values, auto Add) {
      for (size_t I = 0; I != Count; ++I)
        Add(Values[Root.Scalar ? 0 : I]);
    };
    switch (Root.Type) {
    case ColumnType::Int:
      each(Program->run<int64_t>(First, Count),
           [&](int64_t Value) { Out->addInt(Value); });
      break;
    case ColumnType::Double:
      each(Program->run<double>(First, Count),
           [&](double Value) { Out->addDouble(Value); });
      break;
    case ColumnType::Bool:
      each(Program->run<uint8_t>(First, Count), [&](uint8_t Value) {
        if (Value == NullBool)
          Out->addNull();
        else
          Out->addBool(Value);
      });
      break;
    default:
      each(Program->run<StringId>(First, Count),
           [&](StringId Value) { Out->addString(Root.Scalar ? Text : Value); });
    }
  }
  return Out;
}

/// \p Name as an expression names it: in back quotes unless it is a word.
static std::string quoted(StringRef Name) {
  bool Plain = !Name.empty() && !isDigit(Name[0]) &&
               all_of(Name, [](char C) { return isAlnum(C) || C == '_'; });
  for (StringRef Word : {"and", "or", "not", "is", "null", "true", "false"})
    Plain &= Name != Word;
  if (Plain)
    return Name.str();
  std::string Out = "`";
  for (char C : Name) {
    Out += C;
    if (C == '`')
      Out += C;
  }
  return Out + "`";
}

Expected<Table> whereEqual(const Table &T,
                           ArrayRef<std::pair<std::string, Argument>> Equal) {
  std::string Expression;
  std::vector<Argument> Arguments;
  for (const auto &[Name, Value] : Equal) {
    if (!Expression.empty())
      Expression += " and ";
    Expression += quoted(Name) + " == ?";
    Arguments.push_back(Value);
  }
  return Expression.empty() ? T : where(T, Expression, Arguments);
}

} // namespace culprit
