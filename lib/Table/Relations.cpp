//===- Relations.cpp - Distinct, group and join -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Support/Error.h"
#include "Table/Keys.h"
#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace culprit {

Expected<Table> Table::distinct(ArrayRef<std::string> Columns) const {
  Expected<KeyIndex> Index = KeyIndex::make(*this, Columns);
  if (!Index)
    return Index.takeError();
  return take(Index->firstRows().vec());
}

Expected<std::vector<Table>> Table::group(ArrayRef<std::string> Columns) const {
  Expected<KeyIndex> Index = KeyIndex::make(*this, Columns);
  if (!Index)
    return Index.takeError();
  std::vector<Table> Out;
  Out.reserve(Index->size());
  for (RowIndex &Rows : Index->members())
    Out.push_back(take(std::move(Rows)));
  return Out;
}

Expected<Table> Table::join(const Table &Other, ArrayRef<std::string> Keys,
                            JoinKind Kind, StringRef Suffix) const {
  for (const std::string &Key : Keys) {
    Expected<const ColumnView *> Left = column(Key);
    if (!Left)
      return Left.takeError();
    const ColumnView *Right = Other.find(Key);
    if (Right && (*Left)->type() != Right->type())
      return failure("join: key '" + Key + "' is " +
                     toString((*Left)->type()) + " in '" + Name + "' and " +
                     toString(Right->type()) + " in '" + Other.name() + "'");
  }
  Expected<KeyIndex> Index = KeyIndex::make(Other, Keys);
  if (!Index)
    return Index.takeError();
  Expected<RowIndex> Partners = Index->firstRowsFor(*this);
  if (!Partners)
    return Partners.takeError();

  RowIndex Mine, Theirs;
  bool AnyMissing = llvm::is_contained(*Partners, KeyIndex::None);
  if (AnyMissing && Kind == JoinKind::Inner) {
    for (size_t I = 0; I != NumRows; ++I) {
      if ((*Partners)[I] == KeyIndex::None)
        continue;
      Mine.push_back(static_cast<uint32_t>(I));
      Theirs.push_back((*Partners)[I]);
    }
    AnyMissing = false;
  } else {
    Theirs = std::move(*Partners);
  }

  // Every row has its partner: the rows need no index more than they have.
  Table Out = Theirs.size() == NumRows ? *this : take(std::move(Mine));
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
      append(View, View.taken(Theirs), nullptr);
  return Out;
}

} // namespace culprit
