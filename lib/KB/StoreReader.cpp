//===- StoreReader.cpp ------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/StoreColumns.h"
#include "KB/StoreFormat.h"
#include "Support/Error.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/Twine.h"

using namespace llvm;

namespace culprit {

static constexpr const char *SelectEntries =
    "SELECT entries.id, file, line, entry, date, status, title, class, symptom,"
    " root_cause, fix, files, workarounds, experiment, confirms, refutes ";
static constexpr const char *SelectItems =
    "SELECT entry, kind, label, text FROM items ";
static constexpr const char *SelectSignals =
    "SELECT entry, symptom, frequency FROM signals ";

/// The columns of SelectEntries behind `file`.
static Entry readEntry(const Statement &S, StringRef File) {
  Entry E;
  E.Source = {File.str(), static_cast<unsigned>(S.integer(2))};
  int Column = 3;
  for (std::string Entry::*Text : plainTexts())
    E.*Text = S.text(Column++).str();
  for (std::string *Text :
       {&E.Confirm.Experiment, &E.Confirm.Confirms, &E.Confirm.Refutes})
    *Text = S.text(Column++).str();
  return E;
}

/// A row of SelectItems.
static void readItem(const Statement &S, Entry &Into) {
  for (auto [Kind, List] : EntryLists) {
    if (S.text(1) != Kind)
      continue;
    if (List)
      (Into.*List).push_back(S.text(3).str());
    else
      Into.Other.push_back({S.text(2).str(), S.text(3).str()});
  }
}

/// A row of SelectSignals.
static void readSignal(const Statement &S, Entry &Into) {
  if (std::optional<Frequency> How = parseFrequency(S.text(2)))
    Into.Signals.push_back({S.text(1).str(), *How});
}

namespace {

/// Reads the tables one after the other; entries are found by their row.
class Reader {
public:
  explicit Reader(const Database &D) : D(D) {}

  Expected<std::vector<LogFile>> read() {
    Expected<std::vector<LogFile>> Empty = readStoreFiles(D);
    if (!Empty)
      return Empty.takeError();
    Files = std::move(*Empty);
    std::string Sql = SelectEntries;
    if (Error Err = forEachRow(D, Sql + "FROM entries ORDER BY id",
                               [&](const Statement &S) { entry(S); }))
      return Err;
    Sql = SelectItems;
    if (Error Err = forEachRow(D, Sql + "ORDER BY 1, 2, position",
                               [&](const Statement &S) {
                                 if (Entry *Into = at(S.integer(0)))
                                   readItem(S, *Into);
                               }))
      return Err;
    Sql = SelectSignals;
    if (Error Err = forEachRow(D, Sql + "ORDER BY 1, position",
                               [&](const Statement &S) {
                                 if (Entry *Into = at(S.integer(0)))
                                   readSignal(S, *Into);
                               }))
      return Err;
    return std::move(Files);
  }

private:
  void entry(const Statement &S) {
    size_t FileIndex = static_cast<size_t>(S.integer(1)) - 1;
    Where.push_back({FileIndex, 0});
    if (FileIndex >= Files.size())
      return;
    LogFile &F = Files[FileIndex];
    Where.back().second = F.Entries.size();
    F.Entries.push_back(readEntry(S, F.Path));
  }

  /// The entry of the row \p Id, or null in a damaged store.
  Entry *at(int64_t Id) {
    size_t Row = static_cast<size_t>(Id) - 1;
    if (Row >= Where.size() || Where[Row].first >= Files.size())
      return nullptr;
    return &Files[Where[Row].first].Entries[Where[Row].second];
  }

  const Database &D;
  std::vector<LogFile> Files;
  std::vector<std::pair<size_t, size_t>> Where; ///< File and place, by row.
};

} // namespace

Expected<std::vector<LogFile>> readStoreFiles(const Database &D) {
  std::vector<LogFile> Files;
  if (Error E = forEachRow(D, "SELECT path, hash FROM files ORDER BY id",
                           [&](const Statement &S) {
                             Files.push_back(
                                 {S.text(0).str(), S.text(1).str(), {}});
                           }))
    return E;
  return Files;
}

Expected<unsigned> countEntries(const Database &D) {
  unsigned Count = 0;
  if (Error E = forEachRow(D, "SELECT max(id) FROM entries",
                           [&](const Statement &S) {
                             Count = static_cast<unsigned>(S.integer(0));
                           }))
    return E;
  return Count;
}

Expected<std::vector<LogFile>> readStore(const Database &D) {
  return Reader(D).read();
}

Expected<EntryReader> EntryReader::open(const Database &D) {
  EntryReader R;
  R.Name = D.name().str();
  std::pair<Statement &, std::string> Plans[] = {
      {R.One, std::string(SelectEntries) +
                  ", path FROM entries JOIN files ON files.id = file"
                  " WHERE entries.id = ?"},
      {R.Items, std::string(SelectItems) +
                    "WHERE entry = ? ORDER BY kind, position"},
      {R.Signals,
       std::string(SelectSignals) + "WHERE entry = ? ORDER BY position"},
      {R.Id, "SELECT entry FROM entries WHERE id = ?"},
      {R.Rows, "SELECT id FROM entries WHERE entry = ? ORDER BY id"},
      {R.Log, "SELECT text FROM items WHERE entry = ? AND kind = 'log'"
              " AND position = ?"}};
  for (auto &[Into, Sql] : Plans) {
    Expected<Statement> S = D.prepare(Sql);
    if (!S)
      return S.takeError();
    Into = std::move(*S);
  }
  return R;
}

/// Calls \p Each for all rows of \p S and makes it ready again.
static Error forAll(Statement &S, function_ref<void(const Statement &)> Each) {
  while (true) {
    Expected<bool> More = S.next();
    if (More && *More) {
      Each(S);
      continue;
    }
    S.reset();
    return More.takeError();
  }
}

Expected<Entry> EntryReader::read(unsigned Row) {
  int64_t Id = static_cast<int64_t>(Row) + 1;
  Entry E;
  bool Found = false;
  One.bind(1, Id);
  Items.bind(1, Id);
  Signals.bind(1, Id);
  if (Error Err = forAll(One, [&](const Statement &S) {
        E = readEntry(S, S.text(16));
        Found = true;
      }))
    return Err;
  if (!Found)
    return failure(Name + ": the store has no entry " + Twine(Id),
                   "rebuild it with 'culprit kb build'");
  if (Error Err = forAll(Items, [&](const Statement &S) { readItem(S, E); }))
    return Err;
  if (Error Err =
          forAll(Signals, [&](const Statement &S) { readSignal(S, E); }))
    return Err;
  return E;
}

Expected<std::string> EntryReader::id(unsigned Row) {
  std::string Out;
  Id.bind(1, static_cast<int64_t>(Row) + 1);
  if (Error E = forAll(Id, [&](const Statement &S) { Out = S.text(0).str(); }))
    return E;
  return Out;
}

Expected<std::vector<unsigned>> EntryReader::rows(StringRef Id) {
  std::vector<unsigned> Out;
  Rows.bind(1, Id);
  if (Error E = forAll(Rows, [&](const Statement &S) {
        Out.push_back(static_cast<unsigned>(S.integer(0) - 1));
      }))
    return E;
  return Out;
}

Expected<std::string> EntryReader::fragment(unsigned Row, unsigned Fragment) {
  std::string Out;
  Log.bind(1, static_cast<int64_t>(Row) + 1);
  Log.bind(2, static_cast<int64_t>(Fragment));
  if (Error E = forAll(Log, [&](const Statement &S) { Out = S.text(0).str(); }))
    return E;
  return Out;
}

} // namespace culprit
