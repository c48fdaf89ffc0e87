//===- KnowledgeBase.cpp ----------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/KnowledgeBase.h"
#include "KB/MarkdownReader.h"
#include "KB/Searcher.h"
#include "KB/Store.h"
#include "KB/StoreFormat.h"
#include "Support/Glob.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include <optional>

using namespace llvm;

namespace culprit {

struct KnowledgeBase::State {
  Vocabulary V;
  std::vector<Entry> Entries;
  size_t Written = 0; ///< Of Entries; what follows is made of definitions.
  std::vector<Diagnostic> Remarks;
  StringMap<unsigned> Ids;
  std::optional<Searcher> Search;

  std::vector<TextIndex> Indexes; ///< Until they are handed to Search.

  /// Adds \p Files, whose index is in \p D.
  Error add(Database D, std::vector<LogFile> Files) {
    Expected<TextIndex> Index = TextIndex::open(std::move(D), Entries.size());
    if (!Index)
      return Index.takeError();
    Indexes.push_back(std::move(*Index));
    for (LogFile &F : Files)
      for (Entry &E : F.Entries) {
        // Two logs may have the same file name and title.
        std::string Id = E.Id;
        for (unsigned I = 2; !Ids.try_emplace(E.Id, Entries.size()).second; ++I)
          E.Id = Id + "-" + std::to_string(I);
        Entries.push_back(std::move(E));
      }
    return Error::success();
  }

  /// Adds \p Files with an index in memory.
  Error addIndexed(std::vector<LogFile> Files) {
    Expected<Database> D = Database::inMemory();
    if (!D)
      return D.takeError();
    if (Error E = writeStore(*D, Files, V))
      return E;
    return add(std::move(*D), std::move(Files));
  }

  Error addStore(StringRef Path) {
    Expected<Database> D = Database::openImmutable(Path);
    if (!D)
      return D.takeError();
    Expected<StoreContent> Content = readStore(*D, Path, /*WithIndex=*/false);
    if (!Content)
      return Content.takeError();
    // Built with other aliases: its entries are good, its index is not.
    if (Content->AnalyzerHash != analyzerHash(V))
      return addIndexed(std::move(Content->Files));
    return add(std::move(*D), std::move(Content->Files));
  }

  LogFile parse(StringRef Text, StringRef Path) {
    MarkdownLog Log = readMarkdown(Text, Path);
    append_range(Remarks, Log.Remarks);
    return {Path.str(), "", std::move(Log.Entries), {}};
  }

  Error addMarkdown(StringRef Path) {
    Expected<std::vector<std::string>> Paths = expandLogs(Path.str());
    if (!Paths)
      return Paths.takeError();
    std::vector<LogFile> Files;
    for (const std::string &File : *Paths) {
      ErrorOr<std::unique_ptr<MemoryBuffer>> Buffer =
          MemoryBuffer::getFile(File);
      if (!Buffer)
        return failure(File + ": " + Buffer.getError().message());
      Files.push_back(parse((*Buffer)->getBuffer(), File));
    }
    return addIndexed(std::move(Files));
  }

  /// Adds the classes that no entry is about.
  Error addDefinitions() {
    Written = Entries.size();
    StringSet<> Known;
    for (const Entry &E : Entries)
      Known.insert(E.Class);
    LogFile F;
    F.Path = "kb/classes.tsv";
    for (const ClassTerm &T : V.classes()) {
      if (Known.contains(T.Id))
        continue;
      Entry &E = F.Entries.emplace_back();
      E.Id = "classes/" + T.Id;
      E.Class = T.Id;
      E.Title = E.RootCause = T.Definition;
      E.Source = {F.Path, T.Line};
    }
    if (F.Entries.empty())
      return Error::success();
    std::vector<LogFile> Files;
    Files.push_back(std::move(F));
    return addIndexed(std::move(Files));
  }

  Error finish() {
    if (Error E = addDefinitions())
      return E;
    Expected<Searcher> S = Searcher::create(Entries, V, std::move(Indexes));
    if (!S)
      return S.takeError();
    Search.emplace(std::move(*S));
    return Error::success();
  }
};

KnowledgeBase::KnowledgeBase(std::unique_ptr<State> S) : S(std::move(S)) {}
KnowledgeBase::KnowledgeBase(KnowledgeBase &&) noexcept = default;
KnowledgeBase &KnowledgeBase::operator=(KnowledgeBase &&) noexcept = default;
KnowledgeBase::~KnowledgeBase() = default;

static bool isStore(StringRef Path) {
  if (Path.ends_with(".sqlite") || Path.ends_with(".db"))
    return true;
  ErrorOr<std::unique_ptr<MemoryBuffer>> Head =
      MemoryBuffer::getFileSlice(Path, 16, 0);
  return Head && (*Head)->getBuffer().starts_with("SQLite format 3");
}

Expected<KnowledgeBase> KnowledgeBase::open(ArrayRef<std::string> Paths,
                                            Vocabulary V) {
  std::unique_ptr<State> S = std::make_unique<State>();
  S->V = std::move(V);
  for (const std::string &Path : Paths) {
    bool Directory = sys::fs::is_directory(Path);
    if (!Directory && !sys::fs::exists(Path))
      return failure(Path + ": no such file or directory");
    Error E =
        !Directory && isStore(Path) ? S->addStore(Path) : S->addMarkdown(Path);
    if (E)
      return E;
  }
  if (Error E = S->finish())
    return E;
  return KnowledgeBase(std::move(S));
}

Expected<KnowledgeBase>
KnowledgeBase::fromMarkdown(StringRef Markdown, StringRef Name, Vocabulary V) {
  std::unique_ptr<State> S = std::make_unique<State>();
  S->V = std::move(V);
  std::vector<LogFile> Files;
  Files.push_back(S->parse(Markdown, Name));
  if (Error E = S->addIndexed(std::move(Files)))
    return E;
  if (Error E = S->finish())
    return E;
  return KnowledgeBase(std::move(S));
}

const Vocabulary &KnowledgeBase::vocabulary() const { return S->V; }
ArrayRef<Entry> KnowledgeBase::entries() const {
  return ArrayRef<Entry>(S->Entries).take_front(S->Written);
}
ArrayRef<Diagnostic> KnowledgeBase::remarks() const { return S->Remarks; }

std::vector<const Entry *> KnowledgeBase::find(StringRef IdOrClass) const {
  if (auto It = S->Ids.find(IdOrClass); It != S->Ids.end())
    return {&S->Entries[It->second]};
  std::vector<const Entry *> Found;
  for (const Entry &E : S->Entries)
    if (E.Class == IdOrClass && !IdOrClass.empty())
      Found.push_back(&E);
  if (!Found.empty())
    return Found;
  for (const Entry &E : S->Entries)
    if (StringRef(E.Id).split('/').second == IdOrClass)
      Found.push_back(&E);
  if (Found.size() != 1)
    Found.clear();
  return Found;
}

std::string KnowledgeBase::closest(StringRef Unknown) const {
  std::vector<std::string> Known;
  StringSet<> Seen;
  for (const Entry &E : S->Entries) {
    Known.push_back(E.Id);
    if (!E.Class.empty() && Seen.insert(E.Class).second)
      Known.push_back(E.Class);
  }
  return closestName(Unknown, Known);
}

Expected<SearchResult> KnowledgeBase::search(StringRef Query,
                                             unsigned Limit) const {
  SearchOptions Options;
  Options.Limit = Limit;
  return search(Query, Options);
}

Expected<SearchResult>
KnowledgeBase::search(StringRef Query, const SearchOptions &Options) const {
  return S->Search->search(Query, Options);
}

} // namespace culprit
