//===- TorchArchive.h - What torch.save wrote, opened -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// A file of torch.save is a pickle of the object and, beside it, the bytes
/// of its storages, which the pickle names by key. Since PyTorch 1.6 both are
/// members of a zip archive (stem/data.pkl, stem/data/0, ...); before, they
/// followed one another in a stream. Bytes of storages are views of the file
/// unless somebody compressed the archive.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_TORCHARCHIVE_H
#define CULPRIT_READERS_TORCHARCHIVE_H

#include "Case/Source.h"
#include "Readers/Zip.h"
#include "Support/DataTree.h"
#include "llvm/ADT/StringMap.h"

namespace culprit {

/// The number format of a storage or a tensor.
struct TorchType {
  DType Type;
  bool Complex = false; ///< Two numbers of Type an element.
  unsigned size() const { return sizeOf(Type) << unsigned(Complex); }
};

/// The type behind a name of code: torch.FloatStorage, torch.bfloat16. None
/// for torch.storage.UntypedStorage, which is bytes, and for what is no type.
std::optional<TorchType> torchTypeOf(llvm::StringRef Name);

/// A storage as a persistent id of the pickle names it.
struct TorchStorage {
  llvm::StringRef Type; ///< torch.FloatStorage, ...
  llvm::StringRef Key;
  uint64_t Elements = 0; ///< Of its type; bytes, when it is untyped.
  uint64_t Offset = 0;   ///< Elements to skip; only the old format has it.
};

/// The storage that \p V is, if it is one.
std::optional<TorchStorage> torchStorageOf(const DataTree &Tree, DataValue V);

/// Whether \p Head may begin a file of torch.save, of either format.
bool isTorchZip(llvm::StringRef Head);
bool isTorchStream(llvm::StringRef Head);

/// One file. Views of the bytes it was opened with; a buffer, where one is
/// needed, is given to the source to keep. Not thread-safe.
class TorchArchive {
public:
  /// Reads the pickle in \p Bytes. Messages begin with the path of \p Into.
  static llvm::Expected<TorchArchive> open(llvm::StringRef Bytes,
                                           Source &Into);

  const DataTree &tree() const { return *Tree; }

  /// All bytes of the storage \p Key. An error does not name the tensor.
  llvm::Expected<llvm::StringRef> storage(llvm::StringRef Key);

  /// Whether the storage \p Key, handed out before, has a checksum that does
  /// not hold. Reads all of it.
  bool damaged(llvm::StringRef Key) const;

private:
  TorchArchive(llvm::StringRef Bytes, Source &Into)
      : Bytes(Bytes), Into(&Into) {}

  llvm::Error openZip();
  llvm::Error openStream();

  /// The file of torch.save that an archive of pytorch-tabnet has beside its
  /// settings; of one level.
  const ZipMember *innerArchive() const;
  llvm::Error openInner(const ZipMember &Member);

  llvm::Error listStorages(llvm::StringRef Rest);

  llvm::StringRef Bytes;
  Source *Into;
  std::unique_ptr<DataTree> Tree;
  std::vector<ZipMember> Members;
  std::vector<bool> Overlaps;
  llvm::StringMap<size_t> MemberOf;           ///< By key.
  llvm::StringMap<llvm::StringRef> Contents;  ///< By key, once looked at.
  uint64_t Unpacked = 0;
  bool Nested = false; ///< Bytes are those of a member of the file.
};

} // namespace culprit

#endif // CULPRIT_READERS_TORCHARCHIVE_H
