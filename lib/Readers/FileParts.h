//===- FileParts.h - Files that belong to another ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Some formats are several files. The index of a sharded checkpoint names
/// its shards, which are read like any file; so giving the index is enough.
/// The dump.json of msprobe knows the order of the tensors beside it and is
/// read together with them.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_FILEPARTS_H
#define CULPRIT_READERS_FILEPARTS_H

#include <string>
#include <vector>

namespace culprit {

/// \p Files with the shards of each index behind it, where they are not among
/// them, and without the tensors that an msprobe dump among them reads itself.
std::vector<std::string> withParts(std::vector<std::string> Files);

} // namespace culprit

#endif // CULPRIT_READERS_FILEPARTS_H
