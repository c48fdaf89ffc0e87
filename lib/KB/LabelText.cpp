//===- LabelText.cpp --------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/LabelText.h"
#include "KB/MarkdownNode.h"
#include "KB/MarkdownText.h"
#include "KB/Sections.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace culprit {

using Kind = MarkdownNode::Kind;

/// Splits at the first colon, of either script. False when there is none.
static bool splitColon(StringRef Text, StringRef &Name, StringRef &Rest) {
  size_t Half = Text.find(':'), Wide = Text.find("：");
  if (Half == StringRef::npos && Wide == StringRef::npos)
    return false;
  bool IsWide = Wide < Half;
  size_t At = IsWide ? Wide : Half;
  Name = Text.take_front(At).trim();
  Rest = Text.drop_front(At + (IsWide ? StringRef("：").size() : 1)).ltrim();
  return true;
}

/// `Symptom: ...` without emphasis, as plain-text logs have it.
static std::optional<LabelText> plainLabel(const MarkdownNode *N,
                                           const LabelContext &C) {
  if (C.UsesStrong || (C.InItem && !C.ItemLabels))
    return std::nullopt;
  StringRef Text = N->Text, Name, Rest;
  if (!splitColon(Text, Name, Rest) || Name.empty() || Name.size() > 40)
    return std::nullopt;
  std::optional<Section> S = parseSectionLabel(Name);
  // In lower case `reason:` and `file:` begin messages; take no synonyms.
  bool IsLabel = S && (!isLower(Name.front()) ||
                       Name.equals_insensitive(sectionLabel(*S)));
  bool IsOther = !S && C.HasEntry && !C.InSection && !isLower(Name.front()) &&
                 isOtherLabel(Name);
  if (!IsLabel && !IsOther)
    return std::nullopt;
  return LabelText{Name.str(), Rest.str(), 1, false};
}

std::optional<LabelText> labelAt(const MarkdownNode *N, const LabelContext &C) {
  Kind Type = N->K;
  if (Type == Kind::Text)
    return plainLabel(N, C);
  if (Type != Kind::Strong && Type != Kind::Emphasis)
    return std::nullopt;

  LabelText L;
  L.Strong = true;
  std::string Bold = inlineText(N);
  StringRef Name, Rest;
  const MarkdownNode *Next = N->Next;
  bool Colon = splitColon(Bold, Name, Rest);
  bool Alone = false, Dash = false;
  if (Colon) {
    // `**Symptom: the loss is nan**`; anything else with a colon inside is a
    // bold sentence.
    if (!Rest.empty() && !parseSectionLabel(Name))
      return std::nullopt;
    L.Rest = Rest.str();
  } else {
    Name = StringRef(Bold).trim();
    Alone = !Next || Next->K == Kind::SoftBreak || Next->K == Kind::LineBreak;
    if (!Alone) {
      if (Next->K != Kind::Text)
        return std::nullopt;
      Rest = Next->Text.ltrim();
      Colon = Rest.consume_front(":") || Rest.consume_front("：");
      for (StringRef D : {"- ", "– ", "— ", "-- ", "= "})
        Dash |= !Colon && !Dash && Rest.consume_front(D);
      L.Rest = Rest.ltrim().str();
      L.Nodes = 2;
    }
  }
  L.Name = Name.str();
  if (Name.empty() || (!Colon && !Alone && !Dash))
    return std::nullopt;
  if (parseSectionLabel(Name))
    return L;
  // A bold word with a colon that is no section. In a list it is content.
  bool Bare = Name.count(' ') < 3 && !Name.contains('`') &&
              (isUpper(Name.front()) || (Name.front() & 0x80) != 0);
  if (!C.HasEntry || !Bare || Type == Kind::Emphasis)
    return std::nullopt;
  if (C.InItem ? !(C.ItemLabels && isOtherLabel(Name))
               : !Colon && !isOtherLabel(Name))
    return std::nullopt;
  return L;
}

} // namespace culprit
