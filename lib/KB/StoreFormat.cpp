//===- StoreFormat.cpp ------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/StoreFormat.h"
#include "Support/Error.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"

using namespace llvm;

namespace culprit {

/// Counts up whenever the tables change.
static constexpr unsigned SchemaVersion = 2;

// The characters that terms may hold beside letters and digits. Everything
// beyond ASCII is a token character of the tokenizer as it is.
static constexpr const char *Schema = R"sql(
PRAGMA page_size = 4096;
PRAGMA journal_mode = OFF;
PRAGMA synchronous = FULL;
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
CREATE TABLE lengths(entry INTEGER, field TEXT, terms INTEGER,
  PRIMARY KEY(entry, field)) WITHOUT ROWID;
)sql";

std::string analyzerHash(const Vocabulary &V) {
  return (Twine(Analyzer::Version) + "-" + utohexstr(V.hash(), true, 16)).str();
}

namespace {

/// Writes entries one by one with statements prepared once.
class Writer {
public:
  Writer(const Database &D, const Vocabulary &V) : D(D), V(V), A(V) {}

  Error write(ArrayRef<LogFile> Files) {
    std::string Columns;
    for (const Field &F : Fields)
      Columns += F.Name.str() + ", ";
    std::string Index =
        (Twine("CREATE VIRTUAL TABLE entry_text USING fts5(") + Columns +
         "tokenize = \"ascii tokenchars '#+-_.!?@$^'\");")
            .str();
    if (Error E = D.execute(Schema))
      return E;
    if (Error E = D.execute(Index))
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
    return D.execute("INSERT INTO entry_text(entry_text) VALUES('optimize');"
                     "COMMIT;");
  }

private:
  Error prepare() {
    struct Plan {
      Statement &S;
      std::string Sql;
    };
    std::string Marks = "?";
    for (unsigned I = 0; I < NumFields; ++I)
      Marks += ",?";
    std::string Names = "rowid";
    for (const Field &F : Fields)
      Names += "," + F.Name.str();
    Plan Plans[] = {
        {Meta, "INSERT INTO meta VALUES(?,?)"},
        {File, "INSERT INTO files VALUES(?,?,?)"},
        {Row, "INSERT INTO entries VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"},
        {Item, "INSERT INTO items VALUES(?,?,?,?,?)"},
        {Sign, "INSERT INTO signals VALUES(?,?,?,?)"},
        {Length, "INSERT INTO lengths VALUES(?,?,?)"},
        {Text,
         (Twine("INSERT INTO entry_text(") + Names + ") VALUES(" + Marks + ")")
             .str()}};
    for (Plan &P : Plans) {
      Expected<Statement> S = D.prepare(P.Sql);
      if (!S)
        return S.takeError();
      P.S = std::move(*S);
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
    for (size_t I = 0; I < F.Entries.size(); ++I) {
      if (Error E = entry(F.Entries[I]))
        return E;
      if (Error E =
              index(F.Entries[I], I < F.Index.size() ? &F.Index[I] : nullptr))
        return E;
    }
    return Error::success();
  }

  Error entry(const Entry &E) {
    Row.bind(1, ++EntryId);
    Row.bind(2, FileId);
    Row.bind(3, static_cast<int64_t>(E.Source.Line));
    StringRef Texts[] = {E.Id,
                         E.Date,
                         E.Status,
                         E.Title,
                         E.Class,
                         E.Symptom,
                         E.RootCause,
                         E.Fix,
                         E.Files,
                         E.Workarounds,
                         E.Confirm.Experiment,
                         E.Confirm.Confirms,
                         E.Confirm.Refutes};
    for (auto [I, Text] : enumerate(Texts))
      Row.bind(4 + static_cast<int>(I), Text);
    if (Error Err = Row.run())
      return Err;

    std::pair<StringRef, ArrayRef<std::string>> Lists[] = {
        {"prevention", E.Prevention},
        {"also", E.AlsoSeenAs},
        {"log", E.LogFragments},
        {"fails_when", E.FailsWhen},
        {"works_when", E.WorksWhen},
        {"reference", E.References}};
    for (auto &[Kind, Texts] : Lists)
      for (auto [I, Text] : enumerate(Texts))
        if (Error Err = item(Kind, I, "", Text))
          return Err;
    for (auto [I, S] : enumerate(E.Other))
      if (Error Err = item("other", I, S.Label, S.Text))
        return Err;

    for (auto [I, S] : enumerate(E.Signals)) {
      Sign.bind(1, EntryId);
      Sign.bind(2, static_cast<int64_t>(I));
      Sign.bind(3, S.Symptom);
      Sign.bind(4, frequencyName(S.How));
      if (Error Err = Sign.run())
        return Err;
    }
    return Error::success();
  }

  Error item(StringRef Kind, int64_t Position, StringRef Label,
             StringRef Content) {
    Item.bind(1, EntryId);
    Item.bind(2, Kind);
    Item.bind(3, Position);
    Item.bind(4, Label);
    Item.bind(5, Content);
    return Item.run();
  }

  Error index(const Entry &E, const IndexText *Ready) {
    IndexText Made;
    if (!Ready) {
      Made = fieldTexts(E, V);
      for (std::string &Field : Made)
        Field = A.indexText(Field);
      Ready = &Made;
    }
    Text.bind(1, EntryId);
    for (unsigned I = 0; I < NumFields; ++I) {
      StringRef Terms = (*Ready)[I];
      Text.bind(2 + static_cast<int>(I), Terms);
      Length.bind(1, EntryId);
      Length.bind(2, Fields[I].Name);
      Length.bind(
          3, Terms.empty() ? 0 : static_cast<int64_t>(Terms.count(' ') + 1));
      if (Error Err = Length.run())
        return Err;
    }
    return Text.run();
  }

  const Database &D;
  const Vocabulary &V;
  Analyzer A;
  Statement Meta, File, Row, Item, Sign, Length, Text;
  int64_t FileId = 0, EntryId = 0;
};

/// Reads the tables one after the other; entries are found by their row.
class Reader {
public:
  explicit Reader(const Database &D) : D(D) {}

  Expected<StoreContent> read(StringRef Name, bool WithIndex) {
    std::string Version;
    Error E =
        forEachRow(D, "SELECT key, value FROM meta", [&](const Statement &S) {
          if (S.text(0) == "schema")
            Version = S.text(1).str();
          else if (S.text(0) == "analyzer")
            C.AnalyzerHash = S.text(1).str();
        });
    if (E || Version != Twine(SchemaVersion).str()) {
      std::string Why = E ? toString(std::move(E))
                          : "schema '" + Version + "', expected '" +
                                Twine(SchemaVersion).str() + "'";
      return failure(Name + ": not a knowledge base of this version (" + Why +
                         ")",
                     "rebuild it with 'culprit kb build'");
    }
    if (Error Err = entries())
      return Err;
    if (Error Err = lists())
      return Err;
    if (WithIndex)
      if (Error Err = index())
        return Err;
    return std::move(C);
  }

private:
  Error entries() {
    Error E = forEachRow(
        D, "SELECT path, hash FROM files ORDER BY id", [&](const Statement &S) {
          C.Files.push_back({S.text(0).str(), S.text(1).str(), {}, {}});
        });
    if (E)
      return E;
    E = forEachRow(
        D,
        "SELECT file, line, entry, date, status, title, class, symptom,"
        " root_cause, fix, files, workarounds, experiment, confirms, refutes"
        " FROM entries ORDER BY id",
        [&](const Statement &S) {
          size_t FileIndex = static_cast<size_t>(S.integer(0)) - 1;
          Where.push_back({FileIndex, 0});
          if (FileIndex >= C.Files.size())
            return;
          LogFile &F = C.Files[FileIndex];
          Where.back().second = F.Entries.size();
          Entry &N = F.Entries.emplace_back();
          N.Source = {F.Path, static_cast<unsigned>(S.integer(1))};
          std::string *Texts[] = {&N.Id,
                                  &N.Date,
                                  &N.Status,
                                  &N.Title,
                                  &N.Class,
                                  &N.Symptom,
                                  &N.RootCause,
                                  &N.Fix,
                                  &N.Files,
                                  &N.Workarounds,
                                  &N.Confirm.Experiment,
                                  &N.Confirm.Confirms,
                                  &N.Confirm.Refutes};
          for (auto [I, Text] : enumerate(Texts))
            *Text = S.text(2 + static_cast<int>(I)).str();
        });
    return E;
  }

  /// The entry of the row \p Id, or null in a damaged store.
  Entry *entry(int64_t Id) {
    size_t Row = static_cast<size_t>(Id) - 1;
    if (Row >= Where.size() || Where[Row].first >= C.Files.size())
      return nullptr;
    return &C.Files[Where[Row].first].Entries[Where[Row].second];
  }

  Error lists() {
    Error E = forEachRow(
        D, "SELECT entry, kind, label, text FROM items ORDER BY 1, 2, position",
        [&](const Statement &S) {
          Entry *N = entry(S.integer(0));
          if (!N)
            return;
          StringRef Kind = S.text(1);
          if (Kind == "other") {
            N->Other.push_back({S.text(2).str(), S.text(3).str()});
            return;
          }
          std::vector<std::string> *List =
              Kind == "prevention"   ? &N->Prevention
              : Kind == "also"       ? &N->AlsoSeenAs
              : Kind == "log"        ? &N->LogFragments
              : Kind == "fails_when" ? &N->FailsWhen
              : Kind == "works_when" ? &N->WorksWhen
              : Kind == "reference"  ? &N->References
                                     : nullptr;
          if (List)
            List->push_back(S.text(3).str());
        });
    if (E)
      return E;
    return forEachRow(
        D, "SELECT entry, symptom, frequency FROM signals ORDER BY 1, position",
        [&](const Statement &S) {
          Entry *N = entry(S.integer(0));
          std::optional<Frequency> How = parseFrequency(S.text(2));
          if (N && How)
            N->Signals.push_back({S.text(1).str(), *How});
        });
  }

  Error index() {
    std::string Columns;
    for (const Field &F : Fields)
      Columns += (Columns.empty() ? "" : ", ") + F.Name.str();
    for (LogFile &F : C.Files)
      F.Index.resize(F.Entries.size());
    return forEachRow(
        D, "SELECT rowid, " + Columns + " FROM entry_text ORDER BY rowid",
        [&](const Statement &S) {
          size_t Row = static_cast<size_t>(S.integer(0)) - 1;
          if (Row >= Where.size() || Where[Row].first >= C.Files.size())
            return;
          IndexText &T = C.Files[Where[Row].first].Index[Where[Row].second];
          for (unsigned I = 0; I < NumFields; ++I)
            T[I] = S.text(1 + static_cast<int>(I)).str();
        });
  }

  const Database &D;
  StoreContent C;
  std::vector<std::pair<size_t, size_t>> Where; ///< File and place, by row.
};

} // namespace

Error writeStore(const Database &D, ArrayRef<LogFile> Files,
                 const Vocabulary &V) {
  return Writer(D, V).write(Files);
}

Expected<StoreContent> readStore(const Database &D, StringRef Name,
                                 bool WithIndex) {
  return Reader(D).read(Name, WithIndex);
}

} // namespace culprit
