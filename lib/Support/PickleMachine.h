//===- PickleMachine.h - The stack machine of a pickle ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// What the opcodes of a pickle work on: a stack of values, a list of marks on
/// it and a memo. It knows values and no bytes; Pickle.cpp reads opcodes and
/// their arguments and says what is to be done.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_SUPPORT_PICKLEMACHINE_H
#define CULPRIT_SUPPORT_PICKLEMACHINE_H

#include "Support/DataTree.h"
#include "Support/Error.h"
#include "Support/Pickle.h"

namespace culprit {

/// Builds one tree. Used once; the tree and the options must outlive it.
/// Values are only ever taken from above the last mark, as Python's unpickler
/// has it.
class PickleMachine {
public:
  /// How an opcode ended. The machine itself only goes on or breaks; a reader
  /// stops at the end of the pickle and is cut where its bytes do not reach.
  enum class Status { Go, Stop, Cut, Broken };

  /// A pickle of \p Size bytes.
  PickleMachine(DataTree &Tree, uint64_t Size, const PickleOptions &Options)
      : Tree(Tree), Size(Size), Options(Options) {}

  /// Tells the byte of the next opcode, for messages.
  void begin(uint64_t Byte) { OpcodeAt = Byte; }

  // The stack.
  Status push(DataValue V) {
    Stack.push_back(V);
    return Status::Go;
  }
  Status mark() {
    Marks.push_back(Stack.size());
    return Status::Go;
  }
  Status pop(); ///< A mark too, if it is what is on top.
  Status popMark();
  Status repeat();
  /// The value that is left when the pickle ends; none when there is none.
  std::optional<DataValue> result() const;

  // Containers.
  Status makeTuple(size_t Count);
  /// A container of all values above the mark.
  Status fromMark(DataValue::Kind K);
  /// Puts the \p Count topmost values into the container below them.
  Status addTop(size_t Count, const char *Missing);
  /// Puts all values above the mark into the container below it.
  Status addFromMark();

  // The memo.
  Status put(uint64_t Index);
  Status memoize() { return put(Memo.size()); }
  Status get(uint64_t Index);

  // Names of code and calls.
  Status global(llvm::StringRef Module, llvm::StringRef Name);
  Status globalFromStack();
  /// REDUCE and NEWOBJ: the function and its tuple of arguments are on top.
  Status call();
  /// NEWOBJ_EX: keyword arguments, which are dropped, are above those.
  Status callWithKeywords();
  /// BUILD: an object and the state it shall have are on top.
  Status build();
  Status persistent(llvm::StringRef Id);
  Status persistentFromStack();

  // Why it cannot go on.
  Status fail(const llvm::Twine &Message, const llvm::Twine &Hint = "") {
    Problem = Message.str();
    Remedy = Hint.str();
    return Status::Broken;
  }
  Status broken(const char *What) {
    return fail("the pickle is broken at byte " + llvm::Twine(OpcodeAt) +
                    ": " + What,
                "copy the file again, or record it again");
  }
  Status refuse(llvm::StringRef Name) {
    return fail("holds the Python object " + Name + ", which is not data",
                "nothing of it was run; only files of plain data can be read");
  }
  Status tooMuch() {
    return fail("the pickle unfolds to more data than its size allows",
                "no real dump does; it is broken or made to harm");
  }
  /// Of Status::Broken.
  llvm::Error error() const { return failure(Problem, Remedy); }

  /// Where the bytes break off: what stands above each mark goes into the
  /// container below it. The outermost value; none when none has begun.
  std::optional<DataValue> close();

private:
  using Kind = DataValue::Kind;

  /// Values above the last mark, or those a pop may take without one.
  size_t floor() const { return Marks.empty() ? 0 : Marks.back(); }
  bool holds(size_t Count) const { return Stack.size() - floor() >= Count; }
  Status fill(size_t From);

  DataTree &Tree;
  uint64_t Size;
  const PickleOptions &Options;
  uint64_t OpcodeAt = 0;
  std::vector<DataValue> Stack;
  std::vector<size_t> Marks;
  std::vector<DataValue> Memo;
  std::string Problem, Remedy; ///< Of Broken.
};

} // namespace culprit

#endif // CULPRIT_SUPPORT_PICKLEMACHINE_H
