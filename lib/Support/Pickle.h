//===- Pickle.h - Plain data out of a pickle --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Reads pickles of protocol 0 to 5 that hold data: dictionaries, lists,
/// tuples, sets, texts, bytes and numbers. A pickle is a program for a stack
/// machine that may call any Python function; this machine calls none. A name
/// of code is refused by its name, except for the few that stand for data
/// (OrderedDict, defaultdict, set, frozenset, bytearray and how protocol 2
/// spells bytes) and those the caller understands.
///
/// Every input ends after a time and within memory that are proportional to
/// its size: nesting takes no call stack, a list named a thousand times is
/// held once, lengths are compared with what is left before anything is
/// allocated, and data that contain themselves are refused.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_SUPPORT_PICKLE_H
#define CULPRIT_SUPPORT_PICKLE_H

#include "Support/DataTree.h"

namespace culprit {

struct PickleOptions {
  /// Names of code the caller understands: "torch._utils._rebuild_tensor_v2".
  /// A call of one becomes an Object, the name alone a Global.
  llvm::ArrayRef<llvm::StringRef> Globals;
  /// Take persistent ids, which torch.save has for storages, as Objects whose
  /// items are None and the id.
  bool PersistentIds = false;
  /// Take every name of code like the ones in Globals. Nothing is run by that;
  /// the caller says what is no data, and what surrounds it is read. An object
  /// that would contain itself loses what it had inside.
  bool AnyGlobal = false;
  /// If set, where the pickle ended, in bytes.
  uint64_t *Read = nullptr;
};

/// Whether \p Head may begin a pickle of protocol 2 or later.
bool isPickle(llvm::StringRef Head);

/// Reads the first pickle in \p Bytes, which must outlive the tree. One that
/// breaks off gives what came before, see DataTree::truncation(), if at least
/// its outermost container has begun.
llvm::Expected<DataTree> readPickle(llvm::StringRef Bytes,
                                    const PickleOptions &Options = {});

} // namespace culprit

#endif // CULPRIT_SUPPORT_PICKLE_H
