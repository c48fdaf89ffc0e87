//===- PackageList.h - Output of pip freeze ---------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Reads `name==version` lines, as `pip freeze`, requirements.txt and W&B's
/// copy of it have them, and the table of `pip list`, into `packages`.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_PACKAGELIST_H
#define CULPRIT_READERS_PACKAGELIST_H

#include "Readers/Reader.h"
#include <optional>

namespace culprit {

class PackageListReader : public Reader {
public:
  llvm::StringRef name() const override { return "package list"; }
  llvm::StringRef about() const override {
    return "output of pip freeze or pip list, requirements.txt";
  }
  Match matches(const InputFile &File) const override;
  llvm::Error read(InputFile &File, Source &Into) const override;
};

/// One line of pip freeze: name==version, or name @ file:///...
struct PinnedPackage {
  llvm::StringRef Name, Version;
};
std::optional<PinnedPackage> pinnedPackage(llvm::StringRef Line);

} // namespace culprit

#endif // CULPRIT_READERS_PACKAGELIST_H
