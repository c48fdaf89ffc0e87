//===- PickleMachine.cpp ----------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Support/PickleMachine.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace culprit {

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

/// Those of them that a call makes data of.
static bool isDataCall(StringRef Name) {
  for (StringRef Known :
       {"collections.OrderedDict", "collections.defaultdict", "builtins.set",
        "builtins.frozenset", "builtins.bytes", "builtins.bytearray",
        "_codecs.encode"})
    if (Name == Known)
      return true;
  return false;
}

PickleMachine::Status PickleMachine::pop() {
  if (!Marks.empty() && Marks.back() == Stack.size()) {
    Marks.pop_back();
    return Status::Go;
  }
  if (!holds(1))
    return broken("nothing to drop");
  Stack.pop_back();
  return Status::Go;
}

PickleMachine::Status PickleMachine::popMark() {
  if (Marks.empty())
    return broken("nothing to drop");
  Stack.resize(Marks.back());
  Marks.pop_back();
  return Status::Go;
}

PickleMachine::Status PickleMachine::repeat() {
  return holds(1) ? push(Stack.back()) : broken("nothing to repeat");
}

std::optional<DataValue> PickleMachine::result() const {
  if (!holds(1) || !Marks.empty())
    return std::nullopt;
  return Stack.back();
}

/// Puts the values from \p From on into the container below them.
PickleMachine::Status PickleMachine::fill(size_t From) {
  ArrayRef<DataValue> Values = ArrayRef<DataValue>(Stack).drop_front(From);
  DataValue To = Stack[From - 1];
  Kind K = Tree.kind(To);
  if (K == Kind::Object && Options.AnyGlobal) {
    // The items of a class that extends list or dict.
    bool Pairs = Values.size() % 2 == 0;
    for (size_t I = 0; I < Values.size() && Pairs; I += 2)
      Pairs = Tree.is(Values[I], Kind::String) || Tree.is(Values[I], Kind::Int);
    DataValue Inner = Tree.container(Pairs ? Kind::Dict : Kind::List);
    if (Tree.append(Inner, Values) && !Tree.append(To, Inner) && Tree.full())
      return tooMuch();
    Stack.resize(From);
    return Status::Go;
  }
  if (K == Kind::Dict ? Values.size() % 2 != 0
                      : K != Kind::List && K != Kind::Set)
    return broken("items for what is no container");
  if (!Tree.append(To, Values)) {
    if (Tree.full())
      return tooMuch();
    if (Options.AnyGlobal) {
      Stack.resize(From);
      return Status::Go;
    }
    return fail("the pickle holds a container that contains itself",
                "no real dump does; it is broken or made to harm");
  }
  Stack.resize(From);
  return Status::Go;
}

PickleMachine::Status PickleMachine::makeTuple(size_t Count) {
  if (!holds(Count))
    return broken("a tuple of values that are missing");
  DataValue Tuple = Tree.container(Kind::Tuple);
  Tree.append(Tuple, ArrayRef<DataValue>(Stack).take_back(Count));
  Stack.resize(Stack.size() - Count);
  return push(Tuple);
}

PickleMachine::Status PickleMachine::fromMark(Kind K) {
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

PickleMachine::Status PickleMachine::addTop(size_t Count,
                                            const char *Missing) {
  return holds(Count + 1) ? fill(Stack.size() - Count) : broken(Missing);
}

PickleMachine::Status PickleMachine::addFromMark() {
  if (Marks.empty())
    return broken("items without a container");
  size_t From = Marks.back();
  Marks.pop_back();
  if (From <= floor())
    return broken("items without a container");
  return fill(From);
}

PickleMachine::Status PickleMachine::put(uint64_t Index) {
  if (!holds(1))
    return broken("nothing to remember");
  // Picklers count up from 0 or 1, one a value.
  if (Index > Size)
    return broken("a memo number beyond the size of the file");
  if (Index >= Memo.size())
    Memo.resize(Index + 1);
  Memo[Index] = Stack.back();
  return Status::Go;
}

PickleMachine::Status PickleMachine::get(uint64_t Index) {
  if (Index >= Memo.size())
    return broken("it refers to a value that was never remembered");
  return push(Memo[Index]);
}

PickleMachine::Status PickleMachine::global(StringRef Module, StringRef Name) {
  if (Module == "__builtin__")
    Module = "builtins";
  std::string Whole = (Module + "." + Name).str();
  if (!Options.AnyGlobal && !isDataName(Whole) &&
      !is_contained(Options.Globals, Whole))
    return refuse(Whole);
  return push(Tree.text(Kind::Global, Tree.save(Whole)));
}

PickleMachine::Status PickleMachine::globalFromStack() {
  if (!holds(2))
    return broken("a name that is missing");
  StringRef Name = Tree.text(Stack.back());
  StringRef Module = Tree.text(Stack[Stack.size() - 2]);
  Stack.resize(Stack.size() - 2);
  return global(Module, Name);
}

PickleMachine::Status PickleMachine::call() {
  if (!holds(2))
    return broken("a call without a function");
  DataValue Arguments = Stack.back(), Function = Stack[Stack.size() - 2];
  Stack.resize(Stack.size() - 2);
  StringRef Name = Tree.text(Function);
  // The result of a call may be called: a method of a class.
  const bool Callable =
      Tree.is(Function, Kind::Global) ||
      (Options.AnyGlobal && Tree.is(Function, Kind::Object));
  if (!Callable || !Tree.is(Arguments, Kind::Tuple))
    return broken("a call of what is no function");
  // Appending moves items, so the arguments are copied.
  SmallVector<DataValue, 4> Values(Tree.items(Arguments));
  if (is_contained(Options.Globals, Name) ||
      (Options.AnyGlobal && !isDataCall(Name))) {
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

PickleMachine::Status PickleMachine::callWithKeywords() {
  if (!holds(3))
    return broken("a call without a function");
  Stack.pop_back();
  return call();
}

PickleMachine::Status PickleMachine::build() {
  if (!holds(2))
    return broken("a state without an object");
  DataValue State = Stack.back(), Object = Stack[Stack.size() - 2];
  Stack.pop_back();
  if (Tree.is(Object, Kind::Object)) {
    if (!Tree.append(Object, State) && !Options.AnyGlobal)
      return broken("a state that contains its object");
    return Status::Go;
  }
  // Attributes that were set on an OrderedDict: a state_dict's _metadata.
  if (Tree.is(Object, Kind::Dict) || Options.AnyGlobal)
    return Status::Go;
  return broken("a state for what is no object");
}


PickleMachine::Status PickleMachine::persistent(StringRef Id) {
  if (!Options.PersistentIds)
    return refuse("persistent id " + Id.str());
  DataValue Made = Tree.container(Kind::Object);
  Tree.append(Made, {DataValue(), Tree.text(Kind::String, Id)});
  return push(Made);
}

PickleMachine::Status PickleMachine::persistentFromStack() {
  if (!holds(1))
    return broken("a persistent id that is missing");
  if (!Options.PersistentIds)
    return refuse("persistent id");
  DataValue Made = Tree.container(Kind::Object);
  Tree.append(Made, {DataValue(), Stack.back()});
  Stack.pop_back();
  return push(Made);
}

std::optional<DataValue> PickleMachine::close() {
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
    return std::nullopt;
  return Stack.front();
}

} // namespace culprit
