//===- LooseTree.cpp --------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Support/LooseTree.h"
#include "llvm/ADT/STLExtras.h"
#include <cmath>
#include <functional>

using namespace llvm;

namespace culprit {

using Token = LooseJson::Token;

bool LooseTree::fail(const char *Why) {
  Problem = Why;
  Nodes.clear();
  return false;
}

/// \p Value, copied unless it is part of \p Text.
StringRef LooseTree::keep(StringRef Value, StringRef Text) {
  std::less_equal<const char *> Before;
  if (Before(Text.begin(), Value.begin()) && Before(Value.end(), Text.end()))
    return Value;
  return Value.copy(Saved);
}

bool LooseTree::read(LooseJson &In, StringRef Text) {
  return read(In, Text, In.next());
}

bool LooseTree::read(LooseJson &In, StringRef Text, Token T) {
  Problem = nullptr;
  // One huge record must not hold its memory until the end of the file.
  if (Nodes.capacity() > (1 << 16))
    std::vector<Node>().swap(Nodes);
  Nodes.clear();
  Open.clear();
  Saved.Reset();
  StringRef Key;
  for (;; T = In.next()) {
    switch (T) {
    case Token::Key:
      Key = keep(In.text(), Text);
      continue;
    case Token::EndObject:
    case Token::EndArray:
      Nodes[Open.back()].End = Nodes.size();
      Open.pop_back();
      break;
    case Token::Error:
    case Token::End:
      return fail(In.error() ? In.error() : "nothing is there");
    case Token::Object:
    case Token::Array:
      if (T == Token::Array && !Key.empty() && is_contained(Skipped, Key)) {
        if (!In.skip(T))
          return fail(In.error());
        Key = "";
        break;
      }
      Open.push_back(Nodes.size());
      [[fallthrough]];
    default: {
      if (Nodes.size() == MaxValues)
        return fail("it has more than 4 million values");
      if (!Open.empty() && !Key.empty()) {
        // A container is open itself by now.
        bool Inside = T == Token::Object || T == Token::Array;
        if (size_t Depth = Open.size() - Inside)
          Nodes[Open[Depth - 1]].Keys |= bitOf(Key);
      }
      Node &N = Nodes.emplace_back();
      N.Key = Key;
      Key = "";
      N.Kind = T;
      N.End = Nodes.size();
      if (T == Token::Number || T == Token::Bool)
        N.Number = In.number();
      if (T == Token::String || T == Token::Number)
        N.Text = keep(In.text(), Text);
    }
    }
    if (Open.empty())
      return true;
  }
}

LooseValue LooseTree::root() const {
  if (Nodes.empty())
    return {};
  LooseValue V(this, 0);
  V.End = Nodes.size();
  return V;
}

bool LooseValue::isNull() const {
  return !Tree || Tree->Nodes[Index].Kind == Token::Null;
}

bool LooseValue::isObject() const {
  return Tree && Tree->Nodes[Index].Kind == Token::Object;
}

bool LooseValue::isArray() const {
  return Tree && Tree->Nodes[Index].Kind == Token::Array;
}

bool LooseValue::isText() const {
  return Tree && Tree->Nodes[Index].Kind == Token::String;
}

LooseValue LooseValue::first() const {
  if ((!isObject() && !isArray()) || Tree->Nodes[Index].End == Index + 1)
    return {};
  LooseValue V(Tree, Index + 1);
  V.End = Tree->Nodes[Index].End;
  return V;
}

LooseValue LooseValue::next() const {
  if (!Tree || Tree->Nodes[Index].End >= End)
    return {};
  LooseValue V(Tree, Tree->Nodes[Index].End);
  V.End = End;
  return V;
}

LooseValue LooseValue::operator[](StringRef Key) const {
  if (!isObject())
    return {};
  // Asked a hundred times a record: the first bytes tell nearly all keys
  // apart.
  const std::vector<LooseTree::Node> &Nodes = Tree->Nodes;
  if (!Key.empty() && !(Nodes[Index].Keys & LooseTree::bitOf(Key)))
    return {};
  const uint32_t Behind = Nodes[Index].End;
  for (uint32_t I = Index + 1; I < Behind; I = Nodes[I].End) {
    StringRef Own = Nodes[I].Key;
    if (Own.size() == Key.size() && (Key.empty() || Own[0] == Key[0]) &&
        Own == Key) {
      LooseValue V(Tree, I);
      V.End = Behind;
      return V;
    }
  }
  return {};
}

LooseValue LooseValue::any(ArrayRef<StringLiteral> Keys) const {
  for (StringRef Key : Keys)
    if (LooseValue V = (*this)[Key]; V && !V.isNull())
      return V;
  return {};
}

void LooseValue::each(function_ref<bool(LooseValue)> Each) const {
  for (LooseValue V = first(); V; V = V.next())
    if (!Each(V))
      return;
}

size_t LooseValue::size() const {
  size_t Count = 0;
  for (LooseValue V = first(); V; V = V.next())
    ++Count;
  return Count;
}

StringRef LooseValue::key() const { return Tree ? Tree->Nodes[Index].Key : ""; }

StringRef LooseValue::text() const {
  return isText() ? Tree->Nodes[Index].Text : "";
}

StringRef LooseValue::written() const {
  return Tree ? Tree->Nodes[Index].Text : "";
}

std::optional<double> LooseValue::number() const {
  if (!Tree)
    return std::nullopt;
  const LooseTree::Node &N = Tree->Nodes[Index];
  if (N.Kind == Token::Number)
    return N.Number;
  return N.Kind == Token::String ? parseNumber(N.Text) : std::nullopt;
}

std::optional<int64_t> LooseValue::integer() const {
  if (!Tree)
    return std::nullopt;
  const LooseTree::Node &N = Tree->Nodes[Index];
  if (N.Kind != Token::Number && N.Kind != Token::String)
    return std::nullopt;
  // Seeds have more digits than a double.
  int64_t Value = 0;
  if (!N.Text.getAsInteger(10, Value))
    return Value;
  std::optional<double> D = number();
  if (!D || !(std::fabs(*D) < 9e18) || *D != std::trunc(*D))
    return std::nullopt;
  return static_cast<int64_t>(*D);
}

std::optional<bool> LooseValue::boolean() const {
  if (!Tree || Tree->Nodes[Index].Kind != Token::Bool)
    return std::nullopt;
  return Tree->Nodes[Index].Number != 0;
}

} // namespace culprit
