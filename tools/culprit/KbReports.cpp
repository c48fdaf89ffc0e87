//===- KbReports.cpp - culprit kb strategy, rules, stats, export *- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "KB/AddEntryFile.h"
#include "KB/Export.h"
#include "KB/IndexPages.h"
#include "KB/Rules.h"
#include "KB/Stats.h"
#include "KB/Strategy.h"
#include "KbVerbs.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"

using namespace llvm;

namespace culprit {

static cl::opt<std::string>
    Tests("tests", cl::sub(kbCommand()), cl::value_desc("DIR"),
          cl::desc("strategy: look in the sources below DIR for the tests that "
                   "preventions name"));

static int writeJson(const json::Value &V) {
  return writeResult(formatv("{0:2}\n", V).str());
}

int kbStrategy(ArrayRef<std::string> Paths) {
  KbFormat Form = kbOptions().Format;
  if (Error E = checkFormat("strategy", {KbFormat::Text, KbFormat::Json,
                                         KbFormat::Markdown}))
    return report(std::move(E));
  Expected<KbSelection> S = selectEntries(Paths);
  if (!S)
    return report(S.takeError());
  std::optional<TestIndex> Index;
  if (!Tests.empty()) {
    std::vector<std::string> Wanted;
    for (const Entry *E : S->Entries)
      for (const std::string &Item : E->Prevention)
        append_range(Wanted, testNames(Item));
    Expected<TestIndex> Read = TestIndex::read(Tests, Wanted);
    if (!Read)
      return report(Read.takeError());
    if (!Read->files())
      report({{Severity::Warning, Tests + ": no sources in this folder", ""}});
    Index = std::move(*Read);
  }
  Strategy Derived = deriveStrategy(S->Entries, S->Base.vocabulary(),
                                    Index ? &*Index : nullptr);
  if (Form == KbFormat::Json)
    return writeJson(strategyJson(Derived));
  std::string Text;
  raw_string_ostream OS(Text);
  if (Form == KbFormat::Markdown)
    printStrategyMarkdown(OS, Derived);
  else
    printStrategy(OS, Derived);
  return writeResult(Text);
}

int kbRules(ArrayRef<std::string> Paths) {
  KbFormat Form = kbOptions().Format;
  if (Error E = checkFormat("rules", {KbFormat::Text, KbFormat::Json,
                                      KbFormat::Markdown}))
    return report(std::move(E));
  Expected<KbSelection> S = selectEntries(Paths);
  if (!S)
    return report(S.takeError());
  RuleBook Book = makeRules(S->Entries, S->Base.vocabulary());
  std::vector<Diagnostic> Notes;
  for (const auto &[E, Why] : Book.Refused)
    Notes.push_back({Severity::Warning,
                     formatv("{0}:{1}: left out: prevention {2}",
                             E->Source.File, E->Source.Line, Why),
                     ""});
  report(Notes);
  if (Form == KbFormat::Json)
    return writeJson(rulesJson(Book));
  std::string Text;
  raw_string_ostream OS(Text);
  if (Form == KbFormat::Markdown)
    printRulesMarkdown(OS, Book);
  else
    printRules(OS, Book);
  return writeResult(Text);
}

int kbStats(ArrayRef<std::string> Paths) {
  if (Error E = checkFormat("stats", {KbFormat::Text, KbFormat::Json}))
    return report(std::move(E));
  Expected<KbSelection> S = selectEntries(Paths);
  if (!S)
    return report(S.takeError());
  KbStats Counted = countEntries(S->Entries, S->Base.vocabulary());
  if (kbOptions().Format == KbFormat::Json)
    return writeJson(statsJson(Counted));
  std::string Text;
  raw_string_ostream OS(Text);
  printStats(OS, Counted);
  return writeResult(Text);
}

/// Writes the pages of an index into the folder -o.
static int writeIndex(const KbSelection &S) {
  StringRef Folder = kbOptions().Output;
  if (std::error_code Code = sys::fs::create_directories(Folder))
    return report(failure(Folder + ": " + Code.message()));
  for (const IndexPage &P : indexPages(S.Entries, S.Base.vocabulary(), Folder))
    if (Error E = updateFile((Folder + "/" + P.Name).str(),
                             [&](StringRef) -> Expected<std::string> {
                               return P.Text;
                             }))
      return report(std::move(E));
  return ExitDone;
}

int kbExport(ArrayRef<std::string> Paths) {
  KbFormat Form = kbOptions().Format;
  if (Form == KbFormat::Index && kbOptions().Output.empty())
    return report(failure("kb export: an index is a folder of pages",
                          "say which: culprit kb export --format index -o "
                          "docs/kb"));
  Expected<KbSelection> S = selectEntries(Paths);
  if (!S)
    return report(S.takeError());
  if (Form == KbFormat::Index)
    return writeIndex(*S);
  if (Form == KbFormat::Json)
    return writeJson(exportJson(S->Entries));
  std::string Text;
  raw_string_ostream OS(Text);
  if (Form == KbFormat::Tsv)
    exportTsv(OS, S->Entries);
  else // a log is the text that people write
    exportMarkdown(OS, S->Entries);
  return writeResult(Text);
}

} // namespace culprit
