//===- Knowledge.h - The shipped knowledge base -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Opens what an installation ships, and what the project and --kb add.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_TOOL_KNOWLEDGE_H
#define CULPRIT_TOOL_KNOWLEDGE_H

#include "KB/KnowledgeBase.h"

namespace culprit {

/// symptoms.md, classes.tsv and aliases.tsv of the installation.
llvm::Expected<Vocabulary> openVocabulary();

/// The shipped entries, from the built store or from markdown where there is
/// none, and those of \p More and of the project before them: a team's own
/// log is read first.
llvm::Expected<KnowledgeBase> openKnowledge(llvm::ArrayRef<std::string> More);
/// The same for a search: entries are read when they are found.
llvm::Expected<KnowledgeBase> openForSearch(llvm::ArrayRef<std::string> More);

} // namespace culprit

#endif // CULPRIT_TOOL_KNOWLEDGE_H
