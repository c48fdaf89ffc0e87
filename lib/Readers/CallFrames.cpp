//===- CallFrames.cpp -------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/CallFrames.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace culprit {

/// Deeper frames of a stack are the launcher's; texts stay short.
static constexpr size_t MaxFramesOfText = 64;

std::string frameText(StringRef File, StringRef Line, StringRef Function) {
  std::string Out = File.str();
  if (!Line.empty() && Line != "0")
    Out += (":" + Line).str();
  if (!Function.empty())
    Out += ((Out.empty() ? "" : " ") + Function).str();
  return Out;
}

std::string joinFrames(ArrayRef<StringRef> InnermostFirst) {
  std::string Out;
  for (StringRef Frame : reverse(InnermostFirst.take_front(MaxFramesOfText)))
    Out += ((Out.empty() ? "" : " < ") + Frame).str();
  return Out;
}

StringRef CallFrames::frame(DataValue Frame) {
  if (!Tree.is(Frame, DataTree::Kind::Dict))
    return Tree.text(Frame);
  auto [It, New] = Frames.try_emplace(Tree.containerIndex(Frame));
  if (New) {
    std::optional<int64_t> Line = Tree.integer(Tree.find(Frame, "line"));
    It->second = frameText(Tree.text(Tree.find(Frame, "filename")),
                           Line ? std::to_string(*Line) : std::string(),
                           Tree.text(Tree.find(Frame, "name")));
  }
  return It->second;
}

StringId CallFrames::of(DataValue List) {
  ArrayRef<DataValue> Items = Tree.items(List);
  if (Items.empty() || Tree.is(List, DataTree::Kind::Dict))
    return NullString;
  auto [It, New] =
      Stacks.try_emplace(Tree.containerIndex(List), NullString);
  if (!New)
    return It->second;
  // Looking up a frame may move the others, so all are there first.
  Items = Items.take_front(MaxFramesOfText);
  for (DataValue Item : Items)
    frame(Item);
  SmallVector<StringRef, MaxFramesOfText> Texts;
  for (DataValue Item : Items)
    if (StringRef Text = frame(Item); !Text.empty())
      Texts.push_back(Text);
  std::string Joined = joinFrames(Texts);
  if (!Joined.empty())
    It->second = Strings(Joined);
  return It->second;
}

} // namespace culprit
