//===- MarkdownTree.cpp - Trees of cmark ------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/MarkdownParser.h"
#include "llvm/ADT/SmallVector.h"
#include <cmark.h>

using namespace llvm;

namespace culprit {

using Kind = MarkdownNode::Kind;

static Kind kindOf(cmark_node *N) {
  switch (cmark_node_get_type(N)) {
  case CMARK_NODE_HEADING:
    return Kind::Heading;
  case CMARK_NODE_LIST:
    return Kind::List;
  case CMARK_NODE_ITEM:
    return Kind::Item;
  case CMARK_NODE_CODE_BLOCK:
    return Kind::CodeBlock;
  case CMARK_NODE_HTML_BLOCK:
    return Kind::HtmlBlock;
  case CMARK_NODE_BLOCK_QUOTE:
    return Kind::Quote;
  case CMARK_NODE_PARAGRAPH:
    return Kind::Paragraph;
  case CMARK_NODE_TEXT:
    return Kind::Text;
  case CMARK_NODE_HTML_INLINE:
    return Kind::Html;
  case CMARK_NODE_CODE:
    return Kind::Code;
  case CMARK_NODE_SOFTBREAK:
    return Kind::SoftBreak;
  case CMARK_NODE_LINEBREAK:
    return Kind::LineBreak;
  case CMARK_NODE_EMPH:
    return Kind::Emphasis;
  case CMARK_NODE_STRONG:
    return Kind::Strong;
  case CMARK_NODE_LINK:
  case CMARK_NODE_IMAGE:
    return Kind::Link;
  default:
    return Kind::Rule;
  }
}

static MarkdownNode *copy(cmark_node *From, unsigned LinesBefore,
                          BumpPtrAllocator &Memory) {
  auto Keep = [&](const char *Text) {
    return Text ? StringRef(Text).copy(Memory) : StringRef();
  };
  MarkdownNode *To = new (Memory) MarkdownNode;
  To->K = kindOf(From);
  To->Line =
      LinesBefore + static_cast<unsigned>(cmark_node_get_start_line(From));
  To->LastLine =
      LinesBefore + static_cast<unsigned>(cmark_node_get_end_line(From));
  switch (To->K) {
  case Kind::Heading:
    To->Number = cmark_node_get_heading_level(From);
    break;
  case Kind::List:
    To->Ordered = cmark_node_get_list_type(From) == CMARK_ORDERED_LIST;
    To->Number = cmark_node_get_list_start(From);
    break;
  case Kind::Link:
    To->Text = Keep(cmark_node_get_url(From));
    break;
  case Kind::CodeBlock:
    To->Info = Keep(cmark_node_get_fence_info(From));
    [[fallthrough]];
  default:
    To->Text = Keep(cmark_node_get_literal(From));
  }
  return To;
}

void forEachBlockOfCmark(StringRef Text, unsigned LinesBefore,
                         BumpPtrAllocator &Memory, MarkdownVisitor Each) {
  cmark_node *Document =
      cmark_parse_document(Text.data(), Text.size(), CMARK_OPT_VALIDATE_UTF8);
  // An iterator, not recursion, since the nesting is up to whoever wrote it.
  cmark_iter *It = cmark_iter_new(Document);
  SmallVector<MarkdownNode *, 16> Open;
  for (cmark_event_type Event = cmark_iter_next(It); Event != CMARK_EVENT_DONE;
       Event = cmark_iter_next(It)) {
    cmark_node *N = cmark_iter_get_node(It);
    if (N == Document)
      continue;
    if (Event == CMARK_EVENT_EXIT) {
      MarkdownNode *Done = Open.pop_back_val();
      if (Open.empty())
        Each(*Done);
      continue;
    }
    MarkdownNode *New = copy(N, LinesBefore, Memory);
    if (!Open.empty())
      Open.back()->append(New);
    cmark_node_type Type = cmark_node_get_type(N);
    bool IsLeaf = Type == CMARK_NODE_HTML_BLOCK ||
                  Type == CMARK_NODE_THEMATIC_BREAK ||
                  Type == CMARK_NODE_CODE_BLOCK || Type == CMARK_NODE_TEXT ||
                  Type == CMARK_NODE_SOFTBREAK ||
                  Type == CMARK_NODE_LINEBREAK || Type == CMARK_NODE_CODE ||
                  Type == CMARK_NODE_HTML_INLINE;
    // A leaf has no exit.
    if (!IsLeaf)
      Open.push_back(New);
    else if (Open.empty())
      Each(*New);
  }
  cmark_iter_free(It);
  cmark_node_free(Document);
}

} // namespace culprit
