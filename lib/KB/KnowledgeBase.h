//===- KnowledgeBase.h - Logs searched together -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// The shipped knowledge base, a team's log and a project's ISSUES.md as one.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_KB_KNOWLEDGEBASE_H
#define CULPRIT_KB_KNOWLEDGEBASE_H

#include "KB/Entry.h"
#include "KB/Search.h"
#include "KB/Vocabulary.h"
#include "Support/Error.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include <memory>

namespace culprit {

/// Entries of several sources with one search over all of them. A class of
/// the vocabulary that none of them is about is found by its definition, as an
/// entry `classes/<class>` with nothing else in it: better a name for the
/// cause than silence. Owns the entries; pointers to them live as long as it
/// does. Those of a store are read when they are needed. One thread at a time
/// may use it, since it reads through database connections.
class KnowledgeBase {
public:
  /// Opens \p Paths, each a store (`.sqlite`), a markdown file or a directory
  /// of markdown files. Earlier paths come first in entries(). What markdown
  /// could not be understood is in remarks() and stops nothing.
  static llvm::Expected<KnowledgeBase> open(llvm::ArrayRef<std::string> Paths,
                                            Vocabulary V);
  /// The same from markdown in memory, as if read from a file \p Name.
  static llvm::Expected<KnowledgeBase>
  fromMarkdown(llvm::StringRef Markdown, llvm::StringRef Name, Vocabulary V);

  KnowledgeBase(KnowledgeBase &&) noexcept;
  KnowledgeBase &operator=(KnowledgeBase &&) noexcept;
  ~KnowledgeBase();

  const Vocabulary &vocabulary() const;
  /// All entries: sources in the order given, then files, then places.
  /// Without those made of definitions. None when load() fails.
  llvm::ArrayRef<Entry> entries() const;
  /// Reads all entries, which a search does not need. The only thing that can
  /// fail in the other functions.
  llvm::Error load() const;
  llvm::ArrayRef<Diagnostic> remarks() const;

  /// The entry \p Id, or every entry of the class \p Id. An id may leave out
  /// its file when the rest is unique. Empty when there is none.
  std::vector<const Entry *> find(llvm::StringRef IdOrClass) const;
  /// The closest entry id or class to \p Unknown, empty when none is close.
  std::string closest(llvm::StringRef Unknown) const;

  /// The at most \p Limit entries that fit \p Query best: a sentence, an
  /// error code or a pasted log. The same query gives the same result.
  llvm::Expected<SearchResult> search(llvm::StringRef Query,
                                      unsigned Limit = 5) const;
  llvm::Expected<SearchResult> search(llvm::StringRef Query,
                                      const SearchOptions &Options) const;

private:
  struct State;
  explicit KnowledgeBase(std::unique_ptr<State> S);
  std::unique_ptr<State> S;
};

} // namespace culprit

#endif // CULPRIT_KB_KNOWLEDGEBASE_H
