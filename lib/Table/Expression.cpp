//===- Expression.cpp -------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Table/Expression.h"
#include "Support/Deadline.h"
#include "Support/Error.h"
#include "Table/ExpressionProgram.h"
#include <algorithm>
#include <numeric>

using namespace llvm;

namespace culprit {

static constexpr size_t BlockRows = ExpressionProgram::BlockRows;
/// A test of a text takes some ten ns and more.
static constexpr size_t WorkPerRow = 16;

/// The rows of \p T for which \p Program, compiled from \p Expression, holds.
static Expected<Table> filter(const Table &T, StringRef Expression,
                              ExpressionProgram &Program) {
  const Instruction &Root = Program.root();
  if (Root.Type != ColumnType::Bool)
    return failure("in \"" + Expression + "\": expected a condition, not " +
                       toString(Root.Type),
                   "compare it, as in dur > 0");
  if (Root.Scalar)
    return *Program.run<uint8_t>(0, 0) == 1 ? T : T.take({});

  std::vector<ExpressionProgram::RowRange> Ranges =
      Program.restrict(T.rows());
  RowIndex Rows;
  TimeCheck Late;
  for (auto [Begin, End] : Ranges) {
    if (Program.root().Scalar) { // holds in every row of them
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
      if (Late(WorkPerRow * Count))
        return outOfTime();
      const uint8_t *Holds = Program.run<uint8_t>(First, Count);
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

Expected<Table> where(const Table &T, StringRef Expression,
                      ArrayRef<Argument> Arguments) {
  Expected<ExpressionProgram> Program =
      ExpressionProgram::compile(T, Expression, Arguments);
  if (!Program)
    return Program.takeError();
  return filter(T, Expression, *Program);
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
  TimeCheck Late;
  for (size_t First = 0; First < T.rows(); First += BlockRows) {
    size_t Count = std::min(BlockRows, T.rows() - First);
    if (Late(WorkPerRow * Count))
      return outOfTime();
    // A constant is one value, to be repeated.
    auto each = [&](const auto *Values, auto Add) {
      for (size_t I = 0; I != Count; ++I)
        Add(Values[Root.Scalar ? 0 : I]);
    };
    auto append = [&](auto &To, const auto *Values) {
      if (Root.Scalar)
        To.insert(To.end(), Count, *Values);
      else
        To.insert(To.end(), Values, Values + Count);
    };
    switch (Root.Type) {
    case ColumnType::Int:
      append(Out->mutableInts(), Program->run<int64_t>(First, Count));
      break;
    case ColumnType::Double:
      append(Out->mutableDoubles(), Program->run<double>(First, Count));
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

/// What `where{...}` says, as nodes: each column one of its values.
static std::vector<Node> nodesOf(ArrayRef<ColumnValues> Wanted,
                                 std::vector<Argument> &Arguments) {
  std::vector<Node> Nodes;
  auto add = [&](NodeKind Kind, uint32_t Left = 0, uint32_t Right = 0) {
    Node &N = Nodes.emplace_back();
    N.Kind = Kind;
    N.At = 1;
    N.Left = Left;
    N.Right = Right;
    return static_cast<uint32_t>(Nodes.size() - 1);
  };
  auto argument = [&](const Argument &Value) {
    uint32_t Number = add(NodeKind::Constant);
    Nodes.back().Parameter = static_cast<uint32_t>(Arguments.size());
    Arguments.push_back(Value);
    return Number;
  };
  for (const ColumnValues &Each : Wanted) {
    uint32_t Before = static_cast<uint32_t>(Nodes.size());
    uint32_t Column = add(NodeKind::Column);
    Nodes.back().Name = Each.Column;
    if (Each.Values.size() == 1) {
      add(NodeKind::Equal, Column, argument(Each.Values.front()));
    } else {
      std::vector<uint32_t> List;
      for (const Argument &Value : Each.Values)
        List.push_back(argument(Value));
      add(NodeKind::In, Column);
      Nodes.back().List = std::move(List);
    }
    if (Before != 0)
      add(NodeKind::And, Before - 1, static_cast<uint32_t>(Nodes.size() - 1));
  }
  return Nodes;
}

Expected<Table> whereValues(const Table &T, ArrayRef<ColumnValues> Wanted) {
  if (Wanted.empty())
    return T;
  std::vector<Argument> Arguments;
  std::vector<Node> Nodes = nodesOf(Wanted, Arguments);
  // For errors alone.
  std::string Text;
  for (const ColumnValues &Each : Wanted)
    Text += (Text.empty() ? "" : ", ") + Each.Column;
  Expected<ExpressionProgram> Program =
      ExpressionProgram::compile(T, Text, Nodes, Arguments);
  if (!Program)
    return Program.takeError();
  return filter(T, Text, *Program);
}

Expected<Table> whereEqual(const Table &T,
                           ArrayRef<std::pair<std::string, Argument>> Equal) {
  std::vector<ColumnValues> Wanted;
  for (const auto &[Name, Value] : Equal)
    Wanted.push_back({Name, {Value}});
  return whereValues(T, Wanted);
}

} // namespace culprit
