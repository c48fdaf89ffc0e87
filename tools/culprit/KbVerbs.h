//===- KbVerbs.h - The verbs of culprit kb ----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// `culprit kb VERB`: one function a verb, and the options that several have.
/// Options of one verb alone stand in its file; their help begins with it.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_TOOL_KBVERBS_H
#define CULPRIT_TOOL_KBVERBS_H

#include "KB/KnowledgeBase.h"
#include "Options.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/CommandLine.h"
#include <string>
#include <vector>

namespace culprit {

enum class KbFormat { Text, Json, Markdown, Tsv, Index };

/// The subcommand, made on first use so that every file can add options.
llvm::cl::SubCommand &kbCommand();

/// What options of several verbs say.
struct KbOptions {
  std::vector<std::string> Kb; ///< --kb
  KbFormat Format;             ///< --format
  unsigned Limit;              ///< --limit
  std::string Output;          ///< -o
  std::string Layer, Class;    ///< --layer, --class
};
const KbOptions &kbOptions();

/// Fails when --format is none of \p Allowed of \p Verb.
llvm::Error checkFormat(llvm::StringRef Verb, llvm::ArrayRef<KbFormat> Allowed);

/// The entries that \p Verb reports on: of \p Paths and --kb; without any, of
/// the project's logs; without such, the shipped ones. Those of another layer
/// or class than --layer and --class say are left out.
struct KbSelection {
  KnowledgeBase Base;
  std::vector<const Entry *> Entries;
  bool Shipped = false; ///< Nobody's own log, but what culprit comes with.
};
llvm::Expected<KbSelection> selectEntries(llvm::ArrayRef<std::string> Paths);

/// Says that a verb is about the shipped entries, as there are no others.
void noteShipped();

/// The log that a project keeps: the first markdown file of `kb:`, or
/// `ISSUES.md` in its folder.
llvm::Expected<std::string> projectLog();

/// The logs that the project keeps: all of `kb:`, and its `ISSUES.md` where
/// there is one and `kb:` names no other file. Without the latter for
/// `--config none`.
llvm::Expected<std::vector<std::string>> projectLogs();

/// \p V fits --layer and --class. Fails when there is no such layer or class.
llvm::Error checkFilter(const Vocabulary &V);
bool passesFilter(const Entry &E, const Vocabulary &V);

/// Whether the file \p Path holds entries. An `ISSUES.md` that nobody named
/// may be about anything.
bool isIssuesLog(llvm::StringRef Path);

/// \p Text into -o FILE, or to standard output. The exit status.
int writeResult(llvm::StringRef Text);

int kbSearch(llvm::ArrayRef<std::string> Words);
int kbAdd(llvm::ArrayRef<std::string> Words);
int kbImport(llvm::ArrayRef<std::string> Paths);
int kbSimilar(llvm::ArrayRef<std::string> Paths);
int kbStrategy(llvm::ArrayRef<std::string> Paths);
int kbRules(llvm::ArrayRef<std::string> Paths);
int kbStats(llvm::ArrayRef<std::string> Paths);
int kbExport(llvm::ArrayRef<std::string> Paths);

} // namespace culprit

#endif // CULPRIT_TOOL_KBVERBS_H
