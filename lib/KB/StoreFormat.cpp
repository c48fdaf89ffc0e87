//===- StoreFormat.cpp ------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/StoreFormat.h"
#include "KB/StoreColumns.h"
#include "KB/TextIndex.h"
#include "Support/Error.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"

using namespace llvm;

namespace culprit {

/// Counts up whenever the tables change.
static constexpr unsigned SchemaVersion = 4;

// A store is written once and renamed, so that nothing need be undone.
static constexpr const char *Schema = R"sql(
PRAGMA page_size = 16384;
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA locking_mode = EXCLUSIVE;
PRAGMA cache_size = -65536;
BEGIN;
CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
CREATE TABLE files(id INTEGER PRIMARY KEY, path TEXT, hash TEXT);
CREATE TABLE entries(id INTEGER PRIMARY KEY, file INTEGER, line INTEGER,
  entry TEXT, date TEXT, status TEXT, title TEXT, class TEXT, symptom TEXT,
  root_cause TEXT, fix TEXT, files TEXT, workarounds TEXT, experiment TEXT,
  confirms TEXT, refutes TEXT);
CREATE TABLE items(entry INTEGER, kind TEXT, position INTEGER, label TEXT,
  text TEXT, PRIMARY KEY(entry, kind, position)) WITHOUT ROWID;
CREATE TABLE signals(entry INTEGER, position INTEGER, symptom TEXT,
  frequency TEXT, PRIMARY KEY(entry, position)) WITHOUT ROWID;
CREATE TABLE terms(hash INTEGER PRIMARY KEY, term TEXT, entries INTEGER,
  places BLOB);
CREATE TABLE words(word TEXT PRIMARY KEY, count INTEGER) WITHOUT ROWID;
CREATE TABLE index_parts(id INTEGER PRIMARY KEY, name TEXT, data BLOB);
)sql";

std::string analyzerHash(const Vocabulary &V) {
  return (Twine(Analyzer::Version) + "-" + utohexstr(V.hash(), true, 16)).str();
}

namespace {

/// Writes entries one by one with statements prepared once, while other
/// threads index them.
class Writer {
public:
  Writer(const Database &D, const Vocabulary &V) : D(D), V(V) {}

  Error write(ArrayRef<LogFile> Files) {
    std::vector<const Entry *> Entries;
    for (const LogFile &F : Files)
      for (const Entry &E : F.Entries)
        Entries.push_back(&E);
    unsigned Threads = indexThreads(Entries.size());
    IndexBuilder Index(std::move(Entries), V, Threads);
    if (Error E = D.execute(Schema))
      return E;
    if (Error E = prepare())
      return E;
    if (Error E = meta("schema", Twine(SchemaVersion).str()))
      return E;
    if (Error E = meta("analyzer", analyzerHash(V)))
      return E;
    for (const LogFile &F : Files)
      if (Error E = file(F))
        return E;
    if (Error E = index(Index.finish()))
      return E;
    return D.execute("CREATE INDEX entry_ids ON entries(entry); COMMIT;");
  }

private:
  Error prepare() {
    std::pair<Statement &, StringRef> Plans[] = {
        {Meta, "INSERT INTO meta VALUES(?,?)"},
        {File, "INSERT INTO files VALUES(?,?,?)"},
        {Row, "INSERT INTO entries VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"},
        {Item, "INSERT INTO items VALUES(?,?,?,?,?)"},
        {Sign, "INSERT INTO signals VALUES(?,?,?,?)"},
        {Term, "INSERT INTO terms VALUES(?,?,?,?)"},
        {Word, "INSERT INTO words VALUES(?,?)"},
        {Part, "INSERT INTO index_parts VALUES(?,?,?)"}};
    for (auto &[Into, Sql] : Plans) {
      Expected<Statement> S = D.prepare(Sql);
      if (!S)
        return S.takeError();
      Into = std::move(*S);
    }
    return Error::success();
  }

  Error meta(StringRef Key, StringRef Value) {
    Meta.bind(1, Key);
    Meta.bind(2, Value);
    return Meta.run();
  }

  Error file(const LogFile &F) {
    File.bind(1, ++FileId);
    File.bind(2, F.Path);
    File.bind(3, F.Hash);
    if (Error E = File.run())
      return E;
    for (const Entry &E : F.Entries)
      if (Error Err = entry(E))
        return Err;
    return Error::success();
  }

  Error entry(const Entry &E) {
    Row.bind(1, ++EntryId);
    Row.bind(2, FileId);
    Row.bind(3, static_cast<int64_t>(E.Source.Line));
    int Column = 4;
    for (std::string Entry::*Text : plainTexts())
      Row.bindView(Column++, E.*Text);
    for (StringRef Text :
         {StringRef(E.Confirm.Experiment), StringRef(E.Confirm.Confirms),
          StringRef(E.Confirm.Refutes)})
      Row.bindView(Column++, Text);
    if (Error Err = Row.run())
      return Err;

    for (auto [Kind, List] : EntryLists) {
      if (List)
        for (auto [I, Text] : enumerate(E.*List))
          if (Error Err = item(Kind, I, "", Text))
            return Err;
      if (!List)
        for (auto [I, S] : enumerate(E.Other))
          if (Error Err = item(Kind, I, S.Label, S.Text))
            return Err;
    }
    for (auto [I, S] : enumerate(E.Signals)) {
      Sign.bind(1, EntryId);
      Sign.bind(2, static_cast<int64_t>(I));
      Sign.bindView(3, S.Symptom);
      Sign.bindView(4, frequencyName(S.How));
      if (Error Err = Sign.run())
        return Err;
    }
    return Error::success();
  }

  Error item(StringRef Kind, int64_t Position, StringRef Label,
             StringRef Content) {
    Item.bind(1, EntryId);
    Item.bindView(2, Kind);
    Item.bind(3, Position);
    Item.bindView(4, Label);
    Item.bindView(5, Content);
    return Item.run();
  }

  Error index(const IndexData &I) {
    for (const IndexTerm &T : I.Terms) {
      Term.bind(1, T.Key);
      Term.bindView(2, T.Text);
      Term.bind(3, static_cast<int64_t>(T.Entries));
      Term.bindBlob(4, T.Places);
      if (Error E = Term.run())
        return E;
    }
    for (const auto &[Text, Count] : I.Words) {
      Word.bindView(1, Text);
      Word.bind(2, static_cast<int64_t>(Count));
      if (Error E = Word.run())
        return E;
    }
    std::string Summary = packSummary(I.Table);
    std::pair<IndexPart, StringRef> Parts[] = {
        {IndexPart::Summary, Summary},
        {IndexPart::Lengths, I.Table.Lengths},
        {IndexPart::Classes, I.Table.ClassOf},
        {IndexPart::Order, I.Order},
        {IndexPart::Anchors, I.Anchors}};
    for (auto [P, Bytes] : Parts) {
      Part.bind(1, static_cast<int64_t>(P));
      Part.bind(2, indexPartName(P));
      Part.bindBlob(3, Bytes);
      if (Error E = Part.run())
        return E;
    }
    return Error::success();
  }

  const Database &D;
  const Vocabulary &V;
  Statement Meta, File, Row, Item, Sign, Term, Word, Part;
  int64_t FileId = 0, EntryId = 0;
};

} // namespace

Error writeStore(const Database &D, ArrayRef<LogFile> Files,
                 const Vocabulary &V) {
  return Writer(D, V).write(Files);
}

/// What identifies the store \p D: the analyzer and vocabulary of its index.
static Expected<std::string> readStoreHead(const Database &D, StringRef Name) {
  std::string Version, AnalyzerHash;
  Error E =
      forEachRow(D, "SELECT key, value FROM meta", [&](const Statement &S) {
        if (S.text(0) == "schema")
          Version = S.text(1).str();
        else if (S.text(0) == "analyzer")
          AnalyzerHash = S.text(1).str();
      });
  std::string Expected = Twine(SchemaVersion).str();
  if (!E && Version == Expected)
    return AnalyzerHash;
  std::string Why = E ? toString(std::move(E))
                      : "schema '" + Version + "', expected '" + Expected + "'";
  return failure(Name + ": not a knowledge base of this version (" + Why + ")",
                 "rebuild it with 'culprit kb build'");
}

Expected<OpenedStore> openStore(StringRef Path, const Vocabulary &V) {
  Expected<Database> D = Database::openImmutable(Path);
  if (!D)
    return D.takeError();
  Expected<std::string> Hash = readStoreHead(*D, Path);
  if (!Hash)
    return Hash.takeError();
  return OpenedStore{std::move(*D), *Hash == analyzerHash(V)};
}

} // namespace culprit
