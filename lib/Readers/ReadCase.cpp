//===- ReadCase.cpp - From paths to a case ----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/AccessLog.h"
#include "Readers/Capture.h"
#include "Readers/CaseTables.h"
#include "Readers/CheckpointSteps.h"
#include "Readers/CollectEnv.h"
#include "Readers/ConfigDiff.h"
#include "Readers/CounterCsv.h"
#include "Readers/CsvScalars.h"
#include "Readers/DebugMode.h"
#include "Readers/Documents.h"
#include "Readers/FileParts.h"
#include "Readers/FlightRecorder.h"
#include "Readers/GenerationRecords.h"
#include "Readers/Gguf.h"
#include "Readers/JsonConfig.h"
#include "Readers/JsonLines.h"
#include "Readers/KeyValueConfig.h"
#include "Readers/LaunchScript.h"
#include "Readers/KinetoTrace.h"
#include "Readers/MemorySnapshot.h"
#include "Readers/MemoryTimeline.h"
#include "Readers/MergesFile.h"
#include "Readers/MlflowStore.h"
#include "Readers/ModelSettings.h"
#include "Readers/Msprobe.h"
#include "Readers/NsightSystems.h"
#include "Readers/NumericsLog.h"
#include "Readers/Npy.h"
#include "Readers/Npz.h"
#include "Readers/PackageList.h"
#include "Readers/Prometheus.h"
#include "Readers/Reader.h"
#include "Readers/SafeTensors.h"
#include "Readers/SentencePiece.h"
#include "Readers/ShardIndex.h"
#include "Readers/StackDump.h"
#include "Readers/TensorBoardEvents.h"
#include "Readers/TextLog.h"
#include "Readers/TokenizerFile.h"
#include "Readers/TorchFile.h"
#include "Readers/TrainerState.h"
#include "Readers/TransformerEngine.h"
#include "Readers/VocabularyList.h"
#include "Readers/WandbFile.h"
#include "Readers/YamlConfig.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/ThreadPool.h"
#include <set>

using namespace llvm;

namespace culprit {

ArrayRef<const Reader *> readers() {
  // Function-local: nothing is constructed before main.
#define READER(Name) static const Name##Reader The##Name;
#include "Readers/Readers.def"
  static const Reader *const All[] = {
#define READER(Name) &The##Name,
#include "Readers/Readers.def"
  };
  return All;
}

/// Appends the regular files under \p Path to \p Files, in name order.
/// Hidden files and folders (.git, .ipynb_checkpoints) are nobody's evidence,
/// but for .hydra, which has the settings, and .summary of sample-factory; and
/// the expected.json beside a recorded case is the answer, not a clue. \p Seen
/// keeps links from leading in circles or to a file twice.
static void walk(StringRef Path, std::set<sys::fs::UniqueID> &Seen,
                 std::vector<std::string> &Files) {
  std::vector<std::string> Entries;
  std::error_code EC;
  for (sys::fs::directory_iterator It(Path, EC), End; It != End && !EC;
       It.increment(EC))
    if (StringRef Name = sys::path::filename(It->path());
        (!Name.starts_with(".") || Name == ".hydra" || Name == ".summary") &&
        Name != "expected.json")
      Entries.push_back(It->path());
  llvm::sort(Entries);
  for (const std::string &Entry : Entries) {
    sys::fs::file_status Status;
    if (sys::fs::status(Entry, Status))
      continue;
    if (!Seen.insert(Status.getUniqueID()).second)
      continue;
    if (sys::fs::is_directory(Status))
      walk(Entry, Seen, Files);
    else if (sys::fs::is_regular_file(Status))
      Files.push_back(Entry);
  }
}

static const Reader *readerFor(const InputFile &File) {
  const Reader *Best = nullptr;
  Match BestMatch = Match::No;
  for (const Reader *R : readers()) {
    Match M = R->matches(File);
    if (M > BestMatch) {
      Best = R;
      BestMatch = M;
    }
  }
  return Best;
}

/// Of a file that is not what it is named as: a reader whose files end so.
static const Reader *promisedReader(StringRef Path) {
  for (const Reader *R : readers()) {
    SmallVector<StringRef, 4> Endings;
    R->endings().split(Endings, ' ', -1, /*KeepEmpty=*/false);
    if (is_contained(Endings, sys::path::extension(Path)))
      return R;
  }
  return nullptr;
}

/// Nobody knows the file. It is listed as unknown, never guessed, unless it is
/// clear that something else should be there.
static Error unknownFile(const InputFile &File) {
  if (File.head().starts_with("version https://git-lfs"))
    return failure(File.path() + ": a pointer of Git LFS stands in its place",
                   "fetch the file itself: git lfs pull");
  if (const Reader *R = promisedReader(File.path()))
    return failure(File.path() + ": its name says " + R->name() +
                       ", its content does not",
                   "copy it again from where it was written, or leave it out");
  return Error::success();
}

/// Reads one file into \p S. The file stays open as long as the case: tensors
/// point into its map.
static Error readOne(Source &S) {
  Expected<std::unique_ptr<InputFile>> File = InputFile::open(S.path());
  if (!File)
    return File.takeError();
  std::shared_ptr<InputFile> Shared(std::move(*File));
  if (Shared->diskSize() == 0)
    return failure(S.path() + ": the file is empty",
                   "nothing was recorded into it; record again or leave it "
                   "out");
  const Reader *R = readerFor(*Shared);
  if (!R)
    return unknownFile(*Shared);
  S.Format = R->name().str();
  Error E = R->read(*Shared, S);
  if (!Shared->truncation().empty())
    S.warn(S.path() + ": " + Shared->truncation(),
           "what came before the break was read; copy the file again to get "
           "the rest");
  if (!S.tensors().empty())
    S.keepAlive(Shared);
  return E;
}

Expected<Case> readCase(ArrayRef<std::string> Paths, unsigned Threads,
                        TensorDetail Detail) {
  std::vector<std::string> Files;
  std::set<sys::fs::UniqueID> Seen;
  for (const std::string &Path : Paths) {
    sys::fs::file_status Status;
    if (std::error_code EC = sys::fs::status(Path, Status)) {
      if (Paths.size() == 1)
        return failure(Path + ": " + EC.message(),
                       "give a file or a folder that a run left behind");
      Files.push_back(Path); // becomes an input that could not be read
      continue;
    }
    if (!Seen.insert(Status.getUniqueID()).second)
      continue;
    if (sys::fs::is_directory(Status))
      walk(Path, Seen, Files);
    else
      Files.push_back(Path);
  }

  if (Files.empty())
    return failure(Paths.front() + ": holds no file",
                   "give the folder that the run wrote to, or check that its "
                   "files may be read");
  Files = withParts(std::move(Files));

  CaseBuilder Builder;
  std::vector<std::unique_ptr<Source>> Sources;
  std::vector<std::optional<Error>> Errors(Files.size());
  for (const std::string &File : Files)
    Sources.push_back(std::make_unique<Source>(File, Builder.pool()));
  for (std::unique_ptr<Source> &S : Sources) {
    S->Summarize = Detail == TensorDetail::Statistics;
    S->Threads = std::max(1u, unsigned(Threads / Files.size()));
  }
  if (Threads <= 1 || Files.size() <= 1) {
    for (size_t I = 0; I != Files.size(); ++I)
      Errors[I].emplace(readOne(*Sources[I]));
  } else {
    DefaultThreadPool Pool(hardware_concurrency(Threads));
    for (size_t I = 0; I != Files.size(); ++I)
      Pool.async([&, I] { Errors[I].emplace(readOne(*Sources[I])); });
    Pool.wait();
  }
  tellCheckpointSteps(Sources);
  for (size_t I = 0; I != Files.size(); ++I)
    Builder.add(std::move(Sources[I]), std::move(*Errors[I]));
  return Builder.build();
}

} // namespace culprit
