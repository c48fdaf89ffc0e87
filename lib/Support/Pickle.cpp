//===- Pickle.cpp -----------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Reads opcodes and their arguments; PickleMachine does what they say. Opcodes
// are those of Python's Lib/pickle.py, under the same names.
//
//===----------------------------------------------------------------------===//

#include "Support/Pickle.h"
#include "Support/PickleMachine.h"
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

namespace {
class Opcodes {
public:
  Opcodes(StringRef Bytes, const PickleOptions &Options)
      : Begin(Bytes.begin()), At(Bytes.begin()), End(Bytes.end()),
        Tree(size_t(64 << 20) + 16 * Bytes.size()),
        ReadTo(Options.Read), Machine(Tree, Bytes.size(), Options) {
    Tree.reserve(Bytes.size() / 6);
  }

  Expected<DataTree> read();

private:
  using Status = PickleMachine::Status;

  Status step(unsigned char Op);
  Status stepText(unsigned char Op);
  Status stepObject(unsigned char Op);

  // Arguments. Cut when the bytes do not reach.
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

  Status push(DataValue V) { return Machine.push(V); }
  Status broken(const char *What) { return Machine.broken(What); }
  Expected<DataTree> salvage();

  const char *Begin, *At, *End;
  DataTree Tree;
  uint64_t *ReadTo;
  PickleMachine Machine;
};
} // namespace

bool Opcodes::line(StringRef &Out) {
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
Opcodes::Status Opcodes::sized(unsigned LengthBytes, Kind K) {
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
Opcodes::Status Opcodes::longInteger(unsigned LengthBytes) {
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

DataValue Opcodes::decimal(StringRef Digits) {
  int64_t Value = 0;
  if (!Digits.trim().getAsInteger(10, Value))
    return Tree.integer(Value);
  return Tree.bigInteger();
}

/// Opcodes of protocol 0, whose arguments are lines of text.
Opcodes::Status Opcodes::stepText(unsigned char Op) {
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
                                        : Machine.put(Index);
  case 'g': // GET
    return Line.getAsInteger(10, Index) ? broken("a memo number that is none")
                                        : Machine.get(Index);
  case 'P': // PERSID
    return Machine.persistent(Line);
  default: { // GLOBAL and INST
    StringRef Name;
    if (!line(Name))
      return Status::Cut;
    return Op == 'i' ? Machine.refuse((Line + "." + Name).str())
                     : Machine.global(Line, Name);
  }
  }
}

/// Opcodes that name code or call it.
Opcodes::Status Opcodes::stepObject(unsigned char Op) {
  switch (Op) {
  case 0x93: // STACK_GLOBAL
    return Machine.globalFromStack();
  case 'R':  // REDUCE
  case 0x81: // NEWOBJ
    return Machine.call();
  case 0x92: // NEWOBJ_EX
    return Machine.callWithKeywords();
  case 'b': // BUILD
    return Machine.build();
  case 'Q': // BINPERSID
    return Machine.persistentFromStack();
  case 'o': // OBJ
    return Machine.refuse("of an old-style class");
  case 0x82: // EXT1, EXT2, EXT4
  case 0x83:
  case 0x84:
    return Machine.refuse("of an extension code");
  case 0x97: // NEXT_BUFFER, READONLY_BUFFER
  case 0x98:
    return Machine.fail("the pickle keeps its buffers in another file",
                        "write it without a buffer_callback");
  default:
    return broken("an opcode that no protocol has");
  }
}

Opcodes::Status Opcodes::step(unsigned char Op) {
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
    return Machine.result() ? Status::Stop
                            : broken("it ends without a value");
  case '(': // MARK
    return Machine.mark();
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
    return Machine.makeTuple(Op - 0x84);
  case 't': // TUPLE
    return Machine.fromMark(Kind::Tuple);
  case 'l': // LIST
    return Machine.fromMark(Kind::List);
  case 'd': // DICT
    return Machine.fromMark(Kind::Dict);
  case 0x91: // FROZENSET
    return Machine.fromMark(Kind::Set);
  case 'a': // APPEND
    return Machine.addTop(1, "an item without a list");
  case 's': // SETITEM
    return Machine.addTop(2, "an item without a dictionary");
  case 'e':  // APPENDS
  case 'u':  // SETITEMS
  case 0x90: // ADDITEMS
    return Machine.addFromMark();
  case 'q': // BINPUT
    return has(1) ? Machine.put(take<uint8_t>()) : Status::Cut;
  case 'r': // LONG_BINPUT
    return has(4) ? Machine.put(take<uint32_t>()) : Status::Cut;
  case 0x94: // MEMOIZE
    return Machine.memoize();
  case 'h': // BINGET
    return has(1) ? Machine.get(take<uint8_t>()) : Status::Cut;
  case 'j': // LONG_BINGET
    return has(4) ? Machine.get(take<uint32_t>()) : Status::Cut;
  case '0': // POP
    return Machine.pop();
  case '1': // POP_MARK
    return Machine.popMark();
  case '2': // DUP
    return Machine.repeat();
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

/// What there is of a pickle that breaks off.
Expected<DataTree> Opcodes::salvage() {
  std::string Why =
      ("the pickle breaks off at byte " + Twine(End - Begin)).str();
  std::optional<DataValue> Root = Machine.close();
  if (!Root)
    return failure(Why, "copy the file again; nothing of it can be read");
  Tree.setTruncation(std::move(Why));
  Tree.setRoot(*Root);
  return std::move(Tree);
}

Expected<DataTree> Opcodes::read() {
  for (uint64_t Steps = 0; At != End; ++Steps) {
    Machine.begin(At - Begin);
    Status S = step(static_cast<unsigned char>(*At++));
    if (S == Status::Stop) {
      if (ReadTo)
        *ReadTo = At - Begin;
      Tree.setRoot(*Machine.result());
      return std::move(Tree);
    }
    if (S == Status::Cut)
      return salvage();
    if (S == Status::Go && Steps % 4096 == 0 && Tree.full())
      S = Machine.tooMuch();
    if (S == Status::Broken)
      return Machine.error();
  }
  return salvage();
}

Expected<DataTree> readPickle(StringRef Bytes, const PickleOptions &Options) {
  return Opcodes(Bytes, Options).read();
}

} // namespace culprit
