//===- ShardIndex.cpp -------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/ShardIndex.h"
#include "Readers/ConfigRows.h"
#include "Readers/SafeTensors.h"
#include "Readers/TensorRemarks.h"
#include "Readers/TorchObject.h"
#include "Readers/TreeFile.h"
#include "Support/Units.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include <map>

using namespace llvm;

namespace culprit {

using Kind = DataValue::Kind;

Match ShardIndexReader::matches(const InputFile &File) const {
  return isJsonObject(File.head()) && File.head().contains("\"weight_map\"")
             ? Match::Certain
             : Match::No;
}

/// The file \p Name beside the index at \p Index. A name may not lead out of
/// the folder.
static std::string shardPath(StringRef Index, StringRef Name) {
  SmallString<128> Out(sys::path::parent_path(Index));
  sys::path::append(Out, sys::path::filename(Name));
  return Out.str().str();
}

std::vector<std::string> shardsOf(StringRef Path) {
  std::vector<std::string> Out;
  Expected<std::unique_ptr<InputFile>> File = InputFile::open(Path);
  if (!File) {
    consumeError(File.takeError());
    return Out;
  }
  if (ShardIndexReader().matches(**File) == Match::No)
    return Out;
  StringPool Pool;
  Source Scratch(Path.str(), Pool);
  Expected<DataTree> Tree = readTreeFile(**File, Scratch);
  if (!Tree) {
    consumeError(Tree.takeError());
    return Out;
  }
  ArrayRef<DataValue> Pairs =
      Tree->items(Tree->find(Tree->root(), "weight_map"));
  for (size_t I = 1; I < Pairs.size(); I += 2)
    if (StringRef Name = Tree->text(Pairs[I]); !Name.empty())
      Out.push_back(shardPath(Path, Name));
  llvm::sort(Out);
  Out.erase(llvm::unique(Out), Out.end());
  llvm::erase_if(Out, [](const std::string &Shard) {
    return !sys::fs::is_regular_file(Shard);
  });
  return Out;
}

namespace {
/// What the shards hold, by the name of the tensor.
struct Shards {
  StringMap<SmallVector<StringRef, 1>> Holds; ///< Names of shards.
  uint64_t Bytes = 0;
  bool Shared = false; ///< A shard of torch.save has a tensor twice.
  std::vector<std::string> Missing, Broken;
};
} // namespace

/// Adds what the shard \p Name at \p Path holds. Its own reader says what is
/// wrong in it.
static void addShard(StringRef Name, const std::string &Path, Shards &Out) {
  if (!sys::fs::is_regular_file(Path)) {
    Out.Missing.push_back(Name.str());
    return;
  }
  const auto Broken = [&](Error E) {
    consumeError(std::move(E));
    Out.Broken.push_back(Name.str());
  };
  Expected<std::unique_ptr<InputFile>> File = InputFile::open(Path);
  if (!File)
    return Broken(File.takeError());
  Expected<StringRef> Bytes = (*File)->contents();
  if (!Bytes)
    return Broken(Bytes.takeError());
  if (!isTorchZip(*Bytes) && !isTorchStream(*Bytes)) {
    std::vector<NamedBytes> Names = safeTensorNames(*Bytes);
    if (Names.empty())
      return Broken(Error::success());
    for (const NamedBytes &T : Names) {
      Out.Holds[T.Name].push_back(Name);
      Out.Bytes += T.Bytes;
    }
    return;
  }
  StringPool Pool;
  Source Scratch(Path, Pool);
  Expected<TorchArchive> Archive = TorchArchive::open(*Bytes, Scratch);
  if (!Archive)
    return Broken(Archive.takeError());
  TorchObject Object(*Archive, Scratch, (uint64_t(1) << 30) + Bytes->size());
  for (const FoundTensor &T : Object.read()) {
    Out.Holds[T.Record.Name].push_back(Name);
    Out.Bytes += T.Record.Data.Bytes.size();
  }
  for (const std::string &Other : Object.otherNames()) {
    Out.Holds[Other].push_back(Name);
    Out.Shared = true;
  }
}

/// "a, b and 3 more"
static std::string some(ArrayRef<std::string> Names) {
  constexpr size_t Most = 3;
  std::string Out;
  for (const std::string &Name : Names.take_front(Most))
    Out += (Out.empty() ? "" : ", ") + printableName(Name);
  if (Names.size() > Most)
    Out += " and " + utostr(Names.size() - Most) + " more";
  return Out;
}

Error ShardIndexReader::read(InputFile &File, Source &Into) const {
  Expected<DataTree> Tree = readTreeFile(File, Into);
  if (!Tree)
    return Tree.takeError();
  const std::string &Path = Into.path();
  DataValue Map = Tree->find(Tree->root(), "weight_map");
  ArrayRef<DataValue> Pairs = Tree->items(Map);
  if (!Tree->is(Map, Kind::Dict) || Pairs.empty())
    return failure(Path + ": its weight_map names no tensor",
                   "save the checkpoint again");

  Shards Found;
  std::map<StringRef, size_t> Wanted; // tensors by shard
  for (size_t I = 0; I + 1 < Pairs.size(); I += 2)
    ++Wanted[Tree->text(Pairs[I + 1])];
  for (const auto &[Name, Count] : Wanted)
    addShard(Name, shardPath(Path, Name), Found);

  size_t Lost = 0;
  std::vector<std::string> Elsewhere, Nowhere, Unnamed, Twice;
  StringMap<char> Named;
  for (size_t I = 0; I + 1 < Pairs.size(); I += 2) {
    StringRef Tensor = Tree->text(Pairs[I]), Shard = Tree->text(Pairs[I + 1]);
    Named.try_emplace(Tensor);
    auto It = Found.Holds.find(Tensor);
    if (It != Found.Holds.end() && is_contained(It->second, Shard))
      continue;
    if (It != Found.Holds.end())
      Elsewhere.push_back((Tensor + " (in " + It->second.front() +
                           ", not in " + Shard + ")")
                              .str());
    else if (is_contained(Found.Missing, Shard) ||
             is_contained(Found.Broken, Shard))
      ++Lost;
    else
      Nowhere.push_back(Tensor.str());
  }
  for (const auto &Entry : Found.Holds) {
    if (!Named.contains(Entry.first()))
      Unnamed.push_back(Entry.first().str());
    if (Entry.second.size() > 1)
      Twice.push_back(Entry.first().str());
  }
  llvm::sort(Unnamed);
  llvm::sort(Twice);

  constexpr StringLiteral Again("copy the checkpoint again, or save it again; "
                                "a loader leaves such weights as they were "
                                "initialized");
  const auto Tensors = [](size_t Count) {
    return formatCount(static_cast<int64_t>(Count)) +
           (Count == 1 ? " tensor" : " tensors");
  };
  if (!Found.Missing.empty() || !Found.Broken.empty()) {
    std::string What;
    if (!Found.Missing.empty())
      What = "missing: " + some(Found.Missing);
    if (!Found.Broken.empty())
      What += (What.empty() ? "" : "; ") +
              ("cannot be read: " + some(Found.Broken));
    Into.warn(formatv("{0}: of {1} shards some are lost ({2}), and with them "
                      "{3}",
                      Path, Wanted.size(), What, Tensors(Lost)),
              Again);
  }
  if (!Elsewhere.empty())
    Into.warn(formatv("{0}: {1} {2} in another shard than it says: {3}", Path,
                      Tensors(Elsewhere.size()),
                      Elsewhere.size() == 1 ? "is" : "are", some(Elsewhere)),
              Again);
  if (!Nowhere.empty())
    Into.warn(formatv("{0}: {1} that it names {2} in no shard: {3}", Path,
                      Tensors(Nowhere.size()),
                      Nowhere.size() == 1 ? "is" : "are", some(Nowhere)),
              Again);
  if (!Unnamed.empty())
    Into.warn(formatv("{0}: {1} of the shards {2} not in it: {3}", Path,
                      Tensors(Unnamed.size()),
                      Unnamed.size() == 1 ? "is" : "are", some(Unnamed)),
              Again);
  if (!Twice.empty())
    Into.warn(formatv("{0}: {1} in more than one shard: {2}", Path,
                      Tensors(Twice.size()), some(Twice)),
              "shards of two checkpoints in one folder? remove the old ones");

  ConfigRows Config(Into);
  DataValue Total =
      Tree->find(Tree->find(Tree->root(), "metadata"), "total_size");
  std::optional<double> Size = Tree->number(Total);
  if (Size)
    Config.add("total_size", shortestText(*Size), 1);
  Config.add("shards", utostr(Wanted.size()), 1);
  Config.add("tensors", utostr(Pairs.size() / 2), 1);
  if (Size && Found.Missing.empty() && Found.Broken.empty() &&
      !Found.Shared && *Size != static_cast<double>(Found.Bytes))
    Into.warn(formatv("{0}: says {1} bytes of tensors in all, and its shards "
                      "hold {2}",
                      Path, shortestText(*Size), Found.Bytes),
              "some shard is of another checkpoint, or the index is old; save "
              "the checkpoint again");
  return Error::success();
}

} // namespace culprit
