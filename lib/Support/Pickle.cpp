//===- Pickle.cpp -----------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The machine has a stack of values, a list of marks on it and a memo. Opcodes
// are those of Python's Lib/pickle.py, under the same names.
//
//===----------------------------------------------------------------------===//

#include "Support/Pickle.h"
#include "Support/Error.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/ConvertUTF.h"
#include "llvm/Support/Endian.h"
#include <cstring>

using namespace llvm;

namespace culprit {

using Kind = DataValue::Kind;

bool isPickle(StringRef Head) {
  return Head.size() > 2 && Head[0] == '\x80' && Head[1] >= 2 && Head[1] <= 5;
}

/// Undoes the backslashes of protocol 0, which are those of Python's repr.
static std::string unescape(StringRef Text) {
  std::string Out;
  while (!Text.empty()) {
    char C = Text.front();
    Text = Text.drop_front();
    if (C != '\\' || Text.empty()) {
      Out += C;
      continue;
    }
    C = Text.front();
    Text = Text.drop_front();
    size_t Digits = C == 'x' ? 2 : C == 'u' ? 4 : C == 'U' ? 8 : 0;
    unsigned Code = 0;
    if (Digits && !Text.take_front(Digits).getAsInteger(16, Code)) {
      Text = Text.drop_front(std::min(Digits, Text.size()));
      char Buffer[UNI_MAX_UTF8_BYTES_PER_CODE_POINT], *End = Buffer;
      if (ConvertCodePointToUTF8(Code, End))
        Out.append(Buffer, End);
      continue;
    }
    Out += C == 'n' ? '\n' : C == 't' ? '\t' : C == 'r' ? '\r' : C;
  }
  return Out;
}

/// Bytes whose code points \p Text has: protocol 2 writes bytes as the text
/// that Latin-1 makes of them.
static std::string latin1(StringRef Text) {
  std::string Out;
  for (size_t I = 0; I < Text.size(); ++I) {
    unsigned char C = Text[I];
    if (C >= 0xC0 && I + 1 < Text.size())
      Out += static_cast<char>(C << 6 | (Text[++I] & 0x3F));
    else
      Out += static_cast<char>(C);
  }
  return Out;
}

/// Names that stand for plain data, under the modules of Python 3.
static bool isDataName(StringRef Name) {
  for (StringRef Known :
       {"collections.OrderedDict", "collections.defaultdict", "builtins.set",
        "builtins.frozenset", "builtins.list", "builtins.dict",
        "builtins.tuple", "builtins.int", "builtins.float", "builtins.str",
        "builtins.bool", "builtins.bytes", "builtins.bytearray",
        "_codecs.encode"})
    if (Name == Known)
      return true;
  return false;
}

namespace {
class Machine {
public:
  Machine(StringRef Bytes, const PickleOptions &Options)
      : Begin(Bytes.begin()), At(Bytes.begin()), End(Bytes.end()),
        Options(Options), Tree(size_t(64 << 20) + 16 * Bytes.size()) {
    Tree.reserve(Bytes.size() / 6);
  }

  Expected<DataTree> run();

private:
  enum class Status { Go, Stop, Cut, Broken };

  Status step(unsigned char Op);
  Status stepText(unsigned char Op);
  Status stepObject(unsigned char Op);

  // Reading. Cut when the bytes do not reach.
  bool has(uint64_t Size) const { return uint64_t(End - At) >= Size; }
  template <class T> T take() {
    T Value = support::endian::read<T, llvm::endianness::little>(At);
    At += sizeof(T);
    return Value;
  }
  bool line(StringRef &Out);
  Status sized(unsigned LengthBytes, Kind K);
  Status longInteger(unsigned LengthBytes);
  DataValue decimal(StringRef Digits);

  // The stack.
  Status push(DataValue V) {
    Stack.push_back(V);
    return Status::Go;
  }
  /// Values above the last mark, or those a pop may take without one.
  size_t floor() const { return Marks.empty() ? 0 : Marks.back(); }
  bool holds(size_t Count) const { return Stack.size() - floor() >= Count; }
  Status fill(size_t From);
  Status makeTuple(size_t Count);
  Status fromMark(Kind K);

  // The memo.
  Status put(uint64_t Index);
  Status get(uint64_t Index);

  // Names of code and calls.
  Status global(StringRef Module, StringRef Name);
  Status call();
  Status build();

  Status fail(const Twine &Message, const Twine &Hint = "") {
    Problem = Message.str();
    Remedy = Hint.str();
    return Status::Broken;
  }
  Status tooMuch() {
    return fail("the pickle unfolds to more data than its size allows",
                "no real dump does; it is broken or made to harm");
  }
  Status broken(const char *What) {
    return fail("the pickle is broken at byte " + Twine(OpAt - Begin) + ": " +
                    What,
                "copy the file again, or record it again");
  }
  Status refuse(StringRef Name) {
    return fail("holds the Python object " + Name + ", which is not data",
                "nothing of it was run; only files of plain data can be read");
  }
  Expected<DataTree> finish(DataValue Root);
  Expected<DataTree> salvage();

  const char *Begin, *At, *End;
  const char *OpAt = nullptr;
  const PickleOptions &Options;
  DataTree Tree;
  std::vector<DataValue> Stack;
  std::vector<size_t> Marks;
  std::vector<DataValue> Memo;
  std::string Problem, Remedy; ///< Of Broken.
};
} // namespace

bool Machine::line(StringRef &Out) {
  const void *Found = std::memchr(At, '\n', End - At);
  if (!Found)
    return false;
  const char *Stop = static_cast<const char *>(Found);
  Out = StringRef(At, Stop - At);
  Out.consume_back("\r");
  At = Stop + 1;
  return true;
}

/// A text or bytes behind a length of \p LengthBytes bytes.
Machine::Status Machine::sized(unsigned LengthBytes, Kind K) {
  if (!has(LengthBytes))
    return Status::Cut;
  uint64_t Size = LengthBytes == 1   ? take<uint8_t>()
                  : LengthBytes == 4 ? take<uint32_t>()
                                     : take<uint64_t>();
  if (!has(Size))
    return Status::Cut;
  StringRef Text(At, Size);
  At += Size;
  return push(Tree.text(K, Text));
}

/// A little-endian two's complement number behind its length.
Machine::Status Machine::longInteger(unsigned LengthBytes) {
  if (!has(LengthBytes))
    return Status::Cut;
  int64_t Size = LengthBytes == 1 ? take<uint8_t>() : take<int32_t>();
  if (Size < 0)
    return broken("a number of negative length");
  if (!has(Size))
    return Status::Cut;
  const char *Digits = At;
  At += Size;
  if (Size > 8)
    return push(Tree.bigInteger());
  uint64_t Value = Size && Digits[Size - 1] < 0 ? ~uint64_t(0) : 0;
  for (int64_t I = Size; I-- > 0;)
    Value = Value << 8 | static_cast<unsigned char>(Digits[I]);
  return push(Tree.integer(static_cast<int64_t>(Value)));
}

DataValue Machine::decimal(StringRef Digits) {
  int64_t Value = 0;
  if (!Digits.trim().getAsInteger(10, Value))
    return Tree.integer(Value);
  return Tree.bigInteger();
}

/// Puts the values from \p From on into the container below them.
Machine::Status Machine::fill(size_t From) {
  ArrayRef<DataValue> Values = ArrayRef<DataValue>(Stack).drop_front(From);
  DataValue To = Stack[From - 1];
  Kind K = Tree.kind(To);
  if (K == Kind::Dict ? Values.size() % 2 != 0
                      : K != Kind::List && K != Kind::Set)
    return broken("items for what is no container");
  if (!Tree.append(To, Values)) {
    if (Tree.full())
      return tooMuch();
    return fail("the pickle holds a container that contains itself",
                "no real dump does; it is broken or made to harm");
  }
  Stack.resize(From);
  return Status::Go;
}

Machine::Status Machine::makeTuple(size_t Count) {
  if (!holds(Count))
    return broken("a tuple of values that are missing");
  DataValue Tuple = Tree.container(Kind::Tuple);
  Tree.append(Tuple, ArrayRef<DataValue>(Stack).take_back(Count));
  Stack.resize(Stack.size() - Count);
  return push(Tuple);
}

/// A container of all values above the mark.
Machine::Status Machine::fromMark(Kind K) {
  if (Marks.empty())
    return broken("a container ends that did not begin");
  size_t From = Marks.back();
  Marks.pop_back();
  DataValue Made = Tree.container(K);
  ArrayRef<DataValue> Values = ArrayRef<DataValue>(Stack).drop_front(From);
  if (K == Kind::Dict && Values.size() % 2)
    return broken("a key without a value");
  if (!Tree.append(Made, Values))
    return tooMuch();
  Stack.resize(From);
  return push(Made);
}

Machine::Status Machine::put(uint64_t Index) {
  if (!holds(1))
    return broken("nothing to remember");
  // Picklers count up from 0 or 1, one a value.
  if (Index > uint64_t(End - Begin))
    return broken("a memo number beyond the size of the file");
  if (Index >= Memo.size())
    Memo.resize(Index + 1);
  Memo[Index] = Stack.back();
  return Status::Go;
}

Machine::Status Machine::get(uint64_t Index) {
  if (Index >= Memo.size())
    return broken("it refers to a value that was never remembered");
  return push(Memo[Index]);
}

Machine::Status Machine::global(StringRef Module, StringRef Name) {
  if (Module == "__builtin__")
    Module = "builtins";
  std::string Whole = (Module + "." + Name).str();
  if (!isDataName(Whole) && !is_contained(Options.Globals, Whole))
    return refuse(Whole);
  return push(Tree.text(Kind::Global, Tree.save(Whole)));
}

/// REDUCE and NEWOBJ: the function and its tuple of arguments are on top.
Machine::Status Machine::call() {
  if (!holds(2))
    return broken("a call without a function");
  DataValue Arguments = Stack.back(), Function = Stack[Stack.size() - 2];
  Stack.resize(Stack.size() - 2);
  StringRef Name = Tree.text(Function);
  if (!Tree.is(Function, Kind::Global) || !Tree.is(Arguments, Kind::Tuple))
    return broken("a call of what is no function");
  // Appending moves items, so the arguments are copied.
  SmallVector<DataValue, 4> Values(Tree.items(Arguments));
  if (is_contained(Options.Globals, Name)) {
    DataValue Made = Tree.container(Kind::Object);
    Tree.append(Made, {Function, Arguments});
    return push(Made);
  }
  if (Name == "collections.OrderedDict" || Name == "collections.defaultdict") {
    DataValue Made = Tree.container(Kind::Dict);
    DataValue Pairs = Values.empty() ? DataValue() : Values.back();
    if (Tree.is(Pairs, Kind::List)) // Python 2: OrderedDict([[k, v], ...])
      for (size_t I = 0; I != Tree.items(Pairs).size(); ++I) {
        SmallVector<DataValue, 2> Pair(Tree.items(Tree.items(Pairs)[I]));
        if (Pair.size() != 2 || !Tree.append(Made, Pair))
          return broken("a dictionary of what is no pair");
      }
    return push(Made);
  }
  if (Name == "builtins.set" || Name == "builtins.frozenset") {
    DataValue Made = Tree.container(Kind::Set);
    if (!Values.empty()) {
      SmallVector<DataValue, 8> Members(Tree.items(Values[0]));
      if (!Tree.append(Made, Members))
        return tooMuch();
    }
    return push(Made);
  }
  if (Name == "_codecs.encode" || Name == "builtins.bytes" ||
      Name == "builtins.bytearray") {
    StringRef Text = Values.empty() ? StringRef() : Tree.text(Values[0]);
    bool Encoded = !Values.empty() && Tree.is(Values[0], Kind::String);
    DataValue Made =
        Tree.text(Kind::Bytes, Encoded ? Tree.save(latin1(Text)) : Text);
    return Tree.full() ? tooMuch() : push(Made);
  }
  return refuse(Name);
}

/// BUILD: an object and the state it shall have are on top.
Machine::Status Machine::build() {
  if (!holds(2))
    return broken("a state without an object");
  DataValue State = Stack.back(), Object = Stack[Stack.size() - 2];
  Stack.pop_back();
  if (Tree.is(Object, Kind::Object)) {
    if (!Tree.append(Object, State))
      return broken("a state that contains its object");
    return Status::Go;
  }
  // Attributes that were set on an OrderedDict: a state_dict's _metadata.
  if (Tree.is(Object, Kind::Dict))
    return Status::Go;
  return broken("a state for what is no object");
}

/// Opcodes of protocol 0, whose arguments are lines of text.
Machine::Status Machine::stepText(unsigned char Op) {
  StringRef Line;
  if (!line(Line))
    return Status::Cut;
  uint64_t Index = 0;
  switch (Op) {
  case 'I': // INT; 01 and 00 are the booleans
    if (Line == "01" || Line == "00")
      return push(Tree.boolean(Line == "01"));
    return push(decimal(Line));
  case 'L': // LONG
    Line.consume_back("L");
    return push(decimal(Line));
  case 'F': { // FLOAT
    double Value = 0;
    if (Line.getAsDouble(Value))
      return broken("a number that is none");
    return push(Tree.number(Value));
  }
  case 'S': // STRING
    if (Line.size() < 2 || Line.front() != Line.back())
      return broken("a text without quotes");
    return push(Tree.text(Kind::String,
                          Tree.save(unescape(Line.drop_front().drop_back()))));
  case 'V': // UNICODE
    return push(Tree.text(Kind::String, Line.contains('\\')
                                            ? Tree.save(unescape(Line))
                                            : Line));
  case 'p': // PUT
    return Line.getAsInteger(10, Index) ? broken("a memo number that is none")
                                        : put(Index);
  case 'g': // GET
    return Line.getAsInteger(10, Index) ? broken("a memo number that is none")
                                        : get(Index);
  case 'P': { // PERSID
    if (!Options.PersistentIds)
      return refuse("persistent id " + Line.str());
    DataValue Made = Tree.container(Kind::Object);
    Tree.append(Made, {DataValue(), Tree.text(Kind::String, Line)});
    return push(Made);
  }
  default: { // GLOBAL and INST
    StringRef Name;
    if (!line(Name))
      return Status::Cut;
    return Op == 'i' ? refuse((Line + "." + Name).str()) : global(Line, Name);
  }
  }
}

/// Opcodes that name code or call it.
Machine::Status Machine::stepObject(unsigned char Op) {
  switch (Op) {
  case 0x93: { // STACK_GLOBAL
    if (!holds(2))
      return broken("a name that is missing");
    StringRef Name = Tree.text(Stack.back());
    StringRef Module = Tree.text(Stack[Stack.size() - 2]);
    Stack.resize(Stack.size() - 2);
    return global(Module, Name);
  }
  case 'R':  // REDUCE
  case 0x81: // NEWOBJ
    return call();
  case 0x92: { // NEWOBJ_EX
    if (!holds(3))
      return broken("a call without a function");
    Stack.pop_back(); // keyword arguments
    return call();
  }
  case 'b': // BUILD
    return build();
  case 'Q': { // BINPERSID
    if (!holds(1))
      return broken("a persistent id that is missing");
    if (!Options.PersistentIds)
      return refuse("persistent id");
    DataValue Made = Tree.container(Kind::Object);
    Tree.append(Made, {DataValue(), Stack.back()});
    Stack.pop_back();
    return push(Made);
  }
  case 'o': // OBJ
    return refuse("of an old-style class");
  case 0x82: // EXT1, EXT2, EXT4
  case 0x83:
  case 0x84:
    return refuse("of an extension code");
  case 0x97: // NEXT_BUFFER, READONLY_BUFFER
  case 0x98:
    return fail("the pickle keeps its buffers in another file",
                "write it without a buffer_callback");
  default:
    return broken("an opcode that no protocol has");
  }
}

Machine::Status Machine::step(unsigned char Op) {
  switch (Op) {
  case 0x80: // PROTO
    if (!has(1))
      return Status::Cut;
    if (take<uint8_t>() > 5)
      return broken("a protocol later than 5");
    return Status::Go;
  case 0x95: // FRAME; its length says nothing that is needed
    if (!has(8))
      return Status::Cut;
    At += 8;
    return Status::Go;
  case '.':
    return holds(1) && Marks.empty() ? Status::Stop
                                     : broken("it ends without a value");
  case '(': // MARK
    Marks.push_back(Stack.size());
    return Status::Go;
  case 'N':
    return push({});
  case 0x88: // NEWTRUE
    return push(Tree.boolean(true));
  case 0x89: // NEWFALSE
    return push(Tree.boolean(false));
  case 'J': // BININT
    return has(4) ? push(Tree.integer(int64_t(take<int32_t>()))) : Status::Cut;
  case 'K': // BININT1
    return has(1) ? push(Tree.integer(int64_t(take<uint8_t>()))) : Status::Cut;
  case 'M': // BININT2
    return has(2) ? push(Tree.integer(int64_t(take<uint16_t>())))
                  : Status::Cut;
  case 0x8a: // LONG1
    return longInteger(1);
  case 0x8b: // LONG4
    return longInteger(4);
  case 'G': { // BINFLOAT, big-endian
    if (!has(8))
      return Status::Cut;
    uint64_t Bits = support::endian::read64be(At);
    At += 8;
    double Value;
    std::memcpy(&Value, &Bits, sizeof(Value));
    return push(Tree.number(Value));
  }
  case 0x8c: // SHORT_BINUNICODE
  case 'U':  // SHORT_BINSTRING
    return sized(1, Kind::String);
  case 'X': // BINUNICODE
  case 'T': // BINSTRING
    return sized(4, Kind::String);
  case 0x8d: // BINUNICODE8
    return sized(8, Kind::String);
  case 'C': // SHORT_BINBYTES
    return sized(1, Kind::Bytes);
  case 'B': // BINBYTES
    return sized(4, Kind::Bytes);
  case 0x8e: // BINBYTES8
  case 0x96: // BYTEARRAY8
    return sized(8, Kind::Bytes);
  case '}':
    return push(Tree.container(Kind::Dict));
  case ']':
    return push(Tree.container(Kind::List));
  case ')':
    return push(Tree.container(Kind::Tuple));
  case 0x8f: // EMPTY_SET
    return push(Tree.container(Kind::Set));
  case 0x85: // TUPLE1, TUPLE2, TUPLE3
  case 0x86:
  case 0x87:
    return makeTuple(Op - 0x84);
  case 't': // TUPLE
    return fromMark(Kind::Tuple);
  case 'l': // LIST
    return fromMark(Kind::List);
  case 'd': // DICT
    return fromMark(Kind::Dict);
  case 0x91: // FROZENSET
    return fromMark(Kind::Set);
  case 'a': // APPEND
    return holds(2) ? fill(Stack.size() - 1) : broken("an item without a list");
  case 's': // SETITEM
    return holds(3) ? fill(Stack.size() - 2)
                    : broken("an item without a dictionary");
  case 'e':    // APPENDS
  case 'u':    // SETITEMS
  case 0x90: { // ADDITEMS
    if (Marks.empty())
      return broken("items without a container");
    size_t From = Marks.back();
    Marks.pop_back();
    if (From <= floor())
      return broken("items without a container");
    return fill(From);
  }
  case 'q': // BINPUT
    return has(1) ? put(take<uint8_t>()) : Status::Cut;
  case 'r': // LONG_BINPUT
    return has(4) ? put(take<uint32_t>()) : Status::Cut;
  case 0x94: // MEMOIZE
    return put(Memo.size());
  case 'h': // BINGET
    return has(1) ? get(take<uint8_t>()) : Status::Cut;
  case 'j': // LONG_BINGET
    return has(4) ? get(take<uint32_t>()) : Status::Cut;
  case '0': // POP, of a mark too
    if (!Marks.empty() && Marks.back() == Stack.size()) {
      Marks.pop_back();
      return Status::Go;
    }
    if (!holds(1))
      return broken("nothing to drop");
    Stack.pop_back();
    return Status::Go;
  case '1': // POP_MARK
    if (Marks.empty())
      return broken("nothing to drop");
    Stack.resize(Marks.back());
    Marks.pop_back();
    return Status::Go;
  case '2': // DUP
    return holds(1) ? push(Stack.back()) : broken("nothing to repeat");
  case 'I':
  case 'L':
  case 'F':
  case 'S':
  case 'V':
  case 'p':
  case 'g':
  case 'P':
  case 'c':
  case 'i':
    return stepText(Op);
  default:
    return stepObject(Op);
  }
}

Expected<DataTree> Machine::finish(DataValue Root) {
  Tree.setRoot(Root);
  return std::move(Tree);
}

/// Closes what is open where the bytes end: what stands above each mark goes
/// into the container below it.
Expected<DataTree> Machine::salvage() {
  std::string Why =
      ("the pickle breaks off at byte " + Twine(End - Begin)).str();
  while (!Marks.empty()) {
    size_t From = Marks.back();
    Marks.pop_back();
    if (From <= floor()) {
      Stack.resize(From);
      continue;
    }
    if (Tree.is(Stack[From - 1], Kind::Dict) && (Stack.size() - From) % 2)
      Stack.pop_back();
    // A tuple that had not ended has no container yet.
    if (fill(From) == Status::Broken)
      Stack.resize(From);
  }
  if (Stack.empty())
    return failure(Why, "copy the file again; nothing of it can be read");
  Tree.setTruncation(std::move(Why));
  return finish(Stack.front());
}

Expected<DataTree> Machine::run() {
  for (uint64_t Steps = 0; At != End; ++Steps) {
    OpAt = At;
    Status S = step(static_cast<unsigned char>(*At++));
    if (S == Status::Stop)
      return finish(Stack.back());
    if (S == Status::Cut)
      return salvage();
    if (S == Status::Go && Steps % 4096 == 0 && Tree.full())
      S = tooMuch();
    if (S == Status::Broken)
      return failure(Problem, Remedy);
  }
  return salvage();
}

Expected<DataTree> readPickle(StringRef Bytes, const PickleOptions &Options) {
  return Machine(Bytes, Options).run();
}

} // namespace culprit
