//===- Store.cpp ------------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/Store.h"
#include "KB/AtomicFile.h"
#include "KB/MarkdownReader.h"
#include "KB/StoreFormat.h"
#include "Support/Parallel.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/xxhash.h"
#include <algorithm>
#include <optional>
#include <thread>

using namespace llvm;

namespace culprit {

Expected<std::vector<std::string>> expandLogs(ArrayRef<std::string> Paths) {
  std::vector<std::string> Out;
  for (const std::string &Path : Paths) {
    if (!sys::fs::is_directory(Path)) {
      if (!sys::fs::exists(Path))
        return failure(Path + ": no such file or directory");
      Out.push_back(Path);
      continue;
    }
    std::vector<std::string> Found;
    std::error_code Code;
    for (sys::fs::directory_iterator It(Path, Code), End; It != End && !Code;
         It.increment(Code)) {
      StringRef Name = sys::path::filename(It->path());
      if (Name.ends_with(".md") && Name != "README.md" &&
          Name != "symptoms.md" && !Name.starts_with("."))
        Found.push_back(It->path());
    }
    if (Code)
      return failure(Path + ": " + Code.message());
    if (Found.empty())
      return failure(Path + ": no markdown file in this directory",
                     "an issues log is a file such as ISSUES.md");
    sort(Found);
    append_range(Out, Found);
  }
  return Out;
}

Diagnostic noEntry(StringRef File) {
  return {Severity::Warning, (File + ":1: no entry in this file").str(),
          "an entry is '### [FIXED] title' followed by '**Symptom**: ...'"};
}

namespace {

/// The store that is there.
struct OldStore {
  std::optional<Database> D;
  std::vector<LogFile> Files; ///< Without entries until they are needed.
  unsigned Entries = 0;
  bool IndexFits = false; ///< It was made with this analyzer and vocabulary.
};

/// A log to be built from.
struct NewLog {
  std::unique_ptr<MemoryBuffer> Text;
  LogFile File;
  MarkdownLog Parsed;
  std::optional<size_t> Same; ///< The file of the old store that it is.
};

} // namespace

static OldStore readOld(StringRef Path, const Vocabulary &V) {
  OldStore Old;
  if (!sys::fs::exists(Path))
    return Old;
  auto Read = [&]() -> Error {
    Expected<OpenedStore> Store = openStore(Path, V);
    if (!Store)
      return Store.takeError();
    Expected<std::vector<LogFile>> Files = readStoreFiles(Store->D);
    if (!Files)
      return Files.takeError();
    Expected<unsigned> Entries = countEntries(Store->D);
    if (!Entries)
      return Entries.takeError();
    Old = {std::move(Store->D), std::move(*Files), *Entries,
           Store->IndexFits};
    return Error::success();
  };
  consumeError(Read()); // What is no store is written anew.
  return Old;
}

/// \p Path below \p Root, or as it is.
static std::string relativePath(StringRef Path, StringRef Root) {
  if (Root.empty())
    return Path.str();
  SmallString<256> Base(Root), Full(Path);
  sys::fs::make_absolute(Base);
  sys::fs::make_absolute(Full);
  sys::path::remove_dots(Base, true);
  sys::path::remove_dots(Full, true);
  StringRef Rest = Full;
  if (Rest.consume_front(Base) && Rest.consume_front("/"))
    return Rest.str();
  return Path.str();
}

/// Writes \p Files to a new file beside \p Out and puts it in its place.
static Error replaceStore(StringRef Out, ArrayRef<LogFile> Files,
                          const Vocabulary &V) {
  Expected<Replacement> New = Replacement::begin(Out);
  if (!New)
    return New.takeError();
  auto Write = [&]() -> Error {
    Expected<Database> D = Database::create(New->path());
    if (!D)
      return D.takeError();
    return writeStore(*D, Files, V);
  };
  if (Error E = Write())
    return E;
  return New->commit();
}

/// Reads what changed, in several threads, and takes over the rest.
static void fill(MutableArrayRef<NewLog> Logs, OldStore &Old) {
  if (any_of(Logs, [](const NewLog &L) { return L.Same.has_value(); })) {
    Expected<std::vector<LogFile>> Files = readStore(*Old.D);
    if (Files && Files->size() == Old.Files.size()) {
      Old.Files = std::move(*Files);
    } else { // Damaged: nothing is taken over.
      consumeError(Files.takeError());
      for (NewLog &L : Logs)
        L.Same.reset();
    }
  }
  std::vector<unsigned> Uses(Old.Files.size()); // A file may be named twice.
  for (const NewLog &L : Logs)
    if (L.Same)
      ++Uses[*L.Same];
  unsigned Threads = std::max(1u, std::thread::hardware_concurrency());
  inParallel(Logs.size(), Threads, [&](size_t I) {
    NewLog &L = Logs[I];
    if (L.Same) {
      std::vector<Entry> &Entries = Old.Files[*L.Same].Entries;
      L.File.Entries = Uses[*L.Same] == 1 ? std::move(Entries) : Entries;
      return;
    }
    L.Parsed = readMarkdown(L.Text->getBuffer(), L.File.Path);
    if (L.Parsed.Entries.empty())
      L.Parsed.Remarks.push_back(noEntry(L.File.Path));
    L.File.Entries = std::move(L.Parsed.Entries);
    L.Text.reset();
  });
  Old.Files.clear();
}

/// Fails when \p Out is a file of somebody else, which would be lost. A store
/// that is damaged, or of another version, is made anew.
static Error checkTarget(StringRef Out) {
  static constexpr StringRef Magic = "SQLite format 3";
  auto Text = MemoryBuffer::getFileSlice(Out, Magic.size(), 0);
  if (!Text)
    return Error::success(); // It is not there; else writing it fails.
  StringRef Head = (*Text)->getBuffer().rtrim('\0');
  bool Ours = Magic.starts_with(Head);
  if (Ours && !Head.empty()) {
    bool Meta = false, Other = false;
    Expected<Database> D = Database::openImmutable(Out);
    Error E = D ? forEachRow(*D, "SELECT name FROM sqlite_master",
                             [&](const Statement &S) {
                               Meta |= S.text(0) == "meta";
                               Other = true;
                             })
                : D.takeError();
    consumeError(std::move(E)); // It is damaged.
    Ours = Meta || !Other;
  }
  if (Ours)
    return Error::success();
  return failure(Out + ": is no store, and was left as it is",
                 "name a new file: culprit kb build -o team.sqlite ISSUES.md");
}

Expected<BuildResult> buildStore(ArrayRef<std::string> Files, StringRef Out,
                                 const Vocabulary &V, StringRef Root) {
  if (Error E = checkTarget(Out))
    return E;
  OldStore Old = readOld(Out, V);
  bool Changed = !Old.IndexFits || Old.Files.size() != Files.size();
  std::vector<NewLog> Logs;
  for (const std::string &Path : Files) {
    ErrorOr<std::unique_ptr<MemoryBuffer>> Buffer = MemoryBuffer::getFile(Path);
    if (!Buffer)
      return failure(Path + ": " + Buffer.getError().message());
    NewLog L;
    L.Text = std::move(*Buffer);
    L.File.Path = relativePath(Path, Root);
    L.File.Hash = utohexstr(xxh3_64bits(L.Text->getBuffer()), true, 16);
    auto Same = find_if(Old.Files, [&](const LogFile &O) {
      return O.Path == L.File.Path && O.Hash == L.File.Hash;
    });
    if (Same != Old.Files.end())
      L.Same = static_cast<size_t>(Same - Old.Files.begin());
    Changed |= L.Same != Logs.size();
    Logs.push_back(std::move(L));
  }
  BuildResult Result;
  Result.Files = static_cast<unsigned>(Files.size());
  Result.Entries = Old.Entries;
  if (!Changed)
    return Result;

  fill(Logs, Old);
  Result.Entries = 0;
  std::vector<LogFile> New;
  for (NewLog &L : Logs) {
    Result.Parsed += !L.Same;
    Result.Entries += static_cast<unsigned>(L.File.Entries.size());
    append_range(Result.Remarks, L.Parsed.Remarks);
    New.push_back(std::move(L.File));
  }
  if (Error E = replaceStore(Out, New, V))
    return E;
  Result.Written = true;
  return Result;
}

} // namespace culprit
