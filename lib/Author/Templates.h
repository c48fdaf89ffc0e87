//===- Templates.h - Detectors to begin with --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// A small detector for each table that people begin with, and its cases. In
/// the texts @SYMPTOM@ stands for the symptom; in those of the template for
/// any other table also @TABLE@, @COLUMN@ and @VALUE@.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_AUTHOR_TEMPLATES_H
#define CULPRIT_AUTHOR_TEMPLATES_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace culprit {

struct DetectorTemplate {
  llvm::StringRef Table;
  llvm::StringRef Symptom; ///< What it reports if nothing else is asked for.
  llvm::StringRef Detects; ///< For the doc comment: its rule,
  llvm::StringRef Alike;   ///< and what looks like it and is well.
  llvm::StringRef Lua;     ///< The table that it returns, from `api` on.
  llvm::StringRef Test;    ///< Comment and cases.
};

/// The first one is that of no table in particular.
llvm::ArrayRef<DetectorTemplate> detectorTemplates();

} // namespace culprit

#endif // CULPRIT_AUTHOR_TEMPLATES_H
