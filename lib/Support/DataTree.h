//===- DataTree.h - A document of plain data --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Lists, dictionaries, texts and numbers, as a pickle or a JSON file holds
/// them, with 8 bytes a value. A memory snapshot of 100 MB has twenty million
/// values, so nothing of it is an object of its own: a value is a handle into
/// the arrays of its tree. A text or a list that the file names twice is held
/// once and has one handle, so that a reader can look up what it made of it.
///
/// A tree has no cycles, but a value may be reached on many ways: a reader
/// that walks lists of lists must not walk the same one again and again
/// (DataTree::Once), or a small file takes forever.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_SUPPORT_DATATREE_H
#define CULPRIT_SUPPORT_DATATREE_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Allocator.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <optional>
#include <vector>

namespace culprit {

/// A value of a DataTree, which alone knows what it stands for. Copied like a
/// number. Default-constructed, it is None of every tree.
class DataValue {
public:
  enum class Kind : uint8_t {
    None,
    Bool,
    Int,    ///< Within int64.
    BigInt, ///< Beyond it; the value is not kept.
    Double,
    String,
    Bytes,
    Global, ///< A name of code: torch.FloatStorage.
    List,
    Tuple,
    Set,
    Dict,  ///< Items are key, value, key, value, ...
    Object ///< Items are what it was made by, the arguments, its state if any.
  };

  DataValue() = default;
  bool isNone() const { return Bits == 0; }

private:
  friend class DataTree;
  /// The lowest four bits are a tag; the others a small number or an index.
  enum Tag : uint64_t {
    NoneTag, BoolTag, IntTag, WideIntTag, BigIntTag, DoubleTag, StringTag,
    BytesTag, GlobalTag, ListTag, TupleTag, SetTag, DictTag, ObjectTag
  };
  DataValue(Tag T, uint64_t Payload) : Bits(Payload << 4 | T) {}
  Tag tag() const { return static_cast<Tag>(Bits & 15); }
  uint64_t payload() const { return Bits >> 4; }

  uint64_t Bits = 0;
};

/// Owns the values of one document. Texts may be views of the input, which
/// must then outlive the tree. Built by one thread, read by any number.
class DataTree {
public:
  using Kind = DataValue::Kind;

  /// A tree that may grow to \p MaxBytes.
  explicit DataTree(size_t MaxBytes) : MaxBytes(MaxBytes) {}

  DataValue root() const { return Root; }
  /// Empty, or why the document is only its beginning.
  const std::string &truncation() const { return Truncation; }

  Kind kind(DataValue V) const;
  bool is(DataValue V, Kind K) const { return kind(V) == K; }
  /// An Int or a Bool; none for anything else.
  std::optional<int64_t> integer(DataValue V) const;
  /// An integer or a Double.
  std::optional<double> number(DataValue V) const;
  /// Of a String, Bytes or Global; empty for anything else.
  llvm::StringRef text(DataValue V) const;
  /// Of a container; empty for anything else.
  llvm::ArrayRef<DataValue> items(DataValue V) const;
  /// What \p Dict has under \p Key; None when it is no Dict or has no such
  /// key. Looks at every key: for dictionaries of few.
  DataValue find(DataValue Dict, llvm::StringRef Key) const;

  /// Number of the text that a String, Bytes or Global stands for.
  size_t textIndex(DataValue V) const { return V.payload(); }
  size_t numTexts() const { return Texts.size(); }
  /// Number of a container; values that are the same one have the same.
  size_t containerIndex(DataValue V) const { return V.payload(); }
  size_t numContainers() const { return Containers.size(); }

  /// The containers a reader has walked.
  class Once {
  public:
    explicit Once(const DataTree &T) : Tree(T), Seen(T.numContainers()) {}
    /// The items of \p V the first time, none ever after.
    llvm::ArrayRef<DataValue> items(DataValue V);

  private:
    const DataTree &Tree;
    llvm::BitVector Seen;
  };

  // What parsers call.
  DataValue boolean(bool Value) const { return {DataValue::BoolTag, Value}; }
  DataValue integer(int64_t Value);
  DataValue bigInteger() const { return {DataValue::BigIntTag, 0}; }
  DataValue number(double Value);
  /// \p Text must live as long as the tree; see save().
  DataValue text(Kind K, llvm::StringRef Text);
  llvm::StringRef save(llvm::StringRef Text) { return Text.copy(Saved); }
  DataValue container(Kind K);
  /// Appends \p Values, which must not be items of this tree. False when the
  /// tree is full, or when \p To would come to contain itself.
  bool append(DataValue To, llvm::ArrayRef<DataValue> Values);
  /// Whether the tree takes more memory than it may.
  bool full() const;
  void setRoot(DataValue V) { Root = V; }
  void setTruncation(std::string Why) { Truncation = std::move(Why); }
  void reserve(size_t Values) { Items.reserve(Values); }

private:
  struct Container {
    uint64_t Begin = 0; ///< First of its items in Items.
    uint32_t Size = 0;
    uint32_t Capacity : 31 = 0;
    uint32_t Held : 1 = 0; ///< It is an item of another one.
  };

  static bool isContainer(DataValue V) {
    return V.tag() >= DataValue::ListTag;
  }

  size_t MaxBytes;
  std::vector<DataValue> Items;
  std::vector<Container> Containers;
  std::vector<llvm::StringRef> Texts;
  std::vector<int64_t> WideInts;
  std::vector<double> Doubles;
  llvm::BumpPtrAllocator Saved;
  DataValue Root;
  std::string Truncation;
};

/// Parses JSON, or Python's repr of plain data, into a tree whose texts may
/// be views of \p Text. Text that breaks off gives what came before.
llvm::Expected<DataTree> readJsonTree(llvm::StringRef Text);

} // namespace culprit

#endif // CULPRIT_SUPPORT_DATATREE_H
