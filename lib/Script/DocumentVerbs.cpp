//===- DocumentVerbs.cpp - Copies among texts -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Script/Binding.h"
#include "Support/NearDuplicates.h"
#include "Support/TextOverlap.h"
#include <limits>

using namespace llvm;

namespace culprit {

/// A column of texts; a null is an empty one.
static Expected<const ColumnView *> texts(const Table &T, StringRef Name) {
  if (T.rows() >= std::numeric_limits<uint32_t>::max())
    return failure("texts of at most 4 billion rows can be compared",
                   "choose rows first");
  return T.column(Name, ColumnType::String);
}

static std::shared_ptr<Column> columnOf(ColumnType Type) {
  return std::make_shared<Column>(Type);
}

Expected<int> tableNearDuplicates(Call &C) {
  StringRef Name = C.text(1);
  NearDuplicateOptions Options;
  if (!C.missing(2))
    Options.Threshold = C.number(2);
  if (!C.failed() && !(Options.Threshold > 0 && Options.Threshold <= 1))
    C.rejectType(2, "a similarity above 0 and up to 1");
  if (C.failed())
    return C.error();
  const Table &T = C.self();
  Expected<const ColumnView *> View = texts(T, Name);
  if (!View)
    return View.takeError();
  std::vector<ComparedText> Texts = findNearDuplicates(
      T.rows(), [&](size_t I) { return T.pool()->text((*View)->getString(I)); },
      Options);
  RowIndex Rows;
  auto First = columnOf(ColumnType::Int);
  auto Similarity = columnOf(ColumnType::Double);
  auto Exact = columnOf(ColumnType::Bool);
  for (const ComparedText &Text : Texts) {
    Rows.push_back(Text.Row);
    Exact->addBool(Text.Exact);
    if (Text.isCopy()) {
      First->addInt(Text.First);
      Similarity->addDouble(Text.Similarity);
    } else {
      First->addNull();
      Similarity->addNull();
    }
  }
  return C.push(T.take(std::move(Rows))
                    .with("copy_of", std::move(First))
                    .with("similarity", std::move(Similarity))
                    .with("exact", std::move(Exact)),
                3);
}

Expected<int> tableStandingIn(Call &C) {
  StringRef Name = C.text(1);
  const Table &Other = C.table(2);
  StringRef OtherName = C.text(3, Name);
  if (C.failed())
    return C.error();
  const Table &T = C.self();
  Expected<const ColumnView *> View = texts(T, Name);
  if (!View)
    return View.takeError();
  Expected<const ColumnView *> OtherView = texts(Other, OtherName);
  if (!OtherView)
    return OtherView.takeError();
  TextOverlaps Found = findOverlaps(
      T.rows(), [&](size_t I) { return T.pool()->text((*View)->getString(I)); },
      Other.rows(), [&](size_t I) {
        return Other.pool()->text((*OtherView)->getString(I));
      });
  RowIndex Rows;
  auto Match = columnOf(ColumnType::Int);
  auto Share = columnOf(ColumnType::Double);
  auto Longest = columnOf(ColumnType::Int);
  auto Exact = columnOf(ColumnType::Bool);
  for (const TextOverlap &Text : Found.Texts) {
    Rows.push_back(Text.Row);
    if (Text.Match == TextOverlap::None)
      Match->addNull();
    else
      Match->addInt(Text.Match);
    Share->addDouble(Text.Share);
    Longest->addInt(Text.Longest);
    Exact->addBool(Text.Exact);
  }
  return C.push(T.take(std::move(Rows))
                    .with("found_in", std::move(Match))
                    .with("share", std::move(Share))
                    .with("longest", std::move(Longest))
                    .with("exact", std::move(Exact)),
                4);
}

} // namespace culprit
