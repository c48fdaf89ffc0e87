//===- LooseTree.h - One loosely written record in memory -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// The value that a LooseJson reads, to be looked at in any order. A file of
/// records is a million small values, so a tree is made once and filled again
/// for each: its memory is that of the largest. Texts are views of what was
/// parsed where they have no escapes.
///
///   LooseTree Tree;
///   LooseJson In(Line);
///   if (Tree.read(In, Line))
///     use(Tree.root()["usage"]["prompt_tokens"].integer());
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_SUPPORT_LOOSETREE_H
#define CULPRIT_SUPPORT_LOOSETREE_H

#include "Support/LooseJson.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Allocator.h"
#include <cstdint>
#include <vector>

namespace culprit {

class LooseTree;

/// A handle of a value, or of none. Valid until the tree is filled again.
class LooseValue {
public:
  LooseValue() = default;

  /// There is a value, be it null.
  explicit operator bool() const { return Tree; }
  bool isNull() const;
  bool isObject() const;
  bool isArray() const;
  bool isText() const;

  /// Of an object: what it has under \p Key, the first if it is there twice.
  LooseValue operator[](llvm::StringRef Key) const;
  /// Of an object: the first of \p Keys that is there and not null.
  LooseValue any(llvm::ArrayRef<llvm::StringLiteral> Keys) const;
  /// Of an object or array: its first value.
  LooseValue first() const;
  /// The value behind this one in the same object or array.
  LooseValue next() const;
  /// The values of an object or array; \p Each may return false to stop.
  void each(llvm::function_ref<bool(LooseValue)> Each) const;
  size_t size() const;

  /// The key it has in its object; empty in an array.
  llvm::StringRef key() const;
  /// Of a string; empty for anything else.
  llvm::StringRef text() const;
  /// Of a string, or of a number as it is written; empty for anything else.
  llvm::StringRef written() const;
  /// Of a number, or of a string that is one.
  std::optional<double> number() const;
  /// Likewise, exactly; none beyond int64 and for broken ones.
  std::optional<int64_t> integer() const;
  std::optional<bool> boolean() const;

private:
  friend class LooseTree;
  LooseValue(const LooseTree *Tree, uint32_t Index)
      : Tree(Tree), Index(Index) {}

  const LooseTree *Tree = nullptr;
  uint32_t Index = 0;
  uint32_t End = 0; ///< Of the values of the container it is in.
};

/// Owns the values of one record. Not thread-safe.
class LooseTree {
public:
  /// Values that a record may have; one with more is not read.
  static constexpr size_t MaxValues = size_t(1) << 22;

  /// Arrays under \p Skipped keys are left out: bytes of tokens, ids of
  /// prompts.
  explicit LooseTree(llvm::ArrayRef<llvm::StringLiteral> Skipped = {})
      : Skipped(Skipped) {}

  /// Fills the tree with the next value of \p In, which reads \p Text. False
  /// when the text breaks off or the record is too large; why() says which.
  bool read(LooseJson &In, llvm::StringRef Text);
  /// Likewise, with \p Begun read already.
  bool read(LooseJson &In, llvm::StringRef Text, LooseJson::Token Begun);
  const char *why() const { return Problem; }

  LooseValue root() const;

private:
  friend class LooseValue;
  struct Node {
    llvm::StringRef Key;
    llvm::StringRef Text; ///< Of a string or number, as written.
    double Number = 0;
    uint64_t Keys = 0; ///< Of an object: a bit for each key it may have.
    uint32_t End = 0;  ///< Behind the last value inside.
    LooseJson::Token Kind = LooseJson::Token::Null;
  };

  /// The bit of \p Key in Node::Keys.
  static uint64_t bitOf(llvm::StringRef Key) {
    unsigned Mixed = Key.empty() ? 0
                                 : unsigned(Key.size()) * 7 +
                                       uint8_t(Key.front()) * 5 +
                                       uint8_t(Key.back()) * 3;
    return uint64_t(1) << (Mixed % 64);
  }
  llvm::StringRef keep(llvm::StringRef Value, llvm::StringRef Text);
  bool fail(const char *Why);

  llvm::ArrayRef<llvm::StringLiteral> Skipped;
  std::vector<Node> Nodes; ///< In the order of the text.
  std::vector<uint32_t> Open;
  llvm::BumpPtrAllocator Saved;
  const char *Problem = nullptr;
};

} // namespace culprit

#endif // CULPRIT_SUPPORT_LOOSETREE_H
