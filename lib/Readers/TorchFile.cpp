//===- TorchFile.cpp --------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/TorchFile.h"
#include "Case/TensorNames.h"
#include "Readers/TorchObject.h"
#include "Support/Pickle.h"
#include "Support/Units.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Path.h"

using namespace llvm;

namespace culprit {

/// The file .metadata of a distributed checkpoint.
static bool isDistributedMetadata(StringRef Head) {
  return isPickle(Head) &&
         Head.contains("torch.distributed.checkpoint.metadata");
}

Match TorchFileReader::matches(const InputFile &File) const {
  StringRef Head = File.head();
  return isTorchZip(Head) || isTorchStream(Head) || isDistributedMetadata(Head)
             ? Match::Certain
             : Match::No;
}

/// Names tensors that have none of their own: the only one of a file, those of
/// a list, and TransformerEngine's pair of high_precision and quantized.
static void nameByFile(std::vector<FoundTensor> &Found, StringRef File,
                       const TensorRecord &As) {
  DumpPath Told = splitDumpPath(File);
  std::string Base = As.Name.empty() ? Told.Name : As.Name;
  StringRef Stem = sys::path::stem(File);
  std::optional<EngineName> Engine = engineName(Stem);
  for (FoundTensor &T : Found) {
    TensorRecord &R = T.Record;
    StringRef Key = R.Name;
    const bool Nameless = all_of(Key, [](char C) {
      return isDigit(C) || C == '.';
    });
    const bool Pair = Key == "high_precision" || Key == "quantized";
    if (Key.empty() || Pair)
      R.Order.reset(); // a file a tensor: the order is that of the files
    if (Pair && Engine) {
      R.Name = (Engine->Layer + "." + Engine->Tensor + "." + Key).str();
      R.Layer = Engine->Layer.str();
      R.Role = Engine->Role.str();
      R.Step = Engine->Step;
    } else if (Nameless || Pair) {
      R.Name = Key.empty() ? Base : (Base + "." + Key).str();
      T.Path.clear(); // the layer comes from the whole name
      R.Layer = As.Layer;
      R.Role = As.Role;
    }
  }
}

Error readTorchFile(StringRef Bytes, const TensorRecord &As, Source &Into) {
  Expected<TorchArchive> Archive = TorchArchive::open(Bytes, Into);
  if (!Archive)
    return Archive.takeError();
  // A real file names its bytes once or twice; an expanded view is small.
  const uint64_t Budget = (uint64_t(1) << 30) + 16 * uint64_t(Bytes.size());
  TorchObject Object(*Archive, Into, Budget);
  std::vector<FoundTensor> Found = Object.read();
  nameByFile(Found, Into.path(), As);
  if (!As.Step && !Object.step()) {
    Into.Epoch = Object.epoch();
    Into.Updates = Object.updates(Found);
    std::optional<int64_t> Told = splitDumpPath(Into.path()).Step;
    // DINO's checkpoint0003.pth and timm's checkpoint-3.pth.tar.
    Into.NamedByEpoch = Told && Into.Epoch &&
                        (*Told == *Into.Epoch || *Told == *Into.Epoch + 1);
  }

  StringSet<> Checked;
  for (FoundTensor &T : Found) {
    TensorRecord &R = T.Record;
    if (As.Order)
      R.Order = As.Order;
    if (As.Step)
      R.Step = As.Step;
    else if (!R.Step)
      R.Step = Object.step();
    if (As.Rank)
      R.Rank = As.Rank;
    std::string Name = R.Name;
    const TensorStatistics S = Into.addTensor(std::move(R));
    // A checksum takes as long as the statistics, so only values that are
    // suspect pay for it: damage of the file shows as NaN first.
    if (S.NaN + S.Inf != 0 && !T.Storage.empty() &&
        Checked.insert(T.Storage).second && Archive->damaged(T.Storage))
      Into.warn(Into.path() + ": the checksum of the data of '" +
                    printableName(Name) + "' does not hold, so its " +
                    formatCount(S.NaN + S.Inf) +
                    " values that are not finite may be damage of the file",
                "copy the file again before you trust them");
  }
  return Error::success();
}

Error TorchFileReader::read(InputFile &File, Source &Into) const {
  const bool Metadata = isDistributedMetadata(File.head());
  if (Metadata || File.path().ends_with(".distcp"))
    return failure(File.path() +
                       (Metadata ? ": the names of a distributed checkpoint, "
                                   "whose data are in the .distcp files beside "
                                   "it"
                                 : ": a piece of a distributed checkpoint, "
                                   "whose names are in the file .metadata "
                                   "beside it"),
                   "convert the folder: python -m "
                   "torch.distributed.checkpoint.format_utils dcp_to_torch "
                   "FOLDER out.pt");
  Expected<StringRef> Contents = File.contents();
  if (!Contents)
    return Contents.takeError();
  return readTorchFile(*Contents, TensorRecord(), Into);
}

} // namespace culprit
