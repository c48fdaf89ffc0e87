//===- LogText.h - The text of a log, ready to parse ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Brings the bytes of a file to UTF-8 text and cuts it into pieces that can
/// be parsed one by one.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_KB_LOGTEXT_H
#define CULPRIT_KB_LOGTEXT_H

#include "Support/Error.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include <string>
#include <utility>
#include <vector>

namespace culprit {

/// What stands above the text between two lines of `---`.
struct FrontMatter {
  std::vector<std::pair<std::string, std::string>> Fields; ///< Key and value.
  unsigned Lines = 0; ///< Of the file, with the two lines; 0 when none.
};

/// \p Text without a byte-order mark; UTF-16 becomes UTF-8 in \p Storage. What
/// is neither is told in \p Remarks with its line, and \p Valid is false.
llvm::StringRef decodeLog(llvm::StringRef Text, llvm::StringRef File,
                          std::string &Storage,
                          std::vector<Diagnostic> &Remarks, bool &Valid);

/// Takes the front matter off \p Text; only `key: value` lines are read.
FrontMatter takeFrontMatter(llvm::StringRef &Text);

/// Calls \p Each with pieces of \p Text in order and the number of lines that
/// stand before each. A piece ends before a heading once it has \p Size bytes,
/// and at any empty line once it has eight times as many. Of a line longer than
/// \p Size the beginning is given, which is told in \p Remarks.
void forEachPiece(llvm::StringRef Text, size_t Size, llvm::StringRef File,
                  std::vector<Diagnostic> &Remarks,
                  llvm::function_ref<void(llvm::StringRef, unsigned)> Each);

} // namespace culprit

#endif // CULPRIT_KB_LOGTEXT_H
