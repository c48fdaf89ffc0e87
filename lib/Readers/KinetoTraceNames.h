//===- KinetoTraceNames.h - What the names of a trace mean ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// A million events have a few hundred names. What a name means is found out
/// when it is first met, under its raw text: later look-ups neither decode nor
/// lock nor match.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_KINETOTRACENAMES_H
#define CULPRIT_READERS_KINETOTRACENAMES_H

#include "Table/Column.h"
#include "Table/StringPool.h"
#include "llvm/ADT/StringMap.h"

namespace culprit::kineto {

/// What a name means to the table that it is for.
struct NameInfo {
  StringId Id = NullString;
  StringId Role = NullString;     ///< Of a kernel or a call.
  StringId Kind = NullString;     ///< Of a copy.
  StringId Source = NullString;   ///< Memory, likewise.
  StringId Target = NullString;   ///< Memory, also of a set.
  StringId Op = NullString;       ///< Of a collective.
  StringId Category = NullString; ///< Of a range; none for an annotation.
  int64_t Step = NullInt;
  bool Ready = false;
  bool Collective = false; ///< A communication kernel.
  bool RangeOnly = false;  ///< A range, whatever category recorded it.
  bool OnHost = false;     ///< A collective of a backend without kernels.
  bool Loader = false;     ///< A Python frame that fetches a batch.
};

/// One thread at a time.
class NameBook {
public:
  explicit NameBook(StringPool &Pool) : Pool(Pool) {}

  // The name as the file has it, escapes and all.
  const NameInfo &kernel(llvm::StringRef Raw);
  const NameInfo &copy(llvm::StringRef Raw);
  const NameInfo &call(llvm::StringRef Raw);
  const NameInfo &host(llvm::StringRef Raw);
  StringId text(llvm::StringRef Raw);
  /// A list as text, on one line whatever the layout of the file.
  StringId list(llvm::StringRef Raw);

private:
  StringId intern(llvm::StringRef Text) {
    return Text.empty() ? NullString : Pool.intern(Text);
  }

  StringPool &Pool;
  llvm::StringMap<NameInfo> Kernels, Copies, Calls, Hosts;
  llvm::StringMap<StringId> Texts, Lists;
};

} // namespace culprit::kineto

#endif // CULPRIT_READERS_KINETOTRACENAMES_H
