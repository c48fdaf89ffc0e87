//===- KbSelect.cpp - Which entries a verb of kb is about -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "KB/MarkdownReader.h"
#include "KB/Store.h"
#include "KbVerbs.h"
#include "Knowledge.h"
#include "Settings.h"
#include "Support/Glob.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include <set>

using namespace llvm;

namespace culprit {

Expected<std::string> projectLog() {
  Expected<const Project *> P = project();
  if (!P)
    return P.takeError();
  for (const std::string &Path : (*P)->Kb)
    if (sys::path::extension(Path) == ".md" && !sys::fs::is_directory(Path))
      return Path;
  StringRef Folder = (*P)->Folder;
  if (Folder.empty() || Folder == ".")
    return std::string("ISSUES.md");
  return (Folder + "/ISSUES.md").str();
}

Expected<std::vector<std::string>> projectLogs() {
  Expected<const Project *> P = project();
  if (!P)
    return P.takeError();
  std::vector<std::string> Logs = (*P)->Kb;
  Expected<std::string> Log = projectLog();
  if (!Log)
    return Log.takeError();
  if (configFile() != "none" && !is_contained(Logs, *Log) &&
      sys::fs::is_regular_file(*Log))
    Logs.push_back(*Log);
  return Logs;
}

Error checkFilter(const Vocabulary &V) {
  const KbOptions &O = kbOptions();
  if (!O.Class.empty() && !V.rootCause(O.Class)) {
    std::string Close = V.closestClass(O.Class);
    return failure("--class: there is no class '" + O.Class + "'",
                   Close.empty() ? "'culprit list classes' names them all"
                                 : "did you mean '" + Close + "'?");
  }
  std::set<std::string> Layers;
  for (const ClassTerm &T : V.classes())
    Layers.insert(T.Layer);
  if (!O.Layer.empty() && !Layers.count(O.Layer)) {
    std::string Close = closestName(
        O.Layer, std::vector<std::string>(Layers.begin(), Layers.end()));
    return failure("--layer: there is no layer '" + O.Layer + "'",
                   (Close.empty() ? "" : "did you mean '" + Close + "'? ") +
                       std::string("one of ") + join(Layers, ", "));
  }
  return Error::success();
}

bool passesFilter(const Entry &E, const Vocabulary &V) {
  const KbOptions &O = kbOptions();
  if (!O.Class.empty() && E.Class != O.Class)
    return false;
  if (O.Layer.empty())
    return true;
  const ClassTerm *T = V.rootCause(E.Class);
  return T && T->Layer == O.Layer;
}

void noteShipped() {
  report({{Severity::Note, "no log of a project here: these are the entries "
                           "that culprit comes with",
           "name a log to read it instead"}});
}

/// Fails when -o is a log that is read from \p Paths: it would be lost.
static Error keepInputs(ArrayRef<std::string> Paths) {
  const std::string &Out = kbOptions().Output;
  if (!isIssuesLog(Out))
    return Error::success();
  for (const std::string &Path : Paths) {
    Expected<std::vector<std::string>> Files = expandLogs(Path);
    if (!Files) {
      consumeError(Files.takeError()); // Whoever reads it tells it.
      continue;
    }
    if (any_of(*Files, [&](const std::string &File) {
          return sys::fs::equivalent(File, Out);
        }))
      return failure(Out + ": is read, and was left as it is",
                     "name another file with -o");
  }
  return Error::success();
}

Expected<KbSelection> selectEntries(ArrayRef<std::string> Given) {
  const KbOptions &O = kbOptions();
  Expected<Vocabulary> V = openVocabulary();
  if (!V)
    return V.takeError();
  if (Error E = checkFilter(*V))
    return E;
  std::vector<std::string> Paths(Given.begin(), Given.end());
  Paths.insert(Paths.end(), O.Kb.begin(), O.Kb.end());
  if (Paths.empty()) {
    Expected<std::vector<std::string>> Logs = projectLogs();
    if (!Logs)
      return Logs.takeError();
    Paths = std::move(*Logs);
  }
  bool Shipped = Paths.empty();
  if (Shipped) {
    Expected<std::string> Home = homeFolder();
    if (!Home)
      return Home.takeError();
    std::string Store = *Home + "/kb.sqlite";
    Paths.push_back(sys::fs::exists(Store) ? Store : *Home + "/kb");
    noteShipped();
  }
  if (Error E = keepInputs(Paths))
    return E;
  Expected<KnowledgeBase> Base = KnowledgeBase::open(Paths, std::move(*V));
  if (!Base)
    return Base.takeError();
  report(Base->remarks());
  KbSelection Out{std::move(*Base), {}, Shipped};
  for (const Entry &E : Out.Base.entries())
    if (passesFilter(E, Out.Base.vocabulary()))
      Out.Entries.push_back(&E);
  return Out;
}

bool isIssuesLog(StringRef Path) {
  if (!sys::fs::is_regular_file(Path))
    return false;
  auto Text = MemoryBuffer::getFile(Path);
  return Text && looksLikeIssuesLog((*Text)->getBuffer().take_front(1 << 16));
}

int writeResult(StringRef Text) {
  const KbOptions &O = kbOptions();
  if (O.Output.empty() || O.Output == "-") {
    outs() << Text;
    return ExitDone;
  }
  std::error_code Code;
  raw_fd_ostream File(O.Output, Code);
  if (!Code) {
    File << Text;
    File.close();
    Code = File.error();
    File.clear_error();
  }
  if (Code)
    return report(failure(O.Output + ": " + Code.message()));
  return ExitDone;
}

} // namespace culprit
