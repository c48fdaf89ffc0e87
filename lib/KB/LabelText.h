//===- LabelText.h - Labels of sections in running text ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Finds `**Symptom**: ...` and what people write instead of it.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_KB_LABELTEXT_H
#define CULPRIT_KB_LABELTEXT_H

#include "llvm/ADT/StringRef.h"
#include <optional>
#include <string>

namespace culprit {

struct MarkdownNode;

/// A label that a line of text begins with.
struct LabelText {
  std::string Name; ///< Without emphasis and colon.
  std::string Rest; ///< What its own nodes hold beyond it.
  unsigned Nodes = 1;
  bool Strong = false; ///< Whether it is emphasised.
};

/// What is known of the file and the place when a label is looked for.
struct LabelContext {
  /// Sections are emphasised in this file, so that plain words with a colon
  /// are text.
  bool UsesStrong = false;
  bool InItem = false;
  /// Items of lists may be sections.
  bool ItemLabels = false;
  bool HasEntry = false;
  /// Text goes to a section that was understood.
  bool InSection = false;
};

/// The label that the inline \p N begins: a section, or a word in bold or with
/// a colon that may be one.
std::optional<LabelText> labelAt(const MarkdownNode *N, const LabelContext &C);

} // namespace culprit

#endif // CULPRIT_KB_LABELTEXT_H
