//===- DataTree.cpp ---------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Support/DataTree.h"
#include "Support/Error.h"
#include "Support/LooseJson.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"
#include <algorithm>

using namespace llvm;

namespace culprit {

using Kind = DataValue::Kind;

Kind DataTree::kind(DataValue V) const {
  static constexpr Kind Kinds[] = {
      Kind::None,   Kind::Bool,   Kind::Int,   Kind::Int,    Kind::BigInt,
      Kind::Double, Kind::String, Kind::Bytes, Kind::Global, Kind::List,
      Kind::Tuple,  Kind::Set,    Kind::Dict,  Kind::Object};
  return Kinds[V.tag()];
}

std::optional<int64_t> DataTree::integer(DataValue V) const {
  switch (V.tag()) {
  case DataValue::IntTag:
    return static_cast<int64_t>(V.Bits) >> 4; // keeps the sign
  case DataValue::BoolTag:
    return V.payload();
  case DataValue::WideIntTag:
    return WideInts[V.payload()];
  default:
    return std::nullopt;
  }
}

std::optional<double> DataTree::number(DataValue V) const {
  if (V.tag() == DataValue::DoubleTag)
    return Doubles[V.payload()];
  if (std::optional<int64_t> Value = integer(V))
    return static_cast<double>(*Value);
  return std::nullopt;
}

StringRef DataTree::text(DataValue V) const {
  if (V.tag() >= DataValue::StringTag && V.tag() <= DataValue::GlobalTag)
    return Texts[V.payload()];
  return "";
}

ArrayRef<DataValue> DataTree::items(DataValue V) const {
  if (!isContainer(V))
    return {};
  const Container &C = Containers[V.payload()];
  return ArrayRef<DataValue>(Items.data() + C.Begin, C.Size);
}

DataValue DataTree::find(DataValue Dict, StringRef Key) const {
  if (Dict.tag() != DataValue::DictTag)
    return {};
  ArrayRef<DataValue> Pairs = items(Dict);
  for (size_t I = 0; I + 1 < Pairs.size(); I += 2)
    if (Pairs[I].tag() == DataValue::StringTag && text(Pairs[I]) == Key)
      return Pairs[I + 1];
  return {};
}

ArrayRef<DataValue> DataTree::Once::items(DataValue V) {
  if (!DataTree::isContainer(V) || Seen.test(Tree.containerIndex(V)))
    return {};
  Seen.set(Tree.containerIndex(V));
  return Tree.items(V);
}

DataValue DataTree::integer(int64_t Value) {
  constexpr int64_t Small = int64_t(1) << 59;
  if (Value >= -Small && Value < Small)
    return {DataValue::IntTag, static_cast<uint64_t>(Value)};
  WideInts.push_back(Value);
  return {DataValue::WideIntTag, WideInts.size() - 1};
}

DataValue DataTree::number(double Value) {
  Doubles.push_back(Value);
  return {DataValue::DoubleTag, Doubles.size() - 1};
}

DataValue DataTree::text(Kind K, StringRef Text) {
  Texts.push_back(Text);
  DataValue::Tag T = K == Kind::Bytes    ? DataValue::BytesTag
                     : K == Kind::Global ? DataValue::GlobalTag
                                         : DataValue::StringTag;
  return {T, Texts.size() - 1};
}

DataValue DataTree::container(Kind K) {
  Containers.emplace_back();
  DataValue::Tag T = K == Kind::Dict    ? DataValue::DictTag
                     : K == Kind::Tuple ? DataValue::TupleTag
                     : K == Kind::Set   ? DataValue::SetTag
                     : K == Kind::List  ? DataValue::ListTag
                                        : DataValue::ObjectTag;
  return {T, Containers.size() - 1};
}

bool DataTree::full() const {
  // What vectors hold beyond their size is reserved, but not touched.
  return Items.size() * sizeof(DataValue) +
             Containers.size() * sizeof(Container) +
             Texts.size() * sizeof(StringRef) +
             (WideInts.size() + Doubles.size()) * 8 +
             Saved.getBytesAllocated() >
         MaxBytes;
}

bool DataTree::append(DataValue To, ArrayRef<DataValue> Values) {
  Container &C = Containers[To.payload()];
  // Nothing is put into a container that is already inside another one,
  // unless the data contain themselves: the last link of a circle is always
  // made like this.
  for (DataValue V : Values)
    if (isContainer(V)) {
      if (C.Held || V.payload() == To.payload())
        return false;
      Containers[V.payload()].Held = 1;
    }
  constexpr size_t Most = size_t(1) << 30;
  size_t Wanted = C.Size + Values.size();
  if (Wanted > Most)
    return false;
  if (Wanted > C.Capacity) {
    if (C.Begin + C.Capacity != Items.size()) {
      // Other containers were filled since: move it to the end, with room to
      // grow, so that a list appended to a million times is moved 20 times.
      size_t Begin = Items.size(), Room = Wanted + (C.Size ? C.Size : 0);
      if ((Begin + Room) * sizeof(DataValue) > MaxBytes)
        return false;
      Items.resize(Begin + Room);
      std::copy_n(Items.begin() + C.Begin, C.Size, Items.begin() + Begin);
      C.Begin = Begin;
      C.Capacity = Room;
    } else {
      if ((C.Begin + Wanted) * sizeof(DataValue) > MaxBytes)
        return false;
      Items.resize(C.Begin + Wanted);
      C.Capacity = Wanted;
    }
  }
  std::copy(Values.begin(), Values.end(), Items.begin() + C.Begin + C.Size);
  C.Size = Wanted;
  return true;
}

namespace {
/// The pass over one JSON text.
class JsonTreeReader {
public:
  JsonTreeReader(StringRef Text, DataTree &Tree) : Text(Text), Tree(Tree) {}

  Error read();

private:
  DataValue string(StringRef Value);
  DataValue number(const LooseJson &In);
  bool close();

  StringRef Text;
  DataTree &Tree;
  /// Equal texts are one text of the tree.
  StringMap<DataValue> Known;
  /// Open containers, and behind each where its items begin in Pending.
  std::vector<std::pair<DataValue, size_t>> Open;
  std::vector<DataValue> Pending;
};
} // namespace

DataValue JsonTreeReader::string(StringRef Value) {
  auto [It, New] = Known.try_emplace(Value);
  if (New) {
    bool View = Value.begin() >= Text.begin() && Value.end() <= Text.end();
    It->second = Tree.text(Kind::String, View ? Value : Tree.save(Value));
  }
  return It->second;
}

DataValue JsonTreeReader::number(const LooseJson &In) {
  // Times in ns have more digits than a double.
  int64_t Value = 0;
  if (!In.text().getAsInteger(10, Value))
    return Tree.integer(Value);
  return Tree.number(In.number());
}

bool JsonTreeReader::close() {
  auto [Container, Begin] = Open.back();
  Open.pop_back();
  ArrayRef<DataValue> Values = ArrayRef<DataValue>(Pending).drop_front(Begin);
  if (Tree.kind(Container) == Kind::Dict && Values.size() % 2)
    Values = Values.drop_back();
  bool Fits = Tree.append(Container, Values) && !Tree.full();
  Pending.resize(Begin);
  Pending.push_back(Container);
  return Fits;
}

Error JsonTreeReader::read() {
  using Token = LooseJson::Token;
  LooseJson In(Text);
  for (;;) {
    switch (In.next()) {
    case Token::Object:
      Open.push_back({Tree.container(Kind::Dict), Pending.size()});
      continue;
    case Token::Array:
      Open.push_back({Tree.container(Kind::List), Pending.size()});
      continue;
    case Token::EndObject:
    case Token::EndArray:
      if (!close())
        return failure("the JSON holds more values than can be kept");
      continue;
    case Token::Key:
    case Token::String:
      Pending.push_back(string(In.text()));
      continue;
    case Token::Null:
      Pending.push_back({});
      continue;
    case Token::Bool:
      Pending.push_back(Tree.boolean(In.boolean()));
      continue;
    case Token::Number:
      Pending.push_back(number(In));
      continue;
    case Token::End:
      Tree.setRoot(Pending.front());
      return Error::success();
    case Token::Error:
      break;
    }
    break;
  }
  std::string Why = ("the JSON breaks at byte " + Twine(In.offset()) + ": " +
                     In.error())
                        .str();
  if (Open.empty())
    return failure(Why);
  while (!Open.empty())
    if (!close())
      return failure(Why);
  Tree.setRoot(Pending.front());
  Tree.setTruncation(std::move(Why));
  return Error::success();
}

Expected<DataTree> readJsonTree(StringRef Text) {
  Text.consume_front("\xEF\xBB\xBF");
  DataTree Tree(size_t(64 << 20) + 16 * Text.size());
  if (Error E = JsonTreeReader(Text, Tree).read())
    return E;
  return Tree;
}

} // namespace culprit
