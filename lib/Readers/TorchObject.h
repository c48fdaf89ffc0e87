//===- TorchObject.h - Tensors and settings of a torch file -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Walks the object that torch.save was given: tensors by the path of keys to
/// them, numbers and texts as settings. Whatever is a Python object and no
/// data is named; its attributes are walked all the same.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_TORCHOBJECT_H
#define CULPRIT_READERS_TORCHOBJECT_H

#include "Readers/ConfigRows.h"
#include "Readers/TensorRemarks.h"
#include "Readers/TorchArchive.h"
#include "Readers/TorchNames.h"
#include "Readers/TorchViews.h"
#include "llvm/ADT/DenseMap.h"
#include <map>

namespace culprit {

/// \p Value in as few digits as give it back.
std::string shortestText(double Value);

/// The walk through one file. Used once; not thread-safe.
class TorchObject {
public:
  /// \p Budget: bytes of tensors that may be looked at in all, for a file may
  /// name the same bytes any number of times.
  TorchObject(TorchArchive &Archive, Source &Into, uint64_t Budget)
      : Archive(Archive), Tree(Archive.tree()), Into(Into), Budget(Budget),
        Once(Tree), Skip(Into), Config(Into) {}

  /// Walks all of it. A single tensor has an empty name.
  std::vector<FoundTensor> read();

  /// The training step that the object tells: by its name, or where it tells
  /// the epoch alone, by the calls of a scheduler that every update has.
  std::optional<int64_t> step() const;
  std::optional<int64_t> epoch() const { return Epoch; }
  /// The most updates that an optimizer has counted, \p Tensors being what
  /// read() gave.
  std::optional<int64_t> updates(llvm::ArrayRef<FoundTensor> Tensors) const;
  /// Names of tensors that are the same as others, as far as they are kept.
  llvm::ArrayRef<std::string> otherNames() const { return OtherNames; }

private:
  /// A container that is being walked.
  struct Frame {
    llvm::ArrayRef<DataValue> Items;
    size_t Next = 0;
    size_t Path = 0;  ///< Length of the path to it.
    size_t Strip = 0; ///< Length of its beginning that names no module.
    bool Dict = false;
    bool Attributes = false; ///< Of a Python object.
    int Optimizer = -1;
    bool State = false;      ///< The dictionary of an optimizer's state.
    int64_t Parameter = -1;
    bool Average = false;    ///< Of an average of the weights.
  };

  void step(Frame &F);
  void enter(DataValue V, Frame Where);
  void enterObject(DataValue V, const Frame &Where);
  void enterList(DataValue V, Frame Where);
  void rebuild(llvm::StringRef Function, llvm::ArrayRef<DataValue> Arguments,
               DataValue V, const Frame &Where);
  void tensor(llvm::ArrayRef<DataValue> Arguments, bool Typed,
              const Frame &Where);
  void array(llvm::ArrayRef<DataValue> Made, const Frame &Where);
  void number(llvm::ArrayRef<DataValue> Arguments, const Frame &Where);
  void refuse(llvm::StringRef Name);
  void attributes(llvm::ArrayRef<DataValue> Made, const Frame &Where);
  void add(TensorView View, llvm::StringRef Storage, const Frame &Where);
  void setting(DataValue V, const Frame &Where);
  std::string textOf(DataValue V) const;
  bool spend(uint64_t Bytes, uint64_t Elements);
  void finish();

  TorchArchive &Archive;
  const DataTree &Tree;
  Source &Into;
  uint64_t Budget;
  DataTree::Once Once;
  SkippedTensors Skip;
  ConfigRows Config;

  std::vector<Frame> Frames;
  std::string Path;
  std::vector<FoundTensor> Found;
  std::vector<OptimizerNames> Optimizers;
  /// StepBelow stands in `meta` or in a history, and counts where no Step is.
  std::optional<int64_t> Step, StepBelow, Epoch;
  int64_t Scheduled = 0; ///< Calls of a scheduler.
  int64_t Counted = 0;   ///< Updates, by what is no tensor.
  /// Views that were met, so that a weight that two layers share is one row.
  std::map<std::string, size_t> Views;
  std::vector<std::string> Shared; ///< "a is b" of the first ones.
  size_t NumShared = 0;
  std::vector<std::string> OtherNames;
  std::vector<std::string> Refused;
  size_t Scalars = 0;
  unsigned Nesting = 0; ///< Of calls in calls.
};

} // namespace culprit

#endif // CULPRIT_READERS_TORCHOBJECT_H
