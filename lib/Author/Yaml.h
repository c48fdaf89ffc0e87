//===- Yaml.h - A YAML document as a tree with lines ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// What people write by hand is small, and every mistake in it is told with
/// its line. So a document is read whole, and each value knows where it stands.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_AUTHOR_YAML_H
#define CULPRIT_AUTHOR_YAML_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <string>
#include <vector>

namespace culprit {

struct YamlEntry;

/// A value: nothing, a text, a list, or a map of texts to values.
struct YamlValue {
  enum class Kind { Nothing, Text, List, Map };
  Kind What = Kind::Nothing;
  unsigned Line = 0;     ///< From 1.
  size_t Begin = 0;      ///< Where it begins in the document's text.
  std::string Text;      ///< As written: numbers are texts too.
  bool Quoted = false;   ///< Then a text it is meant to be.
  std::vector<YamlValue> Items;
  std::vector<YamlEntry> Entries; ///< In the order of the file.

  /// The value of \p Key of a map, or null.
  const YamlValue *find(llvm::StringRef Key) const;
  /// "a list", "the text 'x'", for messages.
  std::string word() const;
};

struct YamlEntry {
  std::string Key;
  unsigned Line = 0;
  size_t Begin = 0; ///< Where the key begins in the document's text.
  YamlValue Value;
};

/// Reads \p Text, one document that begins in line \p FirstLine of \p Path.
/// Fails with "path:line: what" for what is no YAML and for what people do not
/// write by hand: aliases, nesting of 20 levels.
llvm::Expected<YamlValue> parseYaml(llvm::StringRef Path, llvm::StringRef Text,
                                    unsigned FirstLine = 1);

/// Fails where \p Map has a key twice.
llvm::Error checkOnce(llvm::StringRef Path, const YamlValue &Map);

/// The same, and where it has a key that is none of \p Known, with a
/// did-you-mean. \p What is what the map is of: "a test case".
llvm::Error checkKeys(llvm::StringRef Path, const YamlValue &Map,
                      llvm::StringRef What,
                      llvm::ArrayRef<std::string> Known);

} // namespace culprit

#endif // CULPRIT_AUTHOR_YAML_H
