//===- KbSearch.cpp - culprit kb search -------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "KB/Weights.h"
#include "KbVerbs.h"
#include "Knowledge.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace llvm;

namespace culprit {

static cl::list<std::string>
    Logs("log", cl::sub(kbCommand()), cl::value_desc("FILE"),
         cl::desc("search: also take the text of FILE, such as a log, as the "
                  "query (repeatable)"));

static cl::opt<bool> Explain("explain", cl::sub(kbCommand()),
                             cl::desc("search: say which terms in which field "
                                      "gave how much"));
static cl::opt<bool>
    Batch("batch", cl::sub(kbCommand()),
          cl::desc("search: a query on each line of standard input; one with "
                   "line breaks as a JSON string"));
static cl::opt<std::string> KbWeights(
    "weights", cl::sub(kbCommand()), cl::value_desc("NAME=X,..."),
    cl::desc("search: other weights of the ranking, to try them out"));

/// The words, with `-` for standard input, and the logs behind them.
static Expected<std::string> query(ArrayRef<std::string> Words) {
  std::string Query;
  bool Stdin = false;
  auto Read = [&](StringRef Path) -> Error {
    auto Input = MemoryBuffer::getFileOrSTDIN(Path);
    if (!Input)
      return failure((Path == "-" ? "standard input" : Path) + ": " +
                     Input.getError().message());
    if ((*Input)->getBuffer().take_front(4096).contains('\0'))
      return failure((Path == "-" ? "standard input" : Path) +
                         ": holds NUL bytes and is no text",
                     "unpack it first: zcat train.log.gz | culprit kb search "
                     "-; or save it as UTF-8");
    if (!Query.empty())
      Query += '\n';
    Query += (*Input)->getBuffer();
    return Error::success();
  };
  for (const std::string &Word : Words) {
    if (Word == "-" && !std::exchange(Stdin, true)) {
      if (Error E = Read("-"))
        return E;
      continue;
    }
    if (!Query.empty())
      Query += ' ';
    Query += Word;
  }
  for (const std::string &Path : Logs) {
    if (Path == "-" && std::exchange(Stdin, true))
      return failure("kb search: standard input is read once");
    if (Error E = Read(Path))
      return E;
  }
  return Query;
}

/// What \p KB has on \p Query, less what --layer and --class leave out.
static Expected<SearchResult> search(const KnowledgeBase &KB, StringRef Query,
                                     const SearchWeights &W) {
  const KbOptions &O = kbOptions();
  const Vocabulary &V = KB.vocabulary();
  SearchOptions Options;
  Options.Limit = O.Limit;
  Options.Explain = Explain;
  Options.Weights = &W;
  if (!O.Layer.empty() || !O.Class.empty())
    Options.Passes = [&](StringRef Class) {
      Entry E;
      E.Class = Class.str();
      return passesFilter(E, V);
    };
  return KB.search(Query, Options);
}

/// One query a line, one answer a line with --format json.
static int searchLines(const KnowledgeBase &KB, const SearchWeights &W) {
  auto Input = MemoryBuffer::getSTDIN();
  if (!Input)
    return report(failure("standard input: " + Input.getError().message()));
  SmallVector<StringRef, 0> Lines;
  (*Input)->getBuffer().split(Lines, '\n', -1, false);
  for (StringRef Line : Lines) {
    std::string Query = Line.trim().str();
    if (StringRef(Query).starts_with("\"")) {
      Expected<json::Value> Text = json::parse(Query);
      if (!Text)
        consumeError(Text.takeError()); // Then it is no JSON but quoted words.
      else if (std::optional<StringRef> S = Text->getAsString())
        Query = S->str();
    }
    if (Query.empty())
      continue;
    Expected<SearchResult> Found = search(KB, Query, W);
    if (!Found)
      return report(Found.takeError());
    if (kbOptions().Format == KbFormat::Json) {
      outs() << searchJson(*Found) << '\n';
      continue;
    }
    outs() << "? " << StringRef(Query).split('\n').first << "\n\n";
    printSearchText(outs(), *Found);
    outs() << '\n';
  }
  return ExitDone;
}

int kbSearch(ArrayRef<std::string> Words) {
  const KbOptions &O = kbOptions();
  if (Error E = checkFormat("search", {KbFormat::Text, KbFormat::Json}))
    return report(std::move(E));
  SearchWeights W;
  if (Error E = W.set(KbWeights))
    return report(std::move(E));
  if (Batch && (!Words.empty() || !Logs.empty()))
    return report(failure("kb search: --batch reads its queries from standard "
                          "input",
                          "leave out the words and --log"));
  std::string Query;
  if (!Batch) {
    Expected<std::string> Given = query(Words);
    if (!Given)
      return report(Given.takeError());
    Query = std::move(*Given);
    if (StringRef(Query).trim().empty())
      return report(failure("kb search: no query",
                            "say what you see: culprit kb search 'loss is "
                            "nan after warm-up', or pipe a log into 'kb "
                            "search -'"));
  }
  Expected<KnowledgeBase> KB = openForSearch(O.Kb);
  if (!KB)
    return report(KB.takeError());
  if (Error E = checkFilter(KB->vocabulary()))
    return report(std::move(E));
  if (Batch)
    return searchLines(*KB, W);
  Expected<SearchResult> Found = search(*KB, Query, W);
  if (!Found)
    return report(Found.takeError());
  if (O.Format == KbFormat::Json)
    outs() << formatv("{0:2}", searchJson(*Found)) << '\n';
  else
    printSearchText(outs(), *Found);
  if (Found->Hits.empty() && O.Layer.empty() && O.Class.empty())
    report({{Severity::Note, "nothing that the query says is in an entry",
             "quote what the run printed, or give its files to 'culprit "
             "diagnose'"}});
  return ExitDone;
}

} // namespace culprit
