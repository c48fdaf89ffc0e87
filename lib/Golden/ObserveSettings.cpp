//===- ObserveSettings.cpp - Configurations and API responses ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Compare/Runs.h"
#include "Golden/Observe.h"
#include "Golden/Schema.h"
#include "Support/InputFile.h"
#include "Support/Text.h"
#include "Support/Units.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"

using namespace llvm;

namespace culprit {

/// A folder of one machine says nothing of the next, and another seed is
/// another draw: what does not hold under one is held as a sample elsewhere.
static bool isLocal(StringRef Key, StringRef Value) {
  const StringRef Kind = changeKind(Key);
  return Kind == "bookkeeping" || Kind == "outcome" || Kind == "seed" ||
         Value.starts_with("/") ||
         Value.starts_with("~/") || Value.starts_with("file:");
}

static std::string utf8(StringRef Text) {
  return json::isUTF8(Text) ? Text.str() : json::fixUTF8(Text);
}

void observeSettings(const Case &C, const InputNames &Names, GoldenRun &Run) {
  const Table &T = C.table(TableId::config);
  std::map<std::string, std::map<std::string, std::string>> Files;
  std::map<std::string, std::map<std::string, std::string>> Places;
  for (size_t Row = 0; Row != T.rows(); ++Row) {
    const Citation From = C.cite(TableId::config, Row);
    const std::string Key =
        utf8(T.cell(Row, T.columns()[config::key]).text());
    const std::string Value =
        utf8(T.cell(Row, T.columns()[config::value]).text());
    if (Names.isLock(From.Path) || isLocal(Key, Value))
      continue;
    const std::string File = Names.of(From.Path);
    // A long value, as a chat template, is held by its hash.
    Files[File][Key] =
        Value.size() <= 200
            ? Value
            : wholeCharacters(Value, 60).str() + "... " + goldenHash(Value);
    Places[File][Key] = Names.place(TableId::config, Row);
  }
  for (auto &[File, Keys] : Files) {
    Observation O;
    O.Item.Id = "settings/" + File;
    O.Item.Kind = GoldenKind::Exact;
    O.Item.Of = GoldenSubject::Settings;
    O.Where = File;
    O.Item.set("fields", std::vector<std::pair<std::string, std::string>>(
                             Keys.begin(), Keys.end()));
    O.Item.Why = "settings change by hand alone; names, folders, logging and "
                 "seeds are left out";
    O.Places = std::move(Places[File]);
    Run.Items.push_back(std::move(O));
  }
}

void observeSchemas(const Case &C, const InputNames &Names, GoldenRun &Run) {
  for (const InputSummary &I : C.inputs()) {
    if (I.Format != "generations" || I.Failed)
      continue;
    Expected<std::unique_ptr<InputFile>> File = InputFile::open(I.Path);
    if (!File) {
      consumeError(File.takeError());
      continue;
    }
    Expected<StringRef> Text = (*File)->contents();
    if (!Text) {
      consumeError(Text.takeError());
      continue;
    }
    Schema S;
    addRecords(*Text, S);
    const std::string Name = Names.of(I.Path);
    if (S.full())
      Run.Notes.push_back(Name + ": has more than " +
                          formatCount(int64_t(Schema::MaxPaths)) +
                          " key paths; those beyond are not held");
    Observation O;
    O.Item.Id = "schema/" + Name;
    O.Item.Kind = GoldenKind::Structural;
    O.Item.Of = GoldenSubject::Schema;
    O.Where = Name;
    std::vector<std::pair<std::string, std::string>> Fields;
    for (const auto &[Raw, F] : S.fields()) {
      const std::string Path = utf8(Raw);
      Fields.push_back({Path, F.Types + (F.Optional ? "?" : "")});
      for (const auto &[Type, Line] : F.FirstOfType)
        O.Places[Path + "=" + Type] = Name + ":" + std::to_string(Line);
      if (F.Missing)
        O.Places[Path] = formatCount(F.Missing) + " of " +
                         formatCount(F.Objects);
    }
    if (Fields.empty())
      continue;
    O.Item.set("fields", std::move(Fields));
    O.Item.Why = "clients read these keys: none may go or change its type; "
                 "'?' marks those that some records lack";
    Run.Items.push_back(std::move(O));
  }
}

} // namespace culprit
