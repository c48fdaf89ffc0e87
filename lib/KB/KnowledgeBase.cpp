//===- KnowledgeBase.cpp ----------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/KnowledgeBase.h"
#include "KB/EntryList.h"
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
  EntryList Entries;
  unsigned Written = 0; ///< Of Entries; what follows is made of definitions.
  std::vector<Diagnostic> Remarks;
  std::optional<Searcher> Search;
  StringMap<unsigned> Ids; ///< Made when one is looked for.

  /// Adds \p Files with an index in memory.
  void addIndexed(std::vector<LogFile> Files) {
    Entries.add(EntrySource::inMemory(std::move(Files), V));
  }

  Error addStore(StringRef Path) {
    Expected<std::unique_ptr<EntrySource>> S = EntrySource::open(Path, V);
    if (!S)
      return S.takeError();
    Entries.add(std::move(*S));
    return Error::success();
  }

  LogFile parse(StringRef Text, StringRef Path) {
    MarkdownLog Log = readMarkdown(Text, Path);
    append_range(Remarks, Log.Remarks);
    return {Path.str(), "", std::move(Log.Entries)};
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
    addIndexed(std::move(Files));
    return Error::success();
  }

  /// Adds the classes that no entry is about.
  void addDefinitions() {
    Written = Entries.size();
    StringSet<> Known;
    for (const EntryList::Part &P : Entries.parts())
      for (const std::string &Class : P.Source->index().table().Classes)
        Known.insert(Class);
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
      return;
    std::vector<LogFile> Files;
    Files.push_back(std::move(F));
    addIndexed(std::move(Files));
  }

  void finish() {
    addDefinitions();
    Search.emplace(Entries, V);
  }

  /// All entries, also those made of definitions; none when they cannot be
  /// read.
  ArrayRef<Entry> all() {
    Expected<ArrayRef<Entry>> All = Entries.all();
    if (All)
      return *All;
    consumeError(All.takeError()); // load() tells it.
    return {};
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
  S->finish();
  return KnowledgeBase(std::move(S));
}

Expected<KnowledgeBase>
KnowledgeBase::fromMarkdown(StringRef Markdown, StringRef Name, Vocabulary V) {
  std::unique_ptr<State> S = std::make_unique<State>();
  S->V = std::move(V);
  std::vector<LogFile> Files;
  Files.push_back(S->parse(Markdown, Name));
  S->addIndexed(std::move(Files));
  S->finish();
  return KnowledgeBase(std::move(S));
}

const Vocabulary &KnowledgeBase::vocabulary() const { return S->V; }
ArrayRef<Entry> KnowledgeBase::entries() const {
  ArrayRef<Entry> All = S->all();
  return All.take_front(std::min<size_t>(All.size(), S->Written));
}
Error KnowledgeBase::load() const { return S->Entries.all().takeError(); }
ArrayRef<Diagnostic> KnowledgeBase::remarks() const { return S->Remarks; }

std::vector<const Entry *> KnowledgeBase::find(StringRef IdOrClass) const {
  ArrayRef<Entry> All = S->all();
  if (S->Ids.empty())
    for (auto [I, E] : enumerate(All))
      S->Ids.try_emplace(E.Id, static_cast<unsigned>(I));
  if (auto It = S->Ids.find(IdOrClass); It != S->Ids.end())
    return {&All[It->second]};
  std::vector<const Entry *> Found;
  for (const Entry &E : All)
    if (E.Class == IdOrClass && !IdOrClass.empty())
      Found.push_back(&E);
  if (!Found.empty())
    return Found;
  for (const Entry &E : All)
    if (StringRef(E.Id).split('/').second == IdOrClass)
      Found.push_back(&E);
  if (Found.size() != 1)
    Found.clear();
  return Found;
}

std::string KnowledgeBase::closest(StringRef Unknown) const {
  std::vector<std::string> Known;
  StringSet<> Seen;
  for (const Entry &E : S->all()) {
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
