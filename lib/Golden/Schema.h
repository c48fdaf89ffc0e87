//===- Schema.h - Keys and types of many records ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// The shape of the records of a file: each key path with the types that its
/// values have, and whether some records lack it.
///
///   choices[].message.content   string|null
///   usage.completion_tokens     integer?      (some have no such key)
///   choices[].logprobs.top_logprobs[].*  number   (keys are data)
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_GOLDEN_SCHEMA_H
#define CULPRIT_GOLDEN_SCHEMA_H

#include "Support/LooseTree.h"
#include <map>
#include <memory>
#include <string>

namespace culprit {

/// What was seen at one key path.
struct SchemaField {
  std::string Types; ///< In alphabetical order, with | between.
  bool Optional = false;
  int64_t Missing = 0; ///< Objects that lack the key...
  int64_t Objects = 0; ///< ...of so many.
  std::map<std::string, int64_t> FirstOfType; ///< Lines.
};

class Schema {
public:
  Schema();
  ~Schema();

  /// Adds a record that begins at \p Line.
  void add(LooseValue Record, int64_t Line);
  /// By key path; "" is a record itself where some are no objects.
  std::map<std::string, SchemaField> fields() const;
  int64_t records() const { return Records; }
  /// Paths that one file may have; those beyond are left out.
  static constexpr size_t MaxPaths = 5000;
  bool full() const { return Paths >= MaxPaths; }

private:
  struct Node;
  void add(Node &At, LooseValue V, int64_t Line);
  static void collapse(Node &At);
  static void merge(Node &Into, const Node &From);
  static void list(const Node &At, const std::string &Path,
                   std::map<std::string, SchemaField> &Out);

  std::unique_ptr<Node> Root;
  int64_t Records = 0;
  size_t Paths = 0;
};

/// The records of \p Text: one JSON value a line or behind each other, the
/// elements of a list, the data of server-sent events. What is broken is left
/// out.
void addRecords(llvm::StringRef Text, Schema &Into);

} // namespace culprit

#endif // CULPRIT_GOLDEN_SCHEMA_H
