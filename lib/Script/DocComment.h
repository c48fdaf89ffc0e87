//===- DocComment.h - What a detector says of itself ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// The comment at the top of a detector, which `culprit explain` prints.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_SCRIPT_DOCCOMMENT_H
#define CULPRIT_SCRIPT_DOCCOMMENT_H

#include "Detect/Detector.h"

namespace culprit {

/// The doc comment of \p Source: the lines before the code that begin with
/// `--- `, cut at the headings `## `.
std::vector<DocSection> readDoc(llvm::StringRef Source);

} // namespace culprit

#endif // CULPRIT_SCRIPT_DOCCOMMENT_H
