//===- Fields.h - The searched fields of an entry ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// What of an entry is searched, field by field.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_KB_FIELDS_H
#define CULPRIT_KB_FIELDS_H

#include "KB/Entry.h"
#include "KB/Vocabulary.h"
#include "llvm/ADT/StringRef.h"
#include <array>
#include <string>

namespace culprit {

struct Field {
  llvm::StringRef Name; ///< The column of the index.
  double Weight;
  double Fails;
  double Works;
};

inline constexpr Field Fields[] = {
#define KB_FIELD(Name, Weight, Fails, Works) {#Name, Weight, Fails, Works},
#include "KB/Fields.def"
};
inline constexpr unsigned NumFields = std::size(Fields);

/// The text of each field of \p E. Signals and the class are given in the
/// words of \p V.
std::array<std::string, NumFields> fieldTexts(const Entry &E,
                                              const Vocabulary &V);

} // namespace culprit

#endif // CULPRIT_KB_FIELDS_H
