//===- MarkdownText.cpp -----------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/MarkdownText.h"
#include "llvm/ADT/Twine.h"
#include <cmark.h>

using namespace llvm;

namespace culprit {

static StringRef literal(cmark_node *N) {
  const char *Text = cmark_node_get_literal(N);
  return Text ? StringRef(Text) : StringRef();
}

/// Whether the line that \p Out ends with is a row of a table; CommonMark has
/// no tables and would run their rows together.
static bool inTableRow(StringRef Out) {
  size_t Start = Out.rfind('\n');
  StringRef Line = Start == StringRef::npos ? Out : Out.drop_front(Start + 1);
  return Line.ltrim().starts_with("|");
}

static void renderCode(std::string &Out, StringRef Code) {
  StringRef Ticks = Code.contains('`') ? "``" : "`";
  StringRef Space = Code.starts_with("`") || Code.ends_with("`") ? " " : "";
  Out += (Twine(Ticks) + Space + Code + Space + Ticks).str();
}

/// Emits \p N and what is below it. An iterator, not recursion, since the
/// nesting is up to whoever wrote the file.
void renderInline(std::string &Out, cmark_node *N) {
  cmark_iter *It = cmark_iter_new(N);
  while (true) {
    cmark_event_type Event = cmark_iter_next(It);
    if (Event == CMARK_EVENT_DONE)
      break;
    cmark_node *At = cmark_iter_get_node(It);
    switch (cmark_node_get_type(At)) {
    case CMARK_NODE_TEXT:
    case CMARK_NODE_HTML_INLINE:
      Out += literal(At);
      break;
    case CMARK_NODE_CODE:
      renderCode(Out, literal(At));
      break;
    case CMARK_NODE_SOFTBREAK:
      Out += inTableRow(Out) ? '\n' : ' ';
      break;
    case CMARK_NODE_LINEBREAK:
      Out += '\n';
      break;
    case CMARK_NODE_LINK:
    case CMARK_NODE_IMAGE:
      if (Event == CMARK_EVENT_EXIT) {
        StringRef Url = cmark_node_get_url(At);
        StringRef Bare = Url;
        Bare.consume_front("mailto:");
        if (!Url.empty() && !StringRef(Out).ends_with(Bare))
          Out += (" (" + Twine(Url) + ")").str();
      }
      break;
    default:
      break;
    }
  }
  cmark_iter_free(It);
}

std::string inlineText(cmark_node *Block) {
  std::string Out;
  for (cmark_node *N = cmark_node_first_child(Block); N; N = cmark_node_next(N))
    renderInline(Out, N);
  return Out;
}

std::string codeBlockText(cmark_node *N) {
  const char *Info = cmark_node_get_fence_info(N);
  StringRef Code = literal(N);
  StringRef Fence = Code.contains("```") ? "````" : "```";
  std::string Out = Fence.str();
  if (Info)
    Out += Info;
  Out += '\n';
  Out += Code;
  if (!Code.empty() && !Code.ends_with("\n"))
    Out += '\n';
  Out += Fence;
  return Out;
}

std::string flatText(cmark_node *N) {
  std::string Out;
  cmark_iter *It = cmark_iter_new(N);
  for (cmark_event_type Event = cmark_iter_next(It); Event != CMARK_EVENT_DONE;
       Event = cmark_iter_next(It)) {
    StringRef Text = literal(cmark_iter_get_node(It));
    if (Event != CMARK_EVENT_ENTER || Text.empty())
      continue;
    if (!Out.empty())
      Out += ' ';
    Out += Text;
  }
  cmark_iter_free(It);
  return Out;
}

} // namespace culprit
