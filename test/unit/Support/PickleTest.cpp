//===- PickleTest.cpp -------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Support/Pickle.h"
#include "Support/Error.h"
#include "gtest/gtest.h"

using namespace culprit;
using namespace llvm;

using Kind = DataTree::Kind;

/// \p V as Python would print it, lists within lists too.
static std::string repr(const DataTree &T, DataValue V) {
  std::string Out;
  switch (T.kind(V)) {
  case Kind::None:
    return "None";
  case Kind::Bool:
    return *T.integer(V) ? "True" : "False";
  case Kind::Int:
    return std::to_string(*T.integer(V));
  case Kind::BigInt:
    return "big";
  case Kind::Double:
    return std::to_string(*T.number(V));
  case Kind::String:
    return ("'" + T.text(V) + "'").str();
  case Kind::Bytes:
    return ("b'" + T.text(V) + "'").str();
  case Kind::Global:
    return T.text(V).str();
  case Kind::Dict: {
    ArrayRef<DataValue> Items = T.items(V);
    for (size_t I = 0; I + 1 < Items.size(); I += 2)
      Out += (I ? ", " : "") + repr(T, Items[I]) + ": " + repr(T, Items[I + 1]);
    return "{" + Out + "}";
  }
  default:
    for (DataValue Item : T.items(V))
      Out += (Out.empty() ? "" : ", ") + repr(T, Item);
    return (T.is(V, Kind::List)    ? "[" + Out + "]"
            : T.is(V, Kind::Tuple) ? "(" + Out + ")"
            : T.is(V, Kind::Set)   ? "set(" + Out + ")"
                                   : "object(" + Out + ")");
  }
}

/// What a pickle holds, with " ..." behind it when it breaks off, or the error.
static std::string read(StringRef Bytes, const PickleOptions &Options = {}) {
  Expected<DataTree> T = readPickle(Bytes, Options);
  if (!T)
    return toDiagnostics(T.takeError())[0].Message;
  return repr(*T, T->root()) + (T->truncation().empty() ? "" : " ...");
}

/// A pickle with zero bytes in it.
template <size_t N> static StringRef raw(const char (&Text)[N]) {
  return StringRef(Text, N - 1);
}

TEST(Pickle, NumbersOfEveryWidth) {
  EXPECT_EQ(read("K\x07."), "7");
  EXPECT_EQ(read(raw("M\x00\x01.")), "256");
  EXPECT_EQ(read("J\xff\xff\xff\xff."), "-1");
  EXPECT_EQ(read(raw("\x8a\x00.")), "0");
  EXPECT_EQ(read("\x8a\x01\x80."), "-128");
  EXPECT_EQ(read("\x8a\x02\xff\x7f."), "32767");
  // 2^63 - 1 and -2^63 still fit; 2^63 has nine bytes.
  EXPECT_EQ(read("\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f."),
            "9223372036854775807");
  EXPECT_EQ(read(raw("\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80.")),
            "-9223372036854775808");
  EXPECT_EQ(read(raw("\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x80\x00.")), "big");
  EXPECT_EQ(read(raw("\x8b\x02\x00\x00\x00\x01\x01.")), "257");
  EXPECT_EQ(read(raw("G\x3f\xf8\x00\x00\x00\x00\x00\x00.")), "1.500000");
  EXPECT_EQ(read("\x88."), "True");
  EXPECT_EQ(read("N."), "None");
}

TEST(Pickle, ProtocolZeroIsLines) {
  // pickle.dumps({'a': [1, True, 2.5, None], 'b': 10**20}, protocol=0)
  EXPECT_EQ(read("(dp0\nVa\np1\n(lp2\nI1\naI01\naF2.5\naNasVb\np3\n"
                 "L100000000000000000000L\ns."),
            "{'a': [1, True, 2.500000, None], 'b': big}");
  EXPECT_EQ(read("S'it\\'s \\x41'\n."), "'it's A'");
  EXPECT_EQ(read("V\\u00e9\n."), "'\xc3\xa9'");
}

TEST(Pickle, ContainersOfEveryProtocol) {
  EXPECT_EQ(read("\x80\x02](K\x01K\x02" "e."), "[1, 2]");
  EXPECT_EQ(read("\x80\x02]K\x01" "a."), "[1]");
  EXPECT_EQ(read(raw("\x80\x02}X\x01\x00\x00\x00kK\x05s.")), "{'k': 5}");
  EXPECT_EQ(read("\x80\x04\x8f(K\x01K\x02\x90."), "set(1, 2)");
  EXPECT_EQ(read("\x80\x04(K\x01\x91."), "set(1)");
  EXPECT_EQ(read("(K\x01K\x02K\x03K\x04t."), "(1, 2, 3, 4)");
  EXPECT_EQ(read("K\x01K\x02\x86."), "(1, 2)");
  EXPECT_EQ(read(")."), "()");
  EXPECT_EQ(read("\x80\x03" "C\x02hi."), "b'hi'");
  // A list that is filled in two batches, with another one in between.
  EXPECT_EQ(read("\x80\x02](](K\x01K\x02" "eK\x03" "e(K\x04K\x05" "e."),
            "[[1, 2], 3, 4, 5]");
}

TEST(Pickle, MemoNamesValuesTwice) {
  EXPECT_EQ(read("\x80\x02](]q\x01h\x01h\x01" "e."), "[[], [], []]");
  EXPECT_EQ(read(raw("\x80\x04(\x8c\x01" "a\x94h\x00t.")), "('a', 'a')");
  Expected<DataTree> T = readPickle("\x80\x02](]q\x01h\x01" "e.");
  ASSERT_TRUE(bool(T));
  ArrayRef<DataValue> Items = T->items(T->root());
  EXPECT_EQ(T->containerIndex(Items[0]), T->containerIndex(Items[1]));
  DataTree::Once Walk(*T);
  EXPECT_EQ(Walk.items(T->root()).size(), 2u);
  EXPECT_EQ(Walk.items(T->root()).size(), 0u);
  EXPECT_EQ(read("h\x07."), "the pickle is broken at byte 0: it refers to a "
                            "value that was never remembered");
}

TEST(Pickle, DataOfTheStandardLibrary) {
  EXPECT_EQ(read("ccollections\nOrderedDict\n)R(K\x01K\x02u."), "{1: 2}");
  // Python 2: OrderedDict([[1, 2]])
  EXPECT_EQ(read("ccollections\nOrderedDict\n(](](K\x01K\x02" "eetR."),
            "{1: 2}");
  EXPECT_EQ(read("ccollections\ndefaultdict\nc__builtin__\nlist\n\x85R."),
            "{}");
  EXPECT_EQ(read("c__builtin__\nset\n(](K\x03" "etR."), "set(3)");
  // b'\xe9' in protocol 2.
  EXPECT_EQ(read(raw("c_codecs\nencode\n(X\x02\x00\x00\x00\xc3\xa9"
                     "X\x06\x00\x00\x00latin1tR.")),
            "b'\xe9'");
}

TEST(Pickle, CodeIsRefusedByItsName) {
  EXPECT_EQ(read("cos\nsystem\n(Vtouch x\ntR."),
            "holds the Python object os.system, which is not data");
  EXPECT_EQ(read("\x80\x04\x8c\x02os\x8c\x06system\x93."),
            "holds the Python object os.system, which is not data");
  EXPECT_EQ(read("(ios\nsystem\n."),
            "holds the Python object os.system, which is not data");
  // What stands for data is not called for anything else.
  EXPECT_EQ(read("c__builtin__\nint\n(V7\ntR."),
            "holds the Python object builtins.int, which is not data");
  EXPECT_EQ(read("V0\nQ."), "holds the Python object persistent id, which is "
                            "not data");
}

TEST(Pickle, TheCallerMayUnderstandMore) {
  StringRef Names[] = {"torch._utils._rebuild_tensor_v2",
                       "torch.FloatStorage"};
  PickleOptions Options;
  Options.Globals = Names;
  Options.PersistentIds = true;
  EXPECT_EQ(read(raw("ctorch._utils\n_rebuild_tensor_v2\n((Vstorage\n"
                     "ctorch\nFloatStorage\ntQK\x00tR."),
                 Options),
            "object(torch._utils._rebuild_tensor_v2, (object(None, ('storage', "
            "torch.FloatStorage)), 0))");
}

TEST(Pickle, AnyNameOfCodeMayBeTaken) {
  PickleOptions Options;
  Options.AnyGlobal = true;
  // Nothing is called; what surrounds the object is read.
  EXPECT_EQ(read("](cos\nsystem\n(V1\ntRK\x01" "e.", Options),
            "[object(os.system, ('1')), 1]");
  EXPECT_EQ(read("](c__builtin__\nint\n(V7\ntRe.", Options),
            "[object(builtins.int, ('7'))]");
  // What stands for data still does.
  EXPECT_EQ(read("ccollections\nOrderedDict\n)R(V1\nK\x02u.", Options),
            "{'1': 2}");
  // A state, and the items of a class that extends dict or list.
  EXPECT_EQ(read("ca\nB\n)\x81}(V1\nK\x02ub.", Options),
            "object(a.B, (), {'1': 2})");
  EXPECT_EQ(read("ca\nB\n)\x81(V1\nK\x02u.", Options),
            "object(a.B, (), {'1': 2})");
  EXPECT_EQ(read("ca\nB\n)\x81(K\x01K\x02K\x03" "e.", Options),
            "object(a.B, (), [1, 2, 3])");
  // The result of a call is called: a method of a class.
  EXPECT_EQ(read("c__builtin__\ngetattr\n(ca\nB\nVm\ntR)R.", Options),
            "object(object(builtins.getattr, (a.B, 'm')), ())");
  // An object that has itself as an attribute loses its attributes.
  EXPECT_EQ(read("](ca\nB\n)\x81q\x07}(Vme\nh\x07ubK\x01" "e.", Options),
            "[object(a.B, ()), 1]");
  // So does a list its items that contain it.
  EXPECT_EQ(read("]q\x07(K\x01h\x07" "e.", Options), "[]");
}

TEST(Pickle, TellsWhereItEnded) {
  PickleOptions Options;
  uint64_t Read = 0;
  Options.Read = &Read;
  EXPECT_EQ(read("K\x07.K\x08.", Options), "7");
  EXPECT_EQ(Read, 3u);
}

TEST(Pickle, WhatBreaksOffGivesWhatCameBefore) {
  EXPECT_EQ(read("\x80\x02](K\x01K\x02"), "[1, 2] ...");
  EXPECT_EQ(read(raw("\x80\x02}(X\x01\x00\x00\x00k](K\x01K\x02X\xff")),
            "{'k': [1, 2]} ...");
  // A key without its value is dropped.
  EXPECT_EQ(read(raw("\x80\x02}(X\x01\x00\x00\x00kK\x01X\x01\x00\x00\x00l")),
            "{'k': 1} ...");
  EXPECT_EQ(read("\x80\x02"), "the pickle breaks off at byte 2");
  EXPECT_EQ(read(""), "the pickle breaks off at byte 0");
}

TEST(Pickle, HostileInputEndsSoon) {
  // Nesting costs no call stack.
  EXPECT_TRUE(StringRef(read(std::string(100000, '(') + ".")).contains("byte"));
  std::string Deep = std::string(2000000, ']');
  Expected<DataTree> T = readPickle(Deep);
  ASSERT_TRUE(bool(T));
  EXPECT_FALSE(T->truncation().empty());
  // 10^100 elements in a hundred lists of ten.
  std::string Bomb = "\x80\x04]\x94";
  for (unsigned I = 0; I != 100; ++I)
    Bomb += std::string("](") + "h" + char(I) + "h" + char(I) + "h" + char(I) +
            "h" + char(I) + "e\x94";
  Expected<DataTree> Laughs = readPickle(Bomb + ".");
  ASSERT_TRUE(bool(Laughs)) << toString(Laughs.takeError());
  EXPECT_EQ(Laughs->numContainers(), 101u);
  // Lengths and memo numbers beyond the file.
  EXPECT_EQ(read("X\xff\xff\xff\xff"), "the pickle breaks off at byte 5");
  EXPECT_EQ(read("Nr\xff\xff\xff\xff."),
            "the pickle is broken at byte 1: a memo number beyond the size of "
            "the file");
  EXPECT_EQ(read("\x8b\xff\xff\xff\xff."),
            "the pickle is broken at byte 0: a number of negative length");
  // A list in itself, at once and by way of another one.
  EXPECT_EQ(read(raw("\x80\x02]q\x00(h\x00" "e.")),
            "the pickle holds a container that contains itself");
  EXPECT_EQ(read(raw("\x80\x02]q\x00(](h\x00" "ee.")),
            "the pickle holds a container that contains itself");
}

TEST(JsonTree, IsTheSameData) {
  auto tree = [](StringRef Text) -> std::string {
    Expected<DataTree> T = readJsonTree(Text);
    if (!T)
      return toString(T.takeError());
    return repr(*T, T->root()) + (T->truncation().empty() ? "" : " ...");
  };
  EXPECT_EQ(tree("{\"t\": 1758580155793872443, \"a\": [true, null, 2.5]}"),
            "{'t': 1758580155793872443, 'a': [True, None, 2.500000]}");
  EXPECT_EQ(tree("{\"a\": [1, {\"b\": 2}, {\"c\": "),
            "{'a': [1, {'b': 2}, {}]} ...");
  EXPECT_EQ(tree("[\"a\\\"b\", \"a\\\"b\"]"), "['a\"b', 'a\"b']");
}
