//===- TextIndex.cpp --------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/TextIndex.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>

using namespace llvm;

namespace culprit {

static unsigned fieldIndex(StringRef Name) {
  for (unsigned I = 0; I < NumFields; ++I)
    if (Fields[I].Name == Name)
      return I;
  return NumFields;
}

Expected<TextIndex> TextIndex::open(Database D, unsigned FirstEntry) {
  TextIndex T;
  T.FirstEntry = FirstEntry;
  // The view on the index is temporary, as a store is read-only.
  if (Error E = D.execute("CREATE VIRTUAL TABLE temp.occurrences USING"
                          " fts5vocab('main', 'entry_text', 'instance')"))
    return E;
  Expected<Statement> Find = D.prepare("SELECT doc, col FROM temp.occurrences"
                                       " WHERE term = ?");
  if (!Find)
    return Find.takeError();
  T.Find = std::move(*Find);
  T.D = std::move(D);
  return T;
}

Error TextIndex::postings(StringRef Term, std::vector<Posting> &Out) const {
  Find.reset();
  Find.bind(1, Term);
  size_t Begin = Out.size();
  while (true) {
    Expected<bool> More = Find.next();
    if (!More)
      return More.takeError();
    if (!*More)
      break;
    unsigned Entry = FirstEntry + static_cast<unsigned>(Find.integer(0)) - 1;
    if (Out.size() == Begin || Out.back().Entry != Entry)
      Out.push_back({Entry, {}});
    unsigned Field = fieldIndex(Find.text(1));
    if (Field < NumFields)
      ++Out.back().Counts[Field];
  }
  Find.reset();
  return Error::success();
}

Error TextIndex::lengths(
    std::vector<std::array<unsigned, NumFields>> &Out) const {
  return forEachRow(
      D, "SELECT entry, field, terms FROM lengths", [&](const Statement &S) {
        size_t Entry = FirstEntry + static_cast<size_t>(S.integer(0)) - 1;
        unsigned Field = fieldIndex(S.text(1));
        if (Entry < Out.size() && Field < NumFields)
          Out[Entry][Field] = static_cast<unsigned>(S.integer(2));
      });
}

} // namespace culprit
