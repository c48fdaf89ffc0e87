//===- ExpressionRuns.cpp - Rows that a condition leaves --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Table/ExpressionProgram.h"
#include <algorithm>
#include <cstring>

using namespace llvm;

namespace culprit {

using RowRange = ExpressionProgram::RowRange;

/// Keeps of \p Ranges what lies in runs of \p Word. Both are in order.
static void keepRuns(std::vector<RowRange> &Ranges, ArrayRef<Run> Runs,
                     int64_t Word) {
  std::vector<RowRange> Out;
  auto R = Ranges.begin();
  for (const Run &Part : Runs) {
    if (Part.Word != Word)
      continue;
    while (R != Ranges.end() && R->second <= Part.First)
      ++R;
    // A range may reach into the next run too: R stays on it.
    for (auto K = R; K != Ranges.end() && K->first < Part.Last; ++K)
      Out.push_back({std::max(K->first, Part.First),
                     std::min(K->second, Part.Last)});
  }
  Ranges = std::move(Out);
}

/// Whether instruction \p K holds in all rows of \p Ranges, which it cuts down
/// to those where it may. Only equality with a constant is looked at, and what
/// needs it.
bool ExpressionProgram::restrict(uint32_t K, std::vector<RowRange> &Ranges) {
  Instruction &I = Code[K];
  bool Always = false;
  if (I.Scalar) {
    return *static_cast<const uint8_t *>(Results[K]) == 1;
  } else if (I.Op == NodeKind::And) {
    bool Left = restrict(I.Left, Ranges), Right = restrict(I.Right, Ranges);
    Always = Left && Right;
  } else if (I.Op == NodeKind::Equal && !I.TestsText) {
    const Instruction *Column = &Code[I.Left], *Constant = &Code[I.Right];
    if (Column->Scalar)
      std::swap(Column, Constant);
    if (!Constant->Scalar || Column->Op != NodeKind::Column ||
        (I.In != ColumnType::Int && I.In != ColumnType::String))
      return false;
    ArrayRef<Run> Runs = Column->View->Data->runs();
    // Behind an index only a column of one value is known.
    if (Runs.empty() || (Column->View->Rows && Runs.size() != 1))
      return false;
    int64_t Word = 0;
    bool IsNull;
    if (I.In == ColumnType::Int) {
      std::memcpy(&Word, Constant->Value, sizeof(int64_t));
      IsNull = Word == NullInt;
    } else {
      StringId Id;
      std::memcpy(&Id, Constant->Value, sizeof(Id));
      Word = Id;
      IsNull = Id == NullString;
    }
    if (IsNull || (Column->View->Rows && Runs.front().Word != Word))
      Ranges.clear();
    else if (!Column->View->Rows)
      keepRuns(Ranges, Runs, Word);
    Always = true;
  }
  if (!Always)
    return false;
  I.Scalar = true; // and its operands need not run
  I.Value[0] = std::byte(1);
  Results[K] = I.Value;
  return true;
}

std::vector<RowRange> ExpressionProgram::restrict(size_t Rows) {
  std::vector<RowRange> Ranges = {{0, Rows}};
  restrict(static_cast<uint32_t>(Code.size() - 1), Ranges);
  return Ranges;
}

} // namespace culprit
