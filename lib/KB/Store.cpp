//===- Store.cpp ------------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/Store.h"
#include "KB/AtomicFile.h"
#include "KB/MarkdownReader.h"
#include "KB/StoreFormat.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/xxhash.h"

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

/// The store that is there, if it is one that can be taken over from.
static StoreContent readOld(StringRef Path, const Vocabulary &V) {
  StoreContent Old;
  if (!sys::fs::exists(Path))
    return Old;
  Expected<Database> D = Database::openImmutable(Path);
  if (!D) {
    consumeError(D.takeError());
    return Old;
  }
  Expected<StoreContent> Content = readStore(*D, Path, /*WithIndex=*/true);
  if (!Content) {
    consumeError(Content.takeError());
    return Old;
  }
  if (Content->AnalyzerHash != analyzerHash(V)) {
    for (LogFile &F : Content->Files)
      F.Index.clear();
    Content->AnalyzerHash.clear();
  }
  return std::move(*Content);
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

Expected<BuildResult> buildStore(ArrayRef<std::string> Files, StringRef Out,
                                 const Vocabulary &V, StringRef Root) {
  StoreContent Old = readOld(Out, V);
  BuildResult Result;
  std::vector<LogFile> New;
  bool Changed = Old.AnalyzerHash.empty() || Old.Files.size() != Files.size();
  for (const std::string &Path : Files) {
    ErrorOr<std::unique_ptr<MemoryBuffer>> Buffer = MemoryBuffer::getFile(Path);
    if (!Buffer)
      return failure(Path + ": " + Buffer.getError().message());
    LogFile F;
    F.Path = relativePath(Path, Root);
    StringRef Text = (*Buffer)->getBuffer();
    F.Hash = utohexstr(xxh3_64bits(Text), true, 16);
    auto Same = find_if(Old.Files, [&](const LogFile &O) {
      return O.Path == F.Path && O.Hash == F.Hash;
    });
    if (Same != Old.Files.end()) {
      Changed |= static_cast<size_t>(Same - Old.Files.begin()) != New.size();
      F = *Same; // Not moved: a file may be named twice.
    } else {
      Changed = true;
      ++Result.Parsed;
      MarkdownLog Log = readMarkdown(Text, F.Path);
      if (Log.Entries.empty())
        Log.Remarks.push_back(noEntry(F.Path));
      F.Entries = std::move(Log.Entries);
      append_range(Result.Remarks, Log.Remarks);
    }
    ++Result.Files;
    Result.Entries += F.Entries.size();
    New.push_back(std::move(F));
  }
  if (!Changed)
    return Result;
  if (Error E = replaceStore(Out, New, V))
    return E;
  Result.Written = true;
  return Result;
}

} // namespace culprit
