//===- Keys.h - Rows by the values of a few columns -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// What grouping, joining and distinct share: an index over the keys of a
/// table. The columns of a key are packed into one word: ids, ranks and
/// threads lie close together, so that their place in the range of the column
/// takes few bits. A column or a prefix of the key that is too wide for that is
/// numbered first. What is left is an array where the words lie close, and one
/// look-up of a word otherwise. Strings are keyed by id, so both sides of a
/// join need one pool.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_TABLE_KEYS_H
#define CULPRIT_TABLE_KEYS_H

#include "Table/Table.h"
#include <optional>

namespace culprit {

/// Numbers distinct words in order of first appearance.
class WordIndex {
public:
  static constexpr uint32_t None = UINT32_MAX;
  /// The word of a row that has no key. No column has it as a word.
  static constexpr uint64_t Absent = UINT64_MAX;

  /// For words up to \p Last, about \p Expected of them.
  WordIndex(uint64_t Last, size_t Expected);

  uint32_t add(uint64_t Word);
  /// Sets \p Numbers, as many, to what add() gives for each of \p Words; None
  /// for Absent.
  void addAll(llvm::ArrayRef<uint64_t> Words, uint32_t *Numbers);
  uint32_t find(uint64_t Word) const;
  size_t size() const { return Count; }

private:
  size_t slotOf(uint64_t Word) const;
  void grow();

  bool Direct;                 ///< A slot for every word there may be.
  std::vector<uint32_t> Slots; ///< Number + 1, or 0.
  std::vector<uint64_t> Words; ///< By number, unless Direct.
  uint32_t Count = 0;
};

/// Numbers the distinct keys of a table in order of first appearance.
class KeyIndex {
public:
  static constexpr uint32_t None = WordIndex::None;

  /// Fails for an unknown column and for an int list, which is no key.
  static llvm::Expected<KeyIndex> make(const Table &T,
                                       llvm::ArrayRef<std::string> Columns);

  /// The number of each row's key; None for one with a null in its key.
  llvm::ArrayRef<uint32_t> numbers() const { return Numbers; }
  size_t size() const { return First.size(); }
  /// The row in which key \p Number appeared first.
  uint32_t firstRow(uint32_t Number) const { return First[Number]; }
  llvm::ArrayRef<uint32_t> firstRows() const { return First; }
  /// The rows of each key, in order.
  std::vector<RowIndex> members() const;

  /// For each row of \p Other the first row of the table with the same key,
  /// by columns of the same names, or None. Columns of another type agree
  /// nowhere. Fails as make() does.
  llvm::Expected<RowIndex> firstRowsFor(const Table &Other) const;

private:
  /// How one more column goes into the word.
  struct Step {
    std::string Column;
    ColumnType Type;
    int64_t Base = 0;                ///< The least value.
    uint64_t Last = 0;               ///< The largest word of the column.
    std::optional<WordIndex> Values; ///< Numbers of a wide column's values.
    std::optional<WordIndex> Before; ///< Numbers of the words so far.
  };

  /// Whether the values of the column must be numbered first.
  static bool isWide(const Step &S, bool First);
  /// Sets how the columns go into the word by the first \p Rows rows. Returns
  /// the largest word, or none where words do not fit.
  std::optional<uint64_t>
  setRanges(llvm::ArrayRef<const ColumnView *> Views, size_t Rows);
  /// Makes the index of \p Rows rows anew, for the keys so far and new ranges.
  void renumber(llvm::ArrayRef<const ColumnView *> Views, uint64_t Last,
                size_t Rows);
  /// Numbers the rows where words do not fit, with whole columns of words.
  /// False when the time is up.
  bool addWide(llvm::ArrayRef<const ColumnView *> Views, size_t Rows);
  /// Of firstRowsFor(), where that was so. \p Out is all None.
  /// False when the time is up.
  bool findWide(llvm::ArrayRef<const ColumnView *> Views, RowIndex &Out) const;
  /// Extends First by the keys that came with the rows from \p From on.
  void noteFirstRows(size_t From);

  std::vector<Step> Steps;
  std::optional<WordIndex> Index;
  RowIndex Numbers, First;
};

} // namespace culprit

#endif // CULPRIT_TABLE_KEYS_H
