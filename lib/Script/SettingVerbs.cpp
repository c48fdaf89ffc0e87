//===- SettingVerbs.cpp - What was changed in a configuration ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Case/SettingChanges.h"
#include "Script/Binding.h"

using namespace llvm;

namespace culprit {

namespace {
/// The columns of the result, filled row by row.
class ChangeRows {
public:
  explicit ChangeRows(std::shared_ptr<StringPool> Pool)
      : Pool(std::move(Pool)) {}

  void add(const SettingChange &C);
  Table table() const;

private:
  static std::shared_ptr<Column> texts() {
    return std::make_shared<Column>(ColumnType::String);
  }
  static std::shared_ptr<Column> numbers() {
    return std::make_shared<Column>(ColumnType::Int);
  }
  void text(Column &Into, StringRef Value) {
    if (Value.empty())
      Into.addNull();
    else
      Into.addString(Pool->intern(Value));
  }

  std::shared_ptr<StringPool> Pool;
  std::shared_ptr<Column> Key = texts(), OtherKey = texts(), Before = texts(),
                          After = texts(), Kind = texts(), Group = texts(),
                          Effect = texts(), Causes = texts(), Why = texts(),
                          Says = texts();
  std::shared_ptr<Column> Known = std::make_shared<Column>(ColumnType::Bool);
  std::shared_ptr<Column> BeforeRow = numbers(), AfterRow = numbers();
};
} // namespace

void ChangeRows::add(const SettingChange &C) {
  text(*Key, C.Key);
  text(*OtherKey, C.OtherKey);
  text(*Before, C.Before);
  text(*After, C.After);
  text(*Kind, C.Facts.Kind);
  text(*Group, groupOfKind(C.Facts.Kind));
  text(*Effect, toString(C.effect()));
  text(*Causes, C.Facts.Row ? C.Facts.Row->Causes : StringRef());
  text(*Why, C.Compensated);
  text(*Says, C.text());
  Known->addBool(C.Facts.Row != nullptr || C.Package);
  for (auto [Into, Row] : {std::pair(BeforeRow, C.BeforeRow),
                           std::pair(AfterRow, C.AfterRow)})
    if (Row < 0)
      Into->addNull();
    else
      Into->addInt(Row);
}

Table ChangeRows::table() const {
  return Table("changes", Pool,
               {{"key", Key},
                {"other_key", OtherKey},
                {"before", Before},
                {"after", After},
                {"kind", Kind},
                {"group", Group},
                {"effect", Effect},
                {"causes", Causes},
                {"known", Known},
                {"why", Why},
                {"says", Says},
                {"before_row", BeforeRow},
                {"after_row", AfterRow}},
               Key->size());
}

Expected<int> tableChanges(Call &C) {
  const Table &After = C.table(1);
  if (C.failed())
    return C.error();
  std::optional<Settings> A = settingsOf(C.self()), B = settingsOf(After);
  const bool Packages = C.self().find("version") && After.find("version");
  for (const auto &[Side, T] : {std::pair(&A, &C.self()), {&B, &After}})
    if (!*Side)
      return failure("changes() wants rows of case.config or case.packages, "
                     "not of '" +
                     T->name() + "'");
  std::vector<SettingChange> Changes =
      Packages ? comparePackages(*A, *B) : compareSettings(*A, *B);
  ChangeRows Rows(C.host().Evidence->pool());
  for (const SettingChange &Each : Changes)
    Rows.add(Each);
  Table Out = Rows.table();
  if (Expected<int> Pushed = C.push(std::move(Out), 13); !Pushed)
    return Pushed.takeError();
  lua_pushinteger(C.state(), static_cast<lua_Integer>(countThings(Changes)));
  return 2;
}

} // namespace culprit
