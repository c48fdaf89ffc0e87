//===- MarkdownCell.h - Names inside markdown tables ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// What both printers of comparisons need to put a name into a table.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_COMPARE_MARKDOWNCELL_H
#define CULPRIT_COMPARE_MARKDOWNCELL_H

#include "llvm/ADT/StringRef.h"
#include <string>

namespace culprit {

/// \p Text with its bars, markup and line breaks kept from the table around
/// it.
std::string markdownCell(llvm::StringRef Text);

} // namespace culprit

#endif // CULPRIT_COMPARE_MARKDOWNCELL_H
