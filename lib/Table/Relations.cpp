//===- Relations.cpp - Distinct, group and join -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Support/Error.h"
#include "Table/Keys.h"
#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace culprit {

Expected<Table> Table::distinct(ArrayRef<std::string> Columns) const {
  Expected<RowKeys> Keys = RowKeys::make(*this, Columns);
  if (!Keys)
    return Keys.takeError();
  KeyIndex Index(*Keys);
  for (size_t I = 0; I != NumRows; ++I)
    Index.add(I);
  RowIndex Rows(Index.size());
  for (uint32_t K = 0; K != Index.size(); ++K)
    Rows[K] = Index.firstRow(K);
  return take(std::move(Rows));
}

Expected<std::vector<Table>> Table::group(ArrayRef<std::string> Columns) const {
  Expected<RowKeys> Keys = RowKeys::make(*this, Columns);
  if (!Keys)
    return Keys.takeError();
  KeyIndex Index(*Keys);
  std::vector<RowIndex> Members;
  for (size_t I = 0; I != NumRows; ++I) {
    uint32_t Number = Index.add(I);
    if (Number == KeyIndex::None)
      continue;
    if (Number == Members.size())
      Members.emplace_back();
    Members[Number].push_back(static_cast<uint32_t>(I));
  }
  std::vector<Table> Out;
  Out.reserve(Members.size());
  for (RowIndex &Rows : Members)
    Out.push_back(take(std::move(Rows)));
  return Out;
}

/// The values of \p View at \p Rows, nulls where a row is KeyIndex::None.
static ColumnRef gather(const ColumnView &View, ArrayRef<uint32_t> Rows) {
  auto Data = std::make_shared<Column>(View.type());
  Data->reserve(Rows.size());
  for (uint32_t I : Rows) {
    if (I == KeyIndex::None)
      Data->addNull();
    else
      Data->addFrom(*View.Data, View.row(I));
  }
  return Data;
}

Expected<Table> Table::join(const Table &Other, ArrayRef<std::string> Keys,
                            JoinKind Kind, StringRef Suffix) const {
  Expected<RowKeys> Left = RowKeys::make(*this, Keys);
  if (!Left)
    return Left.takeError();
  Expected<RowKeys> Right = RowKeys::make(Other, Keys);
  if (!Right)
    return Right.takeError();
  for (size_t K = 0; K != Keys.size(); ++K)
    if (Left->type(K) != Right->type(K))
      return failure("join: key '" + Keys[K] + "' is " +
                     toString(Left->type(K)) + " in '" + Name + "' and " +
                     toString(Right->type(K)) + " in '" + Other.name() + "'");
  KeyIndex Index(*Right);
  for (size_t I = 0; I != Other.NumRows; ++I)
    Index.add(I);

  RowIndex Mine, Theirs;
  bool AnyMissing = false;
  for (size_t I = 0; I != NumRows; ++I) {
    uint32_t Number =
        Left->present(I) ? Index.find(Left->key(I)) : KeyIndex::None;
    if (Number == KeyIndex::None && Kind == JoinKind::Inner)
      continue;
    AnyMissing |= Number == KeyIndex::None;
    Mine.push_back(static_cast<uint32_t>(I));
    Theirs.push_back(Number == KeyIndex::None ? KeyIndex::None
                                              : Index.firstRow(Number));
  }

  Table Out = take(std::move(Mine));
  auto append = [&](const ColumnView &View, ColumnRef Data,
                    std::shared_ptr<const RowIndex> Rows) {
    std::string ColumnName =
        Out.find(View.Name) ? View.Name + Suffix.str() : View.Name;
    Out.Views.push_back(
        {std::move(ColumnName), std::move(Data), std::move(Rows)});
  };
  if (!AnyMissing) {
    Table Partners = Other.take(std::move(Theirs));
    for (const ColumnView &View : Partners.Views)
      if (!is_contained(Keys, View.Name))
        append(View, View.Data, View.Rows);
    return Out;
  }
  for (const ColumnView &View : Other.Views)
    if (!is_contained(Keys, View.Name))
      append(View, gather(View, Theirs), nullptr);
  return Out;
}

} // namespace culprit
