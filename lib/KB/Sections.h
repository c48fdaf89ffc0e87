//===- Sections.h - What the sections of an entry hold ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// The labels of sections and the parsing of their text into the fields of an
/// Entry. Knows no markdown beyond `- ` items and backquotes, in the form
/// MarkdownText renders them.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_KB_SECTIONS_H
#define CULPRIT_KB_SECTIONS_H

#include "KB/Entry.h"
#include "Support/Error.h"
#include "llvm/ADT/StringRef.h"
#include <optional>
#include <string>
#include <vector>

namespace culprit {

enum class Section {
#define KB_SECTION(Id, Label, Others) Id,
#include "KB/Sections.def"
};

/// The label culprit writes for \p S: `Root Cause`.
llvm::StringRef sectionLabel(Section S);
/// The section that \p Label names, in any case and with or without a colon, a
/// number or sign before it and a remark in parentheses behind it.
std::optional<Section> parseSectionLabel(llvm::StringRef Label);
/// The number of sections.
inline constexpr unsigned NumSections = 0
#define KB_SECTION(Id, Label, Others) +1
#include "KB/Sections.def"
    ;

/// Whether \p Label is what people write beside the sections above, such as
/// Decision, Impact or Timeline. Such text is kept as it is.
bool isOtherLabel(llvm::StringRef Label);
/// The label closest to \p Unknown, empty when none is close.
std::string closestSectionLabel(llvm::StringRef Unknown);

/// Stores \p Text as section \p S of \p E; text of a section that is already
/// there is added to it. \p Line is told in \p Remarks for what is not
/// understood.
void setSection(Entry &E, Section S, llvm::StringRef Text, unsigned Line,
                std::vector<Diagnostic> &Remarks);

/// The items of a list, or else the paragraphs of \p Text.
std::vector<std::string> listItems(llvm::StringRef Text);

/// Splits the text of a Confirm section. What follows the outcome that
/// confirms is the one that refutes, unless labelled otherwise.
Confirmation parseConfirmation(llvm::StringRef Text);

} // namespace culprit

#endif // CULPRIT_KB_SECTIONS_H
