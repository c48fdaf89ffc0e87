//===- AddEntryText.h - An entry as markdown --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Writes an entry in the form in which a log writes its entries. What is
/// written is read back as the same entry.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_KB_ADDENTRYTEXT_H
#define CULPRIT_KB_ADDENTRYTEXT_H

#include "KB/Entry.h"
#include "KB/AddEntryStyle.h"
#include "llvm/ADT/StringRef.h"
#include <string>
#include <vector>

namespace culprit {

/// Fills what is empty of the five sections of every entry with a question,
/// `TODO: why it happened`, that `kb check` names until it is answered.
void addPrompts(Entry &E);
/// Whether \p Text is such a question.
bool isPrompt(llvm::StringRef Text);
/// The labels of the sections of \p E that are questions.
std::vector<std::string> promptLabels(const Entry &E);

/// Plain \p Text so that markdown reads it as itself: characters that would
/// be emphasis, links or headings behind backslashes, code as it is.
std::string escapedMarkdown(llvm::StringRef Text);

/// \p Text of a person, who may use markdown, kept from ending its section:
/// headings, rules and labels at the start of a line become text, an open
/// fence is closed.
std::string sectionMarkdown(llvm::StringRef Text);

/// \p E as markdown with \n as line ends: its heading and its sections, the
/// empty ones left out, in the form \p Style. Texts of \p E are markdown.
std::string entryMarkdown(const Entry &E, const LogStyle &Style);

} // namespace culprit

#endif // CULPRIT_KB_ADDENTRYTEXT_H
