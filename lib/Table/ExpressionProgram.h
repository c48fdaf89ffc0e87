//===- ExpressionProgram.h - A checked expression ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// An expression checked against one table and ready to run. Each instruction
/// turns blocks of 2,048 values into a block: the intermediate values stay in
/// the first-level cache, and what an instruction costs to start is paid once
/// a block. A column without a row index is read in place. Conditions
/// are 0, 1 and NullBool, the values of a Bool column.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_TABLE_EXPRESSIONPROGRAM_H
#define CULPRIT_TABLE_EXPRESSIONPROGRAM_H

#include "Table/ExpressionParser.h"
#include <cstddef>

namespace culprit {

/// One step of a program. Operands are earlier instructions.
struct Instruction {
  static constexpr uint32_t NoBuffer = UINT32_MAX;

  NodeKind Op = NodeKind::Constant;
  ColumnType In = ColumnType::Int;   ///< Of the operands, both alike.
  ColumnType Type = ColumnType::Int; ///< Of the result.
  bool Scalar = false;               ///< One value for all rows.
  uint32_t Left = 0, Right = 0, Third = 0;
  uint32_t Buffer = NoBuffer;         ///< Where a block of the result goes.
  const ColumnView *View = nullptr;   ///< Of a Column, and of what tests one.
  alignas(8) std::byte Value[8] = {}; ///< Of a Scalar.
  std::string Text; ///< Of a text constant, and what to test text against.
  /// With a Text to test: the outcome for each id of the pool, so that a
  /// glob runs once a distinct string. Empty when the table is the smaller.
  std::vector<uint8_t> Verdicts;
  bool TestsText = false;
  /// Of In: what is looked for, sorted: integers, bits of doubles, ids.
  std::vector<int64_t> Wanted;
};

/// Whether \p Text compares so with \p Wanted, or matches or contains it.
bool textHolds(NodeKind Kind, llvm::StringRef Text, llvm::StringRef Wanted);

class ExpressionProgram {
public:
  static constexpr size_t BlockRows = 2048;

  /// \p T must outlive the program.
  static llvm::Expected<ExpressionProgram>
  compile(const Table &T, llvm::StringRef Text,
          llvm::ArrayRef<Argument> Arguments);
  /// As above, of nodes that were not written; \p Text is for errors.
  static llvm::Expected<ExpressionProgram>
  compile(const Table &T, llvm::StringRef Text, llvm::ArrayRef<Node> Nodes,
          llvm::ArrayRef<Argument> Arguments);

  /// The instruction that computes the result, the last.
  const Instruction &root() const { return Code.back(); }

  /// The values for \p Count rows from \p First, at most a block of them; for
  /// a Scalar root one value. Valid until the next call. \p T is the C++ type
  /// of root().Type: int64_t, double, uint8_t or StringId.
  template <typename T> const T *run(size_t First, size_t Count) {
    return static_cast<const T *>(runAll(First, Count));
  }

  using RowRange = std::pair<size_t, size_t>; ///< First and one past the last.

  /// Of a condition: the ranges of \p Rows rows outside which it does not
  /// hold, as runs of columns tell, in order. What they answer is not asked
  /// again; a root that is Scalar afterwards holds in all of them.
  std::vector<RowRange> restrict(size_t Rows);

private:
  friend class ExpressionChecker;

  bool restrict(uint32_t K, std::vector<RowRange> &Ranges);

  const void *runAll(size_t First, size_t Count);
  /// Runs one instruction and returns where its values lie.
  const void *step(Instruction &I, std::byte *Out, size_t First, size_t Count);
  template <typename T> void compare(Instruction &I, uint8_t *Out, size_t N);
  void testText(Instruction &I, uint8_t *Out, size_t N);
  /// The functions of one or more values; see ExpressionMath.cpp.
  void stepFunction(Instruction &I, std::byte *Out, size_t N);
  template <typename T> void choose(Instruction &I, T *Out, size_t N);
  void compareTexts(Instruction &I, uint8_t *Out, size_t N);

  std::vector<Instruction> Code;
  std::vector<const void *> Results; ///< Of each instruction for this block.
  std::unique_ptr<std::byte[]> Buffers;
  std::shared_ptr<StringPool> Pool;
};

} // namespace culprit

#endif // CULPRIT_TABLE_EXPRESSIONPROGRAM_H
