//===- Knowledge.cpp --------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Knowledge.h"
#include "Commands.h"
#include "KbVerbs.h"
#include "Settings.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"

using namespace llvm;

namespace culprit {

Expected<Vocabulary> openVocabulary() {
  Expected<std::string> Home = homeFolder();
  if (!Home)
    return Home.takeError();
  Expected<Vocabulary> V = Vocabulary::load(*Home + "/kb");
  if (!V)
    return V;
  Expected<const Project *> P = project();
  if (!P)
    return P.takeError();
  if ((*P)->Symptoms.empty())
    return V;
  auto Text = MemoryBuffer::getFile((*P)->Symptoms, /*IsText=*/true);
  if (!Text)
    return failure((*P)->Symptoms + ": " + Text.getError().message());
  if (Error E = V->addSymptoms((*Text)->getBuffer(), (*P)->Symptoms))
    return E;
  return V;
}

/// Whether one of \p Paths is the file \p Log or the folder that it is in.
static bool covers(ArrayRef<std::string> Paths, StringRef Log) {
  StringRef Folder = sys::path::parent_path(Log);
  return any_of(Paths, [&](const std::string &Path) {
    return sys::fs::equivalent(Path, Log) ||
           sys::fs::equivalent(Path, Folder.empty() ? "." : Folder);
  });
}

Expected<KnowledgeBase> openForSearch(ArrayRef<std::string> More) {
  Expected<Vocabulary> V = openVocabulary();
  if (!V)
    return V.takeError();
  Expected<const Project *> P = project();
  if (!P)
    return P.takeError();
  Expected<std::vector<std::string>> Logs = projectLogs();
  if (!Logs)
    return Logs.takeError();
  std::vector<std::string> Paths(More.begin(), More.end());
  for (const std::string &Log : *Logs) {
    if (covers(Paths, Log))
      continue;
    bool Named = is_contained((*P)->Kb, Log);
    int File = -1;
    if (std::error_code Code = sys::fs::openFileForRead(Log, File);
        Code && !Named) {
      // Nobody asked for it by name: the search goes on without it.
      report(Diagnostic{Severity::Warning,
                        Log + ": " + Code.message() +
                            "; the project's own log is left out",
                        "make it readable, or pass --config none"});
      continue;
    }
    if (File >= 0)
      sys::Process::SafelyCloseFileDescriptor(File);
    if (Named || isIssuesLog(Log))
      Paths.push_back(Log);
  }
  std::string Home = cantFail(homeFolder());
  std::string Store = Home + "/kb.sqlite";
  Paths.push_back(sys::fs::exists(Store) ? Store : Home + "/kb");
  return KnowledgeBase::open(Paths, std::move(*V));
}

Expected<KnowledgeBase> openKnowledge(ArrayRef<std::string> More) {
  Expected<KnowledgeBase> KB = openForSearch(More);
  if (!KB)
    return KB;
  if (Error E = KB->load())
    return E;
  return KB;
}

} // namespace culprit
